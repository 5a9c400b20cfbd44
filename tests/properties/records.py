"""Records from their schemas: of valid shape, with rules that hold or nearly hold, and mutated."""

import json
import math
import re
import string
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from properties.generic import SCHEMAS, resolved, root

VECTORS = Path(__file__).resolve().parents[2] / "schemas/vectors/records"
SETS = {"A-Z": string.ascii_uppercase, "a-z": string.ascii_lowercase, "a-f": "abcdef", "0-9": string.digits}
CLASS = re.compile(r"\^?\[\^?(.*)\]")


class Raw(str):
    """A token of JSON that is written as it stands."""


class Members(list):
    """An object as (name, value), so that it can hold a name twice."""


def text_of(value):
    """JSON text, with `Raw` and `Members` written as they are."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        value = Members(value.items())
    if isinstance(value, Members):
        return "{" + ",".join(f"{json.dumps(name)}:{text_of(member)}" for name, member in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(text_of, value)) + "]"
    return json.dumps(value)


def alphabet(pattern):
    inside = CLASS.fullmatch(pattern).group(1)
    for interval, members in SETS.items():
        inside = inside.replace(interval, members)
    return inside


def of_schema(schema, resolver):
    """Values of valid shape; the rules are another matter."""
    schema, resolver = resolved(schema, resolver)
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    for union in ("oneOf", "anyOf"):
        if union in schema:
            return st.one_of([of_schema(branch, resolver) for branch in schema[union]])
    if isinstance(schema["type"], list):
        return st.one_of([of_schema({**schema, "type": each}, resolver) for each in schema["type"]])
    return BY_TYPE[schema["type"]](schema, resolver)


def of_integer(schema, _):
    low, high = schema["minimum"], schema["maximum"]
    return st.one_of(st.integers(low, high), st.sampled_from([low, high]), st.integers(low, min(high, low + 8)))


def of_number(schema, _):
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    above, below = "exclusiveMinimum" in schema, "exclusiveMaximum" in schema
    floats = st.floats(float(low), float(high), exclude_min=above, exclude_max=below)
    first, last = math.ceil(low) + above, math.floor(high) - below
    return st.one_of(floats, st.integers(first, last)) if first <= last else floats


def of_string(schema, _):
    rest = alphabet(schema["not"]["pattern"]) if "not" in schema else None
    low, high = schema.get("minLength", 0), schema["maxLength"]
    if low == high:
        return st.integers(0, len(rest) ** low - 1).map(lambda number: spelled(number, rest, low))
    anything = st.one_of(st.characters(codec="utf-8"), st.sampled_from("\x00\n\x7f\U0001f600"))
    characters = st.sampled_from(rest) if rest else anything
    first = schema.get("pattern", "^")[1:]
    if first.startswith("["):
        start, taken = st.sampled_from(alphabet(first)), 1
    else:
        start, taken = st.just(first), len(first)
    low = max(0, low - taken)
    return st.builds("{}{}".format, start, st.text(characters, min_size=low, max_size=min(high - taken, low + 8)))


def spelled(number, digits, size):
    """A number in any base, which costs one draw and not one a digit."""
    out = ""
    for _ in range(size):
        number, digit = divmod(number, len(digits))
        out += digits[digit]
    return out


def of_array(schema, resolver):
    low = schema.get("minItems", 0)
    return st.lists(of_schema(schema["items"], resolver), min_size=low, max_size=min(schema["maxItems"], low + 3))


def of_object(schema, resolver):
    return st.fixed_dictionaries({name: of_schema(member, resolver) for name, member in schema["properties"].items()})


BY_TYPE = {
    "null": lambda *_: st.none(),
    "boolean": lambda *_: st.booleans(),
    "integer": of_integer,
    "number": of_number,
    "string": of_string,
    "array": of_array,
    "object": of_object,
}


def seeds(kind):
    """Records that are accepted: the schema's examples, and the vectors where there are some."""
    texts = [json.dumps(example) for example in SCHEMAS[kind]["examples"]]
    path = VECTORS / f"{kind}.jsonl"
    if path.exists():
        texts += [case["canonical"] for case in map(json.loads, path.read_text(encoding="utf-8").splitlines()) if case["accept"]]
    return texts


# Made once: a strategy made for each draw costs more than the draw.
ONE_IN_FOUR, BESIDE, ANY = st.integers(0, 3), st.integers(-1, 1), st.integers(0, 255)
SOME = st.lists(ANY, max_size=2)


def pick(choices, at):
    return choices[at % len(choices)]


def objects_in(value):
    """Every object of a record, the record first."""
    if isinstance(value, dict):
        yield value
    for member in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects_in(member)


@st.composite
def near(draw, of_shape, accepted):
    """An accepted record of which a few fields are of another shape, or equal or next to another field."""
    record = json.loads(draw(st.sampled_from(accepted)))
    if draw(ONE_IN_FOUR) == 0:
        other, names = draw(of_shape), sorted(record)
        for at in draw(SOME):
            name = names[at % len(names)]
            record[name] = other.get(name, record[name])
    for at in draw(SOME):
        within = pick(list(objects_in(record)), at)
        name = pick(sorted(within), draw(ANY))
        value = pick([value for value in within.values() if type(value) is type(within[name])], draw(ANY))
        within[name] = value + draw(BESIDE) if type(value) is int else value
    return record


@cache
def of_kind(kind):
    """Records of a kind: of valid shape, or near one that is accepted."""
    of_shape = of_schema(*root(kind))
    accepted = seeds(kind)
    return st.one_of(near(of_shape, accepted), near(of_shape, accepted), of_shape)


STRANGE = [
    *map(Raw, ("5.0", "5e0", "5E0", "0.0", "-0", "-0.0", "1e400", "1e-400", "1e309", "01", "0.1e1", "1.5", "1" * 5000)),
    Raw("NaN"),
    *(True, False, None, 0, 1, -1, 5, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 10**30, -(10**309), [], {}, [None], {"a": 1}),
    *("", "a", "a\n", "\n", "a\x00", "team:", "team:a", "team:a\n", " team:a", "A" * 129, "a" * 257),
    *("\u0661", "\u00e9", "\U0001f600", "\ud800"),
]
STRANGE_VALUES = st.sampled_from(STRANGE)


@st.composite
def mutated(draw, records):
    """The text of a record with one or two things changed."""
    tree = draw(records)
    for _ in range(draw(ONE_OR_TWO)):
        tree = change(draw, tree)
    return draw(SPACE) + text_of(tree) + draw(END)


ONE_OR_TWO, SPACE = st.integers(1, 2), st.sampled_from(["", " ", "\n"])
END = st.sampled_from([*[""] * 12, " ", "\x00", ",", "{}"])
OF_ELEMENT = st.sampled_from(["below", "below", "drop", "twice"])
OF_MEMBER = st.sampled_from(["below"] * 12 + ["drop", "rename", "twice", "add", "itself"])


def change(draw, tree):
    """Goes down to a member, more or less deep, and changes it."""
    if not isinstance(tree, (dict, list)) or not tree:
        return replacement(draw, tree)
    members = list(tree.items()) if isinstance(tree, dict) else list(tree)
    at = draw(ANY) % len(members)
    if isinstance(tree, list) and not isinstance(tree, Members):
        what = draw(OF_ELEMENT)
        changed = [change(draw, members[at])] if what == "below" else [members[at]] * (2 if what == "twice" else 0)
        return members[:at] + changed + members[at + 1 :]
    name, value = members[at]
    what = draw(OF_MEMBER)
    if what == "itself":
        return draw(STRANGE_VALUES)
    members[at : at + 1] = {
        "below": lambda: [(name, change(draw, value))],
        "drop": list,
        "rename": lambda: [(pick([name + "\n", name.upper(), name[:-1], "\u0455" + name], draw(ANY)), value)],
        "twice": lambda: [(name, value), (name, pick([value, None], draw(ANY)))],
        "add": lambda: [(name, value), (pick(["", "more", "$ref", "__class__"], draw(ANY)), None)],
    }[what]()
    return Members(members)


def replacement(draw, value):
    """Another value for a scalar: just beyond it, retyped, or strange."""
    beyond = []
    if type(value) in (int, float):
        beyond = [value + 1, value - 1, -value, Raw(f"{value}e0"), str(value), Raw(f"{int(value)}.0")]
    if type(value) is str:
        beyond = [value + "\n", value[:-1], value + value[-1:], value + "\u0660", value.upper(), " " + value, [value]]
    return pick(beyond, draw(ANY)) if beyond and draw(ONE_IN_FOUR) else draw(STRANGE_VALUES)
