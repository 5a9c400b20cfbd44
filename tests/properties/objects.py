"""Python objects of every kind that the canonical profiles take, and of some that they refuse."""

import json
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from enum import Enum, IntEnum, StrEnum
from pathlib import Path

from hypothesis import strategies as st

import firstnan

VECTORS = Path(__file__).resolve().parents[2] / "schemas/vectors"
CASE = json.loads((VECTORS / "triage/reference.json").read_text())
EVIDENCE = firstnan.decode("training-run-evidence", json.dumps(CASE["evidence"]))
INCIDENTS = [firstnan.decode("training-incident-contract", json.dumps(CASE["contract"])), EVIDENCE, EVIDENCE.stages[3]]
ODD = "\x00\x1f\n\"\\/\x7f\x80\u2028\ue000\uffff\ud800\udbff\udc00\udfff\U00010000\U0001f600\U0010ffff"
EDGES = [0, -1, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**19, 10**40, -(10**400)]
FLOATS = [0.0, -0.0, 1.0, 1e-5, 0.0001, 1e15, 1e16, 1e22, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308]

texts = st.text(st.one_of(st.characters(), st.sampled_from(ODD)), max_size=8)
integers = st.one_of(st.integers(), st.integers(-(2**65), 2**65), st.sampled_from(EDGES))
floats = st.one_of(st.floats(), st.sampled_from(FLOATS))


class Text(str):
    """Says of itself what it is not."""

    def __str__(self):
        return "another text"

    __repr__ = __str__


class Number(int):
    def __str__(self):
        return "7.5"

    __repr__ = __str__


class Real(float):
    def __repr__(self):
        return "0.5e0"


class Row(list):
    pass


class Reversed(list):
    """Iterates in another order than it is stored in."""

    def __iter__(self):
        return reversed(list(super().__iter__()))


class Pair(tuple):
    __slots__ = ()


class Table(dict):
    pass


class Doubled(dict):
    """Says that it has one more name than is stored."""

    def items(self):
        return [*super().items(), ("\x00more", 1)]


Point = namedtuple("Point", "x y")


class Colour(StrEnum):
    RED = "red \u20ac"


class Level(IntEnum):
    HIGH = 3
    HUGE = 2**63


class Corner(tuple, Enum):
    ORIGIN = ((0, None),)


class Outer(Enum):
    INNER = Level.HIGH
    CORNER = Corner.ORIGIN


@dataclass
class Node:
    name: object
    below: object
    hidden: int = field(default=0, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Leaf:
    z: object
    a: object = None


def boxed(value):
    """A member of an Enum whose value is anything at all."""
    return Enum("Boxed", [("ONE", value)]).ONE


names = st.one_of(texts, texts.map(Text), st.just(Colour.RED))
plain_scalars = st.one_of(st.none(), st.booleans(), integers, texts)
scalars = st.one_of(plain_scalars, integers.map(Number), texts.map(Text), st.sampled_from([*Colour, *Level, *Corner]))
strangers = st.sampled_from([b"x", bytearray(b"x"), 1j, object(), {1}, frozenset(), Node, range(2), memoryview(b"x"), ...])


def plain_containers(inner):
    lists, tables = st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)
    return st.one_of(
        lists,
        tables,
        lists.map(tuple),
        lists.map(Row),
        lists.map(Reversed),
        lists.map(Pair),
        tables.map(OrderedDict),
        tables.map(Table),
        tables.map(Doubled),
        st.builds(Point, inner, inner),
        inner.map(lambda one: [one, {"again": one}, one]),
        st.builds(rows, st.lists(names, max_size=3, unique=True), st.lists(inner, max_size=9)),
    )


def rows(columns, values):
    """Dicts that share their name objects, in two orders, as the lines of one table do; a few are cut short."""
    table = [dict(zip(columns, values[start:], strict=False)) for start in range(len(values))]
    return [*table, *table[:2], *[dict(reversed(row.items())) for row in table[:2]]]


def containers(inner):
    return st.one_of(plain_containers(inner), st.builds(Node, inner, inner), st.builds(Leaf, inner), inner.map(boxed))


of_record = st.recursive(st.one_of(scalars, st.sampled_from(list(Outer))), containers, max_leaves=12)
evidence_scalars = st.one_of(scalars, floats, floats.map(Real), st.sampled_from(INCIDENTS))
of_evidence = st.recursive(evidence_scalars, plain_containers, max_leaves=12)
anything = st.recursive(st.one_of(scalars, floats, strangers), containers, max_leaves=8)
plain = st.recursive(
    st.one_of(plain_scalars, floats),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(texts, inner, max_size=5)),
    max_leaves=25,
)
