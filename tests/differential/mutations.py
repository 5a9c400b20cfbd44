"""Records with something changed: members, types, bounds and characters of the tree, then spelling and bytes of the text.

A mutation takes the random generator, the record and its node of the grammar. Each has a generator of its own, so that
the rest of a case stays as it is where one of them is left out.
"""

import json
from typing import NamedTuple

from differential.grammar import ODD, Array, Object, Union


class Raw(str):
    """A piece of JSON text that is written as it stands."""


NUMBERS = [Raw(text) for text in (
    "5.0", "5e0", "5E0", "50e-1", "0.0", "-0", "-0.0", "0e9", "1e-400", "0.1e1", "1.5", "1" * 400, "1" * 310 + "e-305", "1E+05",
    "9007199254740993", "9007199254740993.0", "9223372036854775807", "9223372036854775807.0", "9223372036854775808",
    "-9223372036854775809", "18446744073709551616", "1.7976931348623157e308", "1.7976931348623159e308",
    "2.4703282292062327e-324", "5e-324", "4.9e-324",
)]  # fmt: skip
NO_NUMBERS = [Raw(text) for text in (
    "01", "-01", "+1", "1.", ".5", "-", "1e", "1e+", "NaN", "Infinity", "-Infinity", "nan", "0x1", "1_0", "1e309", "-1e400",
    "\u0661",
)]  # fmt: skip
OTHERS = [
    *(True, False, None, 0, 1, -1, 5, 2**31, 2**53 + 1, 0.5, [], {}, [None], [[[]]], {"a": 1}, "", "a", "a\n", "\x00", "team:"),
    *("team:a", "5", "null", "A" * 129, "a" * 1025, "\u0661", "\U0001f600", "\ud800", "\udc00\ud800", *NUMBERS[:6]),
]


class Place(NamedTuple):
    """A value within its container."""

    container: dict | list
    key: str | int
    node: object

    @property
    def value(self):
        return self.container[self.key]

    def put(self, value):
        self.container[self.key] = value


def places(value, node, found):
    """Every place below a value whose node of the grammar is known."""
    if isinstance(node, Union):
        node = node.of(value)
    if isinstance(value, dict) and isinstance(node, Object):
        for name, member in value.items():
            if name in node.members:
                found.append(Place(value, name, node.members[name]))
                places(member, node.members[name], found)
    elif isinstance(value, list) and isinstance(node, Array):
        for index, element in enumerate(value):
            found.append(Place(value, index, node.items))
            places(element, node.items, found)
    return found


def redraw(rng, place):
    place.put(place.node.draw(rng))


def beyond(rng, place):
    place.put(place.node.beyond(rng))


def retype(rng, place):
    place.put(rng.choice(OTHERS))


def number(rng, place):
    value = place.value
    if type(value) in (int, float):
        own = [value + 1, value - 1, -value, str(value), value * 2, value // 2]
        place.put(rng.choice([*own, rng.choice(NUMBERS), rng.choice(NO_NUMBERS)]))
    else:
        place.put(rng.choice(NUMBERS))


def form(rng, place):
    """An integer in the form of a float: one to JSON Schema, not on the wire."""
    numbers = [each for each in (Place(place.container, key, None) for key in keys(place.container)) if type(each.value) is int]
    for each in rng.sample(numbers, min(1, len(numbers))):
        each.put(Raw(rng.choice([f"{each.value}.0", f"{each.value}e0", f"{each.value}0E-1", f"{each.value}.00e+0"])))


def keys(container):
    return list(container) if isinstance(container, dict) else range(len(container))


def characters(rng, place):
    value = place.value
    if isinstance(value, str):
        at = rng.randrange(len(value) + 1)
        odd = rng.choice(ODD)
        before, after = value[:at], value[at:]
        place.put(rng.choice([before + odd + after, before + odd + after[1:], before, after, value + "\n", value.upper(),
                              value + "\ud800", value[::-1], value + value]))  # fmt: skip
    else:
        place.put(rng.choice(ODD))


def beside(rng, place):
    """Equal to a sibling, or next to one: where rules between fields hold, or just do not."""
    siblings = place.container.values() if isinstance(place.container, dict) else place.container
    same = [value for value in siblings if type(value) is type(place.value)]
    value = rng.choice(same)
    place.put(value + rng.choice([-1, 0, 0, 1]) if type(value) in (int, float) else value)


def drop(rng, place):
    del place.container[place.key]


def rename(rng, place):
    if isinstance(place.container, list):
        place.container.insert(place.key, place.value)
        return
    name, members = place.key, list(place.container.items())
    beside_it = rng.choice(list(place.container))
    other = rng.choice([name + "\n", name.upper(), name[:-1], "\u0455" + name, name + "\u200b", beside_it, "", "$ref"])
    place.container.clear()
    place.container.update((other if key == name else key, value) for key, value in members)


def add(rng, place):
    value = rng.choice(OTHERS)
    if isinstance(place.container, list):
        place.container.append(value)
    else:
        place.container[rng.choice(["", "more", "$schema", "__class__", place.key + "2", "\U0001f600"])] = value


def twice(rng, place):
    """A name that comes twice, with the same value or another."""
    if isinstance(place.container, dict):
        other = rng.choice([place.value, place.node.draw(rng), None])
        place.put(Raw(f"{text_of(place.value)},{json.dumps(place.key)}:{text_of(other)}"))
    else:
        place.container.insert(place.key, place.value)


def shuffle(rng, place):
    container = place.container
    if isinstance(container, list):
        rng.shuffle(container)
    else:
        members = list(container.items())
        rng.shuffle(members)
        container.clear()
        container.update(members)


def exchange(rng, place):
    """The values of two members, exchanged."""
    other = rng.choice(keys(place.container))
    value = place.value
    place.put(place.container[other])
    place.container[other] = value


def lengthen(rng, place):
    """A list some times over; anything else drawn anew."""
    if isinstance(place.value, list):
        place.put(place.value * rng.choice([2, 50]))
    else:
        redraw(rng, place)


# As often as they are named: what changes a value stands more often than what changes a name.
OF_TREE = [redraw, redraw, redraw, beyond, beyond, beyond, retype, number, characters, beside, beside, beside, form, form, drop,
           rename, add, twice, shuffle, exchange, lengthen]  # fmt: skip


# What leaves the shape as it is, for members that a rule speaks of.
OF_RULES = [lengthen, beside]


def mutate(rng, value, node, ruled=frozenset()):
    """Changes one place of a record in place, often one that is `ruled`; gives the record, or what stands instead."""
    found = places(value, node, [])
    if not found or rng.random() < 0.01:
        return rng.choice([*OTHERS, [value], {"record": value}])
    names = sorted({place.key for place in found if place.key in ruled}) if rng.random() < 0.3 else []
    if names:  # a name first, or the members of a long array would take all
        name = rng.choice(names)
        found = [place for place in found if place.key == name]
    rng.choice(OF_RULES if names else OF_TREE)(rng, rng.choice(found))
    return value


def text_of(value):
    """JSON text, with `Raw` written as it is."""
    if isinstance(value, dict):
        return "{" + ",".join([f"{json.dumps(name)}:{text_of(member)}" for name, member in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(text_of, value)) + "]"
    return value if type(value) is Raw else json.dumps(value)


def spell(rng, text):
    """Other white space around some tokens, other escapes of some characters: mostly the same value."""
    out = []
    for character in text:
        draw = rng.random()
        if draw < 0.02 and character in "{}[],:":
            character = rng.choice([" ", "\n", "\t", "\r\n"]) + character + rng.choice(["", " "])
        elif draw < 0.01 and character.isalnum():
            character = rng.choice([f"\\u{ord(character):04x}", f"\\u{ord(character):04X}"])
        out.append(character)
    return "".join(out)


def raw_characters(rng, text):
    """Escapes of whole characters written as themselves."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, separators=rng.choice([(",", ":"), (", ", ": ")]))
    except (ValueError, RecursionError):
        return text


OF_TEXT = [spell, raw_characters]
PARTS = [
    *(b"\xef\xbb\xbf", b"\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff", b"\x00", b"\x0b", b" ", b'"', b"\\"),
    *(b"\\u", b"\\ud800", b"\\ud83d\\ude00", b"{", b"}", b"[", b"]", b",", b":", b"-", b"0", b"e", b".", b"1", b"null", b"//"),
    b"[" * 300,
]


def damage(rng, data):
    """One edit of the bytes."""
    at, to = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    to = min(to, at + 1 + rng.randrange(8))
    edits = [
        lambda: data[:at] + data[to:],
        lambda: data[:at] + data[at:to] + data[at:],
        lambda: data[:at] + rng.choice(PARTS) + data[at:],
        lambda: data[:at] + rng.choice(PARTS) + data[at + 1 :],
        lambda: data[:at],
        lambda: data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :],
        lambda: rng.choice(PARTS) + data,
        lambda: data + rng.choice([b" ", b"\n", b"\x00", b",", b"{}", data[:1]]),
    ]
    return rng.choice(edits)()
