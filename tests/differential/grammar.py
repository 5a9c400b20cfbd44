"""Values from a schema, drawn with a plain random generator: within the shape, and just beyond each of its bounds.

Hypothesis looks harder at each example and is a hundred times slower; tests/properties has it.
"""

import math
import re
import string
from urllib.parse import urldefrag, urljoin

SETS = {"A-Z": string.ascii_uppercase, "a-z": string.ascii_lowercase, "a-f": "abcdef", "0-9": string.digits}
CLASS = re.compile(r"\^?\[\^?(.*)\]")
# Of each plane and each length in UTF-8, and what editors, terminals and escapes trip over.
ODD = "\x00\x1f\n\r\t\x7f\x85\xa0\xe9\u0130\u017f\u0455\u0660\u200b\u2028\u212a\ud7ff\ue000\ufeff\uffff\U0001f600\U0010ffff\"\\/"


def alphabet(pattern):
    inside = CLASS.fullmatch(pattern).group(1)
    for interval, members in SETS.items():
        inside = inside.replace(interval, members)
    return inside


class Fixed:
    """`const`, `enum`, `null` and `boolean`: one of a few values."""

    def __init__(self, values):
        self.values = values

    def draw(self, rng):
        return rng.choice(self.values)

    def beyond(self, rng):
        value = self.draw(rng)
        if not isinstance(value, str):
            return rng.choice([not value, str(value).lower(), 0, 1])
        return rng.choice([value.upper(), value + " ", value[:-1], value.replace("_", "-"), value + "\n", [value]])


class Integer:
    def __init__(self, schema):
        self.low, self.high = schema["minimum"], schema["maximum"]

    def draw(self, rng):
        near = min(self.high, self.low + 8)
        draws = (self.low, self.high, rng.randint(self.low, near), rng.randint(self.low, near), rng.randint(self.low, self.high))
        return rng.choice(draws)

    def beyond(self, rng):
        return rng.choice([self.low - 1, self.high + 1, -self.high - 2, 2**63, -(2**63) - 1, 2**64, self.low + 0.5])


class Real:
    def __init__(self, schema):
        self.low = schema.get("minimum", schema.get("exclusiveMinimum"))
        self.high = schema.get("maximum", schema.get("exclusiveMaximum"))
        self.above, self.below = "exclusiveMinimum" in schema, "exclusiveMaximum" in schema

    def within(self, value):
        if not self.low <= value <= self.high:
            return False
        return not (self.above and value == self.low) and not (self.below and value == self.high)

    def draw(self, rng):
        first, last = math.ceil(self.low) + self.above, math.floor(self.high) - self.below
        magnitude = math.ldexp(1 + rng.random(), rng.randint(-1074, 1023))
        low, high = float(self.low), float(self.high)
        draws = [magnitude, -magnitude, rng.uniform(-9, 9), 1.0, 1, 0.0, -0.0, 0.5, low, high, first, last,
                 math.nextafter(low, math.inf), math.nextafter(high, -math.inf), rng.randint(-(10**25), 10**25)]  # fmt: skip
        inside = [value for value in draws if self.within(value)]
        return rng.choice(inside) if inside else low + (high - low) / 2

    def beyond(self, rng):
        low, high = float(self.low), float(self.high)
        outside = [math.nextafter(low, -math.inf), math.nextafter(high, math.inf), self.low - 1, self.high + 1, low, high, -1, 0]
        return rng.choice([value for value in outside if type(value) is int or math.isfinite(value)])


class Text:
    def __init__(self, schema):
        self.least, self.most = schema.get("minLength", 0), schema["maxLength"]
        self.characters = alphabet(schema["not"]["pattern"]) if "not" in schema else None
        start = schema.get("pattern", "^")[1:]
        self.first, self.start = (alphabet(start), "") if start.startswith("[") else (None, start)

    def spell(self, rng, length):
        head = rng.choice(self.first) if self.first else self.start
        rest = max(0, length - len(head))
        characters = self.characters or rng.choice([string.printable, ODD, string.ascii_letters])
        return (head + "".join(rng.choices(characters, k=rest)))[: max(length, len(self.start))]

    def draw(self, rng):
        least = max(self.least, len(self.start), 1 if self.first else 0)
        some = min(self.most, least + rng.randrange(12))
        return self.spell(rng, rng.choice([least, some, some, self.most]))

    def beyond(self, rng):
        value = self.draw(rng)
        at = rng.randrange(len(value) + 1)
        odd = value[:at] + rng.choice(ODD) + value[at + 1 :]
        full = self.spell(rng, self.most)
        return rng.choice([odd, odd, value + "\n", "\n" + value, " " + value, full + "a", full[:-1] + "\U0001f600", "", value[1:],
                           "." + value[1:], value[: self.least - 1] if self.least else value + "\ud800"])  # fmt: skip


class Union:
    """`oneOf` and `anyOf`."""

    def __init__(self, branches):
        self.branches = branches

    def draw(self, rng):
        return rng.choice(self.branches).draw(rng)

    def beyond(self, rng):
        return rng.choice(self.branches).beyond(rng)

    def of(self, value):
        """The branch of a value: the object whose constants it has, else any of the same JSON type."""
        for branch in self.branches:
            if isinstance(value, dict) and isinstance(branch, Object):
                constants = {name: node.values[0] for name, node in branch.members.items() if isinstance(node, Fixed)}
                if all(value.get(name) == constant for name, constant in constants.items()):
                    return branch
            elif isinstance(value, list) and isinstance(branch, Array):
                return branch
        return None


class Array:
    def __init__(self, items, schema):
        self.items, self.least, self.most = items, schema.get("minItems", 0), schema["maxItems"]

    def draw(self, rng):
        most = min(self.most, self.least + 3)
        return [self.items.draw(rng) for _ in range(rng.randint(self.least, most))]

    def beyond(self, rng):
        short = [self.items.draw(rng) for _ in range(max(0, self.least - 1))]
        if rng.random() < 0.5 or self.most > 1 << 16:
            return short if self.least else {}
        return [self.items.draw(rng)] * (self.most + 1)


class Object:
    def __init__(self, members):
        self.members = members

    def draw(self, rng):
        return {name: node.draw(rng) for name, node in self.members.items()}

    def beyond(self, rng):
        return rng.choice([[], None, "", list(self.members), [self.draw(rng)]])


class Grammar:
    """The nodes of every kind of a bundle (schemas/bundle.json)."""

    def __init__(self, bundle):
        self.documents = {schema["$id"]: schema for schema in bundle["$defs"].values()}
        kinds = bundle["x-firstnan-kinds"].items()
        self.kinds = {kind: self.node({"$ref": entry["schema"]}, bundle["$id"]) for kind, entry in kinds}

    def resolved(self, schema, base):
        while "$ref" in schema:
            base, fragment = urldefrag(urljoin(base, schema["$ref"]))
            target = self.documents[base]
            for part in fragment.split("/")[1:]:
                target = target[part]
            schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
        return schema, base

    def node(self, schema, base):
        schema, base = self.resolved(schema, base)
        if "const" in schema:
            return Fixed([schema["const"]])
        if "enum" in schema:
            return Fixed(schema["enum"])
        for union in ("oneOf", "anyOf"):
            if union in schema:
                return Union([self.node(branch, base) for branch in schema[union]])
        kind = schema["type"]
        if isinstance(kind, list):
            return Union([self.node({**schema, "type": each}, base) for each in kind])
        if kind == "object":
            return Object({name: self.node(member, base) for name, member in schema["properties"].items()})
        if kind == "array":
            return Array(self.node(schema["items"], base), schema)
        if kind in ("null", "boolean"):
            return Fixed([None] if kind == "null" else [False, True])
        return {"integer": Integer, "number": Real, "string": Text}[kind](schema)
