"""The text of a float, from any bit pattern."""

import math
import struct

import numpy
from hypothesis import example, given
from hypothesis import strategies as st

import firstnan
from properties.outcome import REFUSED, of_package


@given(st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 2047).map(lambda exponent: exponent << 52),
                 st.integers(1, 2046).map(lambda exponent: (exponent << 52) - 1)))  # fmt: skip
@example(0x8000_0000_0000_0000)
@example(0x0010_0000_0000_0000)
def test_any_bit_pattern(bits):
    (value,) = struct.unpack(">d", bits.to_bytes(8))
    for number in (value, numpy.float64(value)):
        ours = of_package(firstnan.canonical_evidence, number)
        assert ours == (repr(value).encode() if math.isfinite(value) else REFUSED)
    if ours != REFUSED:
        assert firstnan.canonicalize(ours, profile="evidence") == ours
