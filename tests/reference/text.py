"""Strict JSON text to plain Python values."""

import json
import math
import re

SURROGATE = re.compile("[\ud800-\udfff]")


class Refused(ValueError):
    """The contract refuses this."""


def parse(data):
    """The value of UTF-8 bytes or text: no BOM, no duplicate name, only the literals true, false and null."""
    if isinstance(data, bytes):
        try:
            data = data.decode()
        except UnicodeDecodeError:
            raise Refused("encoding") from None
    elif SURROGATE.search(data):
        raise Refused("a lone surrogate in the text itself")
    try:
        return DECODER.decode(data)
    except (ValueError, RecursionError) as error:
        raise Refused(str(error)) from None


def unique(members):
    out = dict(members)
    if len(out) != len(members):
        raise Refused("a name twice")
    return out


def refuse_constant(name):
    raise Refused(name)


def finite_float(text):
    value = float(text)
    if math.isinf(value):
        raise Refused("overflow")
    return value


DECODER = json.JSONDecoder(object_pairs_hook=unique, parse_constant=refuse_constant, parse_float=finite_float)
