"""Counting the five stages of a step: a pure function for use inside `jit`.

Each leaf costs one pass: its bits are classified and reduced by a single reduction with four results. What comes back
is one small uint32 array, a row for each leaf, so that it can leave a jitted step, be stacked by `scan` or `vmap`, and
cross to the host in one transfer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from firstnan import STAGES
from firstnan.jax.formats import COMPLEX_PARTS, FORMATS, INTEGERS, FloatFormat, magnitude_of_pattern
from firstnan.jax.paths import leaf_path
from firstnan.jax.tally import LeafCount, Tally

# Columns of a row: nan, +inf, -inf and the largest finite magnitude's pattern, each as a high and a low half.
ROW_WIDTH = 8

_ONE_LIMB = 1 << 32

# Rows of at least this many elements are reduced first and their results after: XLA on CPU gives rows to several threads
# and keeps a row in vector registers. Over a step of 130 ms with ten million parameters, two cores, counting everything
# in it took 13 ms so and 19 ms in one reduction (the median of 30 paired rounds; `benches/probes.py`).
_LONG_ROW = 128


class LeafKind(NamedTuple):
    """What is static about one counted leaf: its stage, its path in the stage's pytree, dtype name, element count."""

    stage: str
    path: str
    dtype: str
    size: int


@partial(jax.tree_util.register_dataclass, data_fields=["data"], meta_fields=["leaves", "stages"])
@dataclass(frozen=True, slots=True)
class StageCounts:
    """Counts of every leaf of the stages that were measured. A pytree: `data` is its one array, the rest is static.

    `data` is uint32[..., leaves, 8], on the device inside `jit`; `leaves` names its rows; `stages` are those measured,
    in order. Leading axes appear where `scan`, `vmap` or `shard_map` stacked several steps or shards.
    """

    data: Any
    leaves: tuple[LeafKind, ...]
    stages: tuple[str, ...]

    def to_host(self) -> Tally:
        """The counts as Python numbers. Waits for the device.

        Raises:
            ValueError: the counts are stacked; take them one by one with `unstack`.
        """
        data = np.asarray(self.data)
        if data.ndim != 2:
            raise ValueError(f"counts are stacked along {data.ndim - 2} axes: use unstack() and read them one by one")
        return Tally(tuple(map(_leaf_count, self.leaves, data.tolist())), self.stages)

    def unstack(self) -> Iterator[StageCounts]:
        """Counts along the leading axis: steps of a scan, examples of a vmap, shards. Waits for the device."""
        data = np.asarray(self.data)
        if data.ndim < 3:
            raise ValueError("counts are not stacked: use to_host()")
        return (StageCounts(part, self.leaves, self.stages) for part in data)


def count_stages(
    *,
    input: Any = None,
    forward: Any = None,
    loss: Any = None,
    backward: Any = None,
    optimizer: Any = None,
) -> StageCounts:
    """Counts NaN, +Inf, -Inf and the largest finite magnitude in each leaf of each stage given.

    Pure, and part of the computation it is called in: inside `jit` the counts are made on the device and the values
    themselves go nowhere. A stage that is None was not measured, which is not the same as a stage without elements.

    Args:
        input: the batch.
        forward: activations or outputs.
        loss: the loss, and named terms of it.
        backward: the gradients, before any reduction that could spread a NaN.
        optimizer: the updates with the new optimizer state, and the new parameters where they are at hand.

    Leaves may be of any shape, and of every dtype that JAX or ml_dtypes has. A complex element counts once: NaN if
    either part is NaN, else by the sign of its first infinite part; its magnitude is the larger of its parts' (never
    abs(), which overflows). Integers, booleans, typed keys of random generators and float0 are finite by nature and
    counted as checked; an integer leaf has a magnitude of its own that stays out of its stage's, since ids have no
    scale. Under NamedSharding counts are of the whole array, inside `shard_map` and `vmap` of one shard or example.
    A numpy leaf is counted on the host, as it is, before any conversion that JAX would make.

    Raises:
        TypeError: a leaf that is no array or number, named by stage and path.
    """
    given = dict(zip(STAGES, (input, forward, loss, backward, optimizer), strict=True))
    stages = tuple(stage for stage, tree in given.items() if tree is not None)
    leaves: list[LeafKind] = []
    rows: list[Any] = []
    for stage in stages:
        for path, leaf in jax.tree_util.tree_flatten_with_path(given[stage])[0]:
            name = leaf_path(path)
            dtype, size, row = _count(leaf, f"{stage} leaf {name!r}")
            leaves.append(LeafKind(stage, name, dtype, size))
            rows.append(row)
    return StageCounts(_stack(rows), tuple(leaves), stages)


def _stack(rows: list[Any]) -> Any:
    if any(isinstance(row, jax.core.Tracer) for row in rows):
        return jnp.stack(rows)
    # Outside jit the leaves may live on different devices, which no stacking on a device could join.
    host = jax.device_get(rows)
    return np.stack(host) if host else np.zeros((0, ROW_WIDTH), np.uint32)


def _count(leaf: Any, name: str) -> tuple[str, int, Any]:
    if isinstance(leaf, jax.Array):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return str(leaf.dtype), leaf.size, np.zeros(ROW_WIDTH, np.uint32)
        kind = _known_dtype(leaf.dtype, name)
        if kind.endswith(("64", "128")):
            with jax.enable_x64(True):
                return kind, leaf.size, _device_row(lax.stop_gradient(leaf))
        return kind, leaf.size, _device_row(lax.stop_gradient(leaf))
    if not isinstance(leaf, (np.ndarray, np.generic, bool, int, float, complex)):
        raise TypeError(f"{name} is a {type(leaf).__name__}, which is no array or number")
    if isinstance(leaf, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: count its data and its mask by themselves")
    array = np.asarray(leaf)
    if array.dtype == jax.dtypes.float0:
        return "float0", array.size, np.zeros(ROW_WIDTH, np.uint32)
    return _known_dtype(array.dtype, name), array.size, _host_row(array)


def _known_dtype(dtype: Any, name: str) -> str:
    kind = str(dtype.name)
    if kind not in FORMATS and kind not in COMPLEX_PARTS and kind not in INTEGERS:
        raise TypeError(f"{name} has dtype {kind}, which holds no number that can be counted")
    return kind


def _classify(parts: list[Any], layout: FloatFormat, xp: ModuleType) -> tuple[Any, Any, Any, Any]:
    """NaN, +Inf and -Inf as booleans, and the magnitude's pattern where finite, of elements made of these parts."""
    unsigned = parts[0].dtype.type
    largest, sign = unsigned(layout.largest), unsigned(layout.sign)
    clear = unsigned(~layout.sign & ((1 << layout.bits) - 1))
    # zeros_like, since what is made from a shape alone would not be sharded as the leaf is.
    nan = positive = negative = none = xp.zeros_like(parts[0], dtype=bool)
    magnitude = xp.zeros_like(parts[0])
    for bits in parts:
        part = bits & clear
        infinite = part == unsigned(layout.largest + 1) if layout.has_infinity else none
        nan = nan | ((bits == sign) if layout.nan_is_negative_zero else (part > largest) & ~infinite)
        first = infinite & ~(positive | negative)
        below_zero = (bits & sign) != unsigned(0)
        positive, negative = positive | first & ~below_zero, negative | first & below_zero
        magnitude = xp.maximum(magnitude, part)
    magnitude = xp.where(nan | positive | negative, unsigned(0), magnitude)
    return nan, positive & ~nan, negative & ~nan, magnitude


def _absolute(integers: Any, xp: ModuleType) -> Any:
    """The magnitude of integers, in an unsigned type that holds that of the most negative one too."""
    unsigned = np.dtype(f"uint{max(32, 8 * integers.dtype.itemsize)}")
    widened = integers.astype(unsigned)
    return xp.where(integers < 0, unsigned.type(0) - widened, widened)


@jax.jit
def _device_row(x: jax.Array) -> jax.Array:
    with jax.named_scope("firstnan_count"):
        if x.dtype.name in INTEGERS:
            magnitude = _absolute(x.astype(jnp.int32) if x.dtype.itemsize < 4 else x, jnp)
            none = jnp.zeros_like(magnitude, dtype=bool)
            return _reduce(none, none, none, magnitude)
        return _reduce(*_classify(*_device_bits(x), jnp))


def _device_bits(x: jax.Array) -> tuple[list[jax.Array], FloatFormat]:
    layout = FORMATS[COMPLEX_PARTS.get(x.dtype.name, x.dtype.name)]
    parts = [lax.real(x), lax.imag(x)] if x.dtype.name in COMPLEX_PARTS else [x]
    bits = [lax.bitcast_convert_type(part, f"uint{layout.bits}") for part in parts]
    return ([part.astype(jnp.uint8) for part in bits] if layout.bits < 8 else bits), layout


def _reduce(nan: Any, positive: Any, negative: Any, magnitude: Any) -> jax.Array:
    counted = [flags.astype(jnp.uint32) for flags in (nan, positive, negative)]
    magnitude = magnitude.astype(np.promote_types(magnitude.dtype, np.uint32))
    zero, smallest = np.uint32(0), magnitude.dtype.type(0)
    operands: tuple[Any, ...] = (*counted, magnitude)
    starts: tuple[Any, ...] = (zero, zero, zero, smallest)
    join = _add
    if magnitude.ndim > 1 and _LONG_ROW <= magnitude.shape[-1] < _ONE_LIMB:
        operands = tuple(lax.reduce(operands, starts, join, (magnitude.ndim - 1,)))
    if magnitude.size >= _ONE_LIMB:
        operands = (*operands[:3], *map(jnp.zeros_like, operands[:3]), operands[3])
        starts, join = (zero,) * 6 + (smallest,), _add_with_carry
    *limbs, magnitude = lax.reduce(operands, starts, join, tuple(range(operands[0].ndim)))
    low, high = limbs[:3], limbs[3:] or [jnp.zeros_like(count) for count in limbs]
    wide = magnitude.dtype.itemsize == 8
    high.append((magnitude >> np.uint64(32)).astype(jnp.uint32) if wide else jnp.zeros_like(magnitude))
    low.append(magnitude.astype(jnp.uint32))
    return jnp.stack([half for pair in zip(high, low, strict=True) for half in pair])


def _add(a: Any, b: Any) -> Any:
    return (*(p + q for p, q in zip(a[:3], b[:3], strict=True)), lax.max(a[3], b[3]))


def _add_with_carry(a: Any, b: Any) -> Any:
    low = [p + q for p, q in zip(a[:3], b[:3], strict=True)]
    carry = [(total < p).astype(jnp.uint32) for total, p in zip(low, a[:3], strict=True)]
    high = [p + q + c for p, q, c in zip(a[3:6], b[3:6], carry, strict=True)]
    return (*low, *high, lax.max(a[6], b[6]))


def _host_row(array: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint32]]:
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    name = array.dtype.name
    parts = [array.real, array.imag] if name in COMPLEX_PARTS else [array]
    layout = FORMATS.get(COMPLEX_PARTS.get(name, name))
    if layout is not None:
        parts = [part.view(f"uint{max(8, layout.bits)}") for part in parts]
    elif array.dtype.itemsize == 1 and name != "bool":
        parts = [array.astype(np.int16)]
    counts, largest = [0, 0, 0], 0
    # Buffered, so that a strided array is read through a small window instead of being copied whole.
    for chunk in np.nditer(parts, flags=["external_loop", "buffered", "zerosize_ok"], buffersize=1 << 16):
        bits = list(chunk) if isinstance(chunk, tuple) else [chunk]
        if layout is None:
            magnitude = _absolute(bits[0], np)
        else:
            *flags, magnitude = _classify(bits, layout, np)
            counts = [count + int(np.count_nonzero(flag)) for count, flag in zip(counts, flags, strict=True)]
        largest = max(largest, int(magnitude.max(initial=0)))
    halves = [half for value in (*counts, largest) for half in divmod(value, _ONE_LIMB)]
    return np.array(halves, np.uint32)


def _leaf_count(leaf: LeafKind, row: list[int]) -> LeafCount:
    nan, positive, negative, pattern = (high * _ONE_LIMB + low for high, low in zip(row[::2], row[1::2], strict=True))
    part = COMPLEX_PARTS.get(leaf.dtype, leaf.dtype)
    magnitude: int | float | None = None
    if part in INTEGERS:
        magnitude = pattern
    elif part in FORMATS:
        # With no finite element the pattern 0 says nothing; in e8m0 it would read as 2**-127.
        any_finite = nan + positive + negative < leaf.size
        magnitude = magnitude_of_pattern(part, pattern) if any_finite else 0.0
    return LeafCount(leaf.stage, leaf.path, leaf.dtype, leaf.size, nan, positive, negative, magnitude)
