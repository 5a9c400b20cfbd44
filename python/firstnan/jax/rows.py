"""What one pass over an array gives: a row of eight uint32, made on a device inside `jit` or on the host.

Bits are classified by integer tests, and reduced by a single reduction with four results.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from firstnan.jax.formats import COMPLEX_PARTS, FORMATS, INTEGERS, FloatFormat

# Columns of a row: nan, +inf, -inf and the largest finite magnitude's pattern, each as a high and a low half.
ROW_WIDTH = 8

_ONE_LIMB = 1 << 32

# Rows of at least this many elements are reduced first and their results after: XLA on CPU gives rows to several threads
# and keeps a row in vector registers. Over a step of 130 ms with ten million parameters, two cores, counting everything
# in it took 13 ms so and 19 ms in one reduction (the median of 30 paired rounds; `benches/probes.py`).
# Not the Rust counter through JAX's foreign-function interface: a step of 81 ms (batch 1, context 32, a loaded machine) took
# 106 ms so, 117 with a call a leaf and 185 with a call a stage (medians of one run); of gradients, 40 MB, both took 3 ms.
_LONG_ROW = 128


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


def _equal_one_of(integers: Any, values: tuple[int, ...], xp: ModuleType) -> Any:
    """Which elements are one of the values; a value beyond the integers' range is none of them."""
    limits, found = np.iinfo(integers.dtype), xp.zeros_like(integers, dtype=bool)
    for value in values:
        if limits.min <= value <= limits.max:
            found = found | (integers == integers.dtype.type(value))
    return found


def _absolute(integers: Any, xp: ModuleType) -> Any:
    """The magnitude of integers, in an unsigned type that holds that of the most negative one too."""
    unsigned = np.dtype(f"uint{max(32, 8 * integers.dtype.itemsize)}")
    widened = integers.astype(unsigned)
    return xp.where(integers < 0, unsigned.type(0) - widened, widened)


def device_row(x: jax.Array, missing: tuple[int, ...] = ()) -> jax.Array:
    """The row of a JAX array of numbers: uint32[8], on its device. 64-bit numbers need `jax.enable_x64` around.

    `missing` are integers: elements of an integer array that equal one are counted in the columns of NaN.
    """
    row: jax.Array = _device_row(x, missing)
    return row


# locate knows the counting of a leaf by this function's name.
@partial(jax.jit, static_argnums=1)
def _device_row(x: jax.Array, missing: tuple[int, ...]) -> jax.Array:
    with jax.named_scope("firstnan_count"):
        if x.dtype.name in INTEGERS:
            wide = x.astype(jnp.int32) if x.dtype.itemsize < 4 else x
            none = jnp.zeros_like(wide, dtype=bool)
            return _reduce(_equal_one_of(wide, missing, jnp), none, none, _absolute(wide, jnp))
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


def host_row(array: np.ndarray[Any, Any], missing: tuple[int, ...] = ()) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """The row of a numpy array of numbers, as it is and where it is."""
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    name = array.dtype.name
    parts = [array]
    layout = FORMATS.get(COMPLEX_PARTS.get(name, name))
    if layout is not None:
        word = f"uint{max(8, layout.bits)}"
        # By fields: numpy's real and imag do not know the complex types that ml_dtypes adds.
        pair = array.view([("real", word), ("imag", word)]) if name in COMPLEX_PARTS else None
        parts = [array.view(word)] if pair is None else [pair["real"], pair["imag"]]
    elif array.dtype.itemsize == 1 and name != "bool":
        parts = [array.astype(np.int16)]
    counts, largest = [0, 0, 0], 0
    # Buffered, so that a strided array is read through a small window instead of being copied whole.
    for chunk in np.nditer(parts, flags=["external_loop", "buffered", "zerosize_ok"], buffersize=1 << 16):
        bits = list(chunk) if isinstance(chunk, tuple) else [chunk]
        if layout is None:
            magnitude = _absolute(bits[0], np)
            if missing:
                counts[0] += int(np.count_nonzero(_equal_one_of(bits[0], missing, np)))
        else:
            *flags, magnitude = _classify(bits, layout, np)
            counts = [count + int(np.count_nonzero(flag)) for count, flag in zip(counts, flags, strict=True)]
        largest = max(largest, int(magnitude.max(initial=0)))
    halves = [half for value in (*counts, largest) for half in divmod(value, _ONE_LIMB)]
    return np.array(halves, np.uint32)
