"""Counting the non-finite elements of an array on the host, at the speed of its memory.

What an object is, is seen from what it has, so that neither numpy nor jax is imported here.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from math import prod
from typing import Any

from firstnan import _core

_MAX_THREADS = 1024
_DEFAULT_THREADS = 8
"""Memory is as fast as it gets with fewer threads than a large machine has cores."""

_DLPACK_VERSION = (1, 1)
"""The first with the types of eight bits and fewer."""
_HOST_DEVICES = {1, 3, 11}
"""In dlpack.h kDLCPU, kDLCUDAHost and kDLROCMHost: memory that the processor reads where it lies."""
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 9: "VPI", 10: "ROCm", 12: "an extension's device",
            13: "CUDA managed memory", 14: "oneAPI", 15: "WebGPU", 16: "Hexagon", 17: "MAIA", 18: "Trainium"}  # fmt: skip


class Classified:
    """Elements counted by class: those that are `checked` are `finite` plus `nonfinite`."""

    __slots__ = ()
    checked: int
    nan: int
    positive_infinity: int
    negative_infinity: int

    @property
    def nonfinite(self) -> int:
        return self.nan + self.positive_infinity + self.negative_infinity

    @property
    def finite(self) -> int:
        return self.checked - self.nonfinite


@dataclass(frozen=True, slots=True)
class FiniteCounts(Classified):
    """The counts of one array. `checked` elements are `finite` plus `nonfinite`.

    `maximum_absolute_finite` is exact in binary64, and 0.0 where no element is finite; of integers beyond 2**53 it is
    rounded to nearest. `first_nonfinite` is the index in C order, whatever the order in memory, or None; in an Arrow
    array nulls are passed over but keep their index.
    """

    checked: int
    nan: int
    positive_infinity: int
    negative_infinity: int
    maximum_absolute_finite: float
    first_nonfinite: int | None


def count_finite(array: Any, *, threads: int | None = None) -> FiniteCounts:
    """Counts NaN, +Inf and -Inf, the largest finite magnitude, and the index of the first non-finite element.

    Args:
        array: of any shape and strides: a numpy array of floats, complex numbers, integers or booleans, with the types
            of ml_dtypes (bfloat16, float8 and smaller), in either byte order; a JAX array in the memory of the host,
            sharded or not; an Arrow array of numbers or booleans, whole or in chunks (`__arrow_c_array__`,
            `__arrow_c_stream__`), whose nulls are not elements; whatever else has DLPack on the host, such as a PyTorch
            tensor; or the buffer protocol, such as a memoryview. Nothing is copied but blocks of 8 KiB of what is not
            contiguous or has nulls, and what its own library copies to hand it out. Nothing may write to the array
            during the call.
        threads: 1 to 1,024; None for those that this process may run on, 8 at most. Arrays of less than 4 MiB take one.

    A complex element counts once: NaN if either part is NaN, else by the sign of its first infinite part; its magnitude
    is the larger of its parts'. Integers and booleans are finite by nature. Subnormals are finite. These are the rules
    of `firstnan.jax.count_stages` too.

    Raises:
        TypeError: no array, an array of objects or of another type that holds no number, or a masked array; an Arrow
            array of strings, a dictionary, an extension type or a nested type.
        BufferError: the memory is not on the host, or is held by other processes too; or a buffer of pointers to rows.
        ValueError: threads is out of bounds, or an Arrow stream fails.
        Whatever the array's own `__dlpack__` or `__arrow_c_stream__` raises.
    """
    workers = _workers(threads)
    if isinstance(array, type):
        raise TypeError(f"the class {array.__name__} is no array")
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(array, jax.Array):
        return _count_jax(jax, array, workers)
    dtype = getattr(array, "dtype", None)
    if dtype is not None and hasattr(array, "__array_interface__"):
        return FiniteCounts(*_count_numpy(array, dtype, workers))
    # Before DLPack and the buffer protocol: an Arrow array has those too, and they know no nulls.
    if hasattr(array, "__arrow_c_array__"):
        return FiniteCounts(*_core.count_arrow_array(*array.__arrow_c_array__(), threads=workers))
    if hasattr(array, "__arrow_c_stream__"):
        return FiniteCounts(*_core.count_arrow_stream(array.__arrow_c_stream__(), threads=workers))
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        return FiniteCounts(*_core.count_dlpack(_capsule(array), threads=workers))
    try:
        view = memoryview(array)
    except TypeError:
        raise TypeError(f"a {type(array).__name__} has no buffer that can be counted") from None
    with view:
        if view.ndim == 0:
            return FiniteCounts(*_core.count_finite(view.tobytes(), format=view.format, threads=workers))
        return FiniteCounts(*_core.count_finite(view, threads=workers))


def _capsule(array: Any) -> Any:
    kind, number = array.__dlpack_device__()
    kind = int(kind)
    if kind not in _HOST_DEVICES:
        name = _DEVICES.get(kind, f"a device of DLPack's type {kind}")
        raise BufferError(f"the array is on {name} (number {number}), not in the memory of the host: copy it there first")
    try:
        return array.__dlpack__(max_version=_DLPACK_VERSION)
    except TypeError:
        # A producer of before version 1 has no such argument.
        return array.__dlpack__()


def _workers(threads: int | None) -> int:
    if threads is None:
        affinity = getattr(os, "sched_getaffinity", None)
        return min(_DEFAULT_THREADS, len(affinity(0)) if affinity else os.cpu_count() or 1)
    if type(threads) is not int or not 1 <= threads <= _MAX_THREADS:
        raise ValueError(f"threads must be an int from 1 to {_MAX_THREADS:,}, or None")
    return threads


def _count_numpy(array: Any, dtype: Any, workers: int) -> tuple[int, int, int, int, float, int | None]:
    if hasattr(array, "mask"):
        raise TypeError("a masked array: count its data and its mask by themselves")
    if dtype.hasobject:
        raise TypeError("an array of objects holds no numbers in its memory")
    if dtype.kind in "mMSUT" or dtype.names is not None or dtype.subdtype is not None:
        raise TypeError(f"dtype {dtype.name} holds no number that can be counted")
    # numpy exports no buffer of ml_dtypes' types; a view as integers of the same width is of any strides. A complex
    # number of 16 bytes is as wide as no integer, and has a buffer.
    words = array.reshape(array.shape or (1,))
    if dtype.itemsize in (1, 2, 4, 8):
        words = words.view(f"u{dtype.itemsize}")
    swapped = dtype.byteorder == ">" or (dtype.byteorder == "=" and sys.byteorder == "big")
    return _core.count_finite(words, dtype.name, byte_swapped=swapped, threads=workers)


def _count_jax(jax: Any, array: Any, workers: int) -> FiniteCounts:
    if isinstance(array, jax.core.Tracer):
        raise TypeError("a traced array has no values yet: inside jit use firstnan.jax.count_stages")
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        raise TypeError("typed keys of a random generator hold no numbers")
    if not array.is_fully_addressable:
        raise BufferError("other processes hold part of the array: count each of its addressable_shards")
    platforms = {device.platform for device in array.devices()}
    if platforms != {"cpu"}:
        raise BufferError(f"the array is on {', '.join(sorted(platforms))}: count it there with firstnan.jax.count_stages")
    parts = []
    for shard in array.addressable_shards:
        if shard.replica_id == 0:
            host = shard.data.__array__()
            *sums, first = _count_numpy(host, host.dtype, workers)
            starts = [index.indices(extent)[0] for index, extent in zip(shard.index, array.shape, strict=True)]
            parts.append((sums, None if first is None else _moved(first, host.shape, starts, array.shape)))
    checked, nan, positive, negative, largest = zip(*(sums for sums, _ in parts), strict=True)
    first = min((first for _, first in parts if first is not None), default=None)
    return FiniteCounts(sum(checked), sum(nan), sum(positive), sum(negative), max(largest), first)


def _moved(index: int, shape: tuple[int, ...], starts: list[int], whole: tuple[int, ...]) -> int:
    """The index in the whole array of an element of one of its blocks, both in C order."""
    out = 0
    for axis, start in enumerate(starts):
        out += (index // prod(shape[axis + 1 :]) % shape[axis] + start) * prod(whole[axis + 1 :])
    return out
