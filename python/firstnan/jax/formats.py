"""Bit layouts of every floating-point format, and what a pattern is worth.

A value is classified by integer tests on its bits, never by arithmetic on the value: XLA flushes subnormals, and half
of the small formats have no infinity at all. Layouts: IEEE 754 for the wide formats, the OCP Microscaling and OCP FP8
specifications and ml_dtypes' README for the small ones. The tables need no numpy: a bundle is verified without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """One format. Patterns are unsigned integers of `bits` bits.

    `sign` is the mask of the sign bit, 0 in an unsigned format. `largest` is the greatest pattern of a finite
    magnitude. Above it comes infinity where `has_infinity`, then NaN. Where `nan_is_negative_zero` the one NaN is the
    pattern `sign`.
    """

    bits: int
    sign: int
    largest: int
    has_infinity: bool = True
    nan_is_negative_zero: bool = False


FORMATS: Final[dict[str, FloatFormat]] = {
    "float64": FloatFormat(64, 1 << 63, 0x7FEF_FFFF_FFFF_FFFF),
    "float32": FloatFormat(32, 1 << 31, 0x7F7F_FFFF),
    "float16": FloatFormat(16, 0x8000, 0x7BFF),
    "bfloat16": FloatFormat(16, 0x8000, 0x7F7F),
    "float8_e5m2": FloatFormat(8, 0x80, 0x7B),
    "float8_e4m3": FloatFormat(8, 0x80, 0x77),
    "float8_e3m4": FloatFormat(8, 0x80, 0x6F),
    "float8_e4m3fn": FloatFormat(8, 0x80, 0x7E, has_infinity=False),
    "float8_e5m2fnuz": FloatFormat(8, 0x80, 0x7F, has_infinity=False, nan_is_negative_zero=True),
    "float8_e4m3fnuz": FloatFormat(8, 0x80, 0x7F, has_infinity=False, nan_is_negative_zero=True),
    "float8_e4m3b11fnuz": FloatFormat(8, 0x80, 0x7F, has_infinity=False, nan_is_negative_zero=True),
    "float8_e8m0fnu": FloatFormat(8, 0, 0xFE, has_infinity=False),
    "float8_e5m3fnu": FloatFormat(8, 0, 0xFE, has_infinity=False),
    "float6_e2m3fn": FloatFormat(6, 0x20, 0x1F, has_infinity=False),
    "float6_e3m2fn": FloatFormat(6, 0x20, 0x1F, has_infinity=False),
    "float4_e2m1fn": FloatFormat(4, 0x8, 0x7, has_infinity=False),
}

# A complex number is two of these; its element is judged as one.
# The first two are ml_dtypes', in numpy arrays only: JAX has no such arrays.
COMPLEX_PARTS: Final[dict[str, str]] = {
    "complex32": "float16",
    "bcomplex32": "bfloat16",
    "complex64": "float32",
    "complex128": "float64",
}

INTEGERS: Final[frozenset[str]] = frozenset(
    ["bool"] + [f"{sign}int{bits}" for sign in ("", "u") for bits in (1, 2, 4, 8, 16, 32, 64)]
)


def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """The numpy dtype of a name: numpy's own, or the one that ml_dtypes adds (bfloat16, float8 and smaller).

    Raises:
        KeyError: no such dtype among the formats and integers above.
    """
    if name not in FORMATS and name not in COMPLEX_PARTS and name not in INTEGERS:
        raise KeyError(name)
    import ml_dtypes
    import numpy as np

    scalar = getattr(ml_dtypes, name, None)
    return np.dtype(name if scalar is None else scalar)


def bytes_per_element(name: str) -> int:
    """The bytes that an element of a dtype takes in an array, where each has at least one.

    Raises:
        KeyError: no such dtype among the formats and integers above.
    """
    if name in COMPLEX_PARTS:
        return 2 * bytes_per_element(COMPLEX_PARTS[name])
    if name in FORMATS:
        return max(8, FORMATS[name].bits) // 8
    if name not in INTEGERS:
        raise KeyError(name)
    return 1 if name == "bool" else max(8, int(name.lstrip("uint"))) // 8


def magnitude_of_pattern(name: str, pattern: int) -> float:
    """The value, exact in binary64, of a finite magnitude's bit pattern in a format of `FORMATS`."""
    import numpy as np

    width = max(8, FORMATS[name].bits)
    return float(np.array(pattern, dtype=f"uint{width}").view(numpy_dtype(name)).astype(np.float64))
