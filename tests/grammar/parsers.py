"""Other strict parsers, and where each departs from the grammar, with the reason."""

from dataclasses import dataclass

import msgspec
import orjson
import rapidjson

from . import beyond


@dataclass(frozen=True)
class Difference:
    """On texts of which `found` holds the parser says `accepts`, whatever the grammar says."""

    found: object
    accepts: bool
    reason: str


SURROGATE = Difference(beyond.lone_surrogate, False, "its strings are UTF-8, which has no form for a lone surrogate")
NUL = Difference(beyond.ends_at_a_nul, True, "it reads a C string, which ends at the first NUL outside the value")
ZERO = Difference(beyond.zero_with_a_large_exponent, False, "it takes any exponent beyond 308 for an overflow")
OVERFLOW = Difference(beyond.overflows, False, "its floats are binary64, which has no such number")
INTEGER = Difference(beyond.integer_beyond_floats, False, "it makes a float of an integer beyond 64 bits, and refuses infinity")
DIGITS = Difference(beyond.too_many_digits, False, "Python makes no integer of more than 4,300 digits")

PARSERS = {
    "orjson": (orjson.loads, [SURROGATE, OVERFLOW, INTEGER]),
    "msgspec": (msgspec.json.decode, [SURROGATE, OVERFLOW, DIGITS]),
    "rapidjson": (lambda data: rapidjson.loads(data, allow_nan=False), [SURROGATE, OVERFLOW, DIGITS, NUL, ZERO]),
}


def takes(parser, data):
    try:
        parser(data)
    except (ValueError, msgspec.MsgspecError):
        return False
    return True
