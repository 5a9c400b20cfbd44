"""Where a parser may differ from the grammar: what RFC 8259 leaves to implementations, judged by the standard library."""

import json
import math
import re

LONE = re.compile("[\ud800-\udfff]")


def members(data):
    """Every object of a JSON text as a list of (name, value), the text's own value last."""
    found = []
    keep = {"object_pairs_hook": lambda pairs: found.append(pairs) or dict(pairs), "parse_int": integer}
    value = json.loads(data, **keep)
    return found, value


def integer(text):
    """Python makes no integer of more than 4,300 digits."""
    return int(text) if len(text) < 4_300 else float(text)


def name_twice(data):
    """Section 4: names SHOULD be unique."""
    return any(len(dict(pairs)) != len(pairs) for pairs in members(data)[0])


def strings_of(value):
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings_of(inner)


def lone_surrogate(data):
    """Section 8.2: escapes may form what is no Unicode text."""
    found, value = members(data)
    names_and_values = [text for pairs in found for name, inner in pairs for text in (name, *strings_of(inner))]
    return any(LONE.search(text) for text in [*names_and_values, *strings_of(value)])


def numbers_of(data):
    out = []
    json.loads(data, parse_int=lambda text: out.append(text), parse_float=lambda text: out.append(text))
    return out


def overflows(data):
    """Section 6: the range of numbers is the implementation's. A float beyond binary64."""
    return any(math.isinf(float(text)) for text in numbers_of(data) if not is_integer(text))


def integer_beyond_floats(data):
    """An integer that binary64 does not reach."""
    return any(is_integer(text) and len(text) > 300 for text in numbers_of(data))


def too_many_digits(data):
    """docs/canonical.md: an integer of more than 4,300 digits."""
    return any(is_integer(text) and len(text.removeprefix("-")) > 4_300 for text in numbers_of(data))


def is_integer(text):
    return text.removeprefix("-").isdecimal()


def holds_float(data):
    return not all(map(is_integer, numbers_of(data)))


def beyond_64_bits(data):
    return any(is_integer(text) and (len(text) > 20 or not -(2**63) <= int(text) < 2**63) for text in numbers_of(data))


def depth(data):
    """How deep the deepest value lies; the top value lies at 0."""
    levels = [0]

    def walk(value, level):
        levels.append(level)
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(inner, level + 1)

    # Of a name twice, the one that was dropped may be the deeper one.
    for pairs in members(data)[0]:
        for _, inner in pairs:
            walk(inner, 1)
    walk(members(data)[1], 0)
    return max(levels)


def ends_at_a_nul(data):
    return b"\x00" in data


def zero_with_a_large_exponent(data):
    """Its value is 0, and a parser that looks at the exponent alone says it overflows."""
    texts = [text.lower().partition("e") for text in numbers_of(data)]
    return any(exponent and float(mantissa) == 0 and int(exponent) > 308 for mantissa, _, exponent in texts)
