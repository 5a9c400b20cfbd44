"""Records as Python objects: what a constructor takes is what `decode` takes, and encoding turns back."""

import json
from dataclasses import asdict, fields
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

import firstnan
from firstnan._generated import records as generated
from properties import generic, records
from properties.outcome import REFUSED, layer_of, of_package, of_package_typed

EACH_KIND = pytest.mark.parametrize("kind", generic.KINDS)


def built(schema, resolver, value):
    """A plain JSON value as the constructors take it: classes, enum members, tuples."""
    schema, resolver = generic.resolved(schema, resolver)
    if "oneOf" in schema or "anyOf" in schema:
        for branch in schema.get("oneOf", []) + schema.get("anyOf", []):
            inner, of = generic.resolved(branch, resolver)
            event = inner.get("properties", {}).get("event", {}).get("const")
            if inner.get("type") != "null" and (event is None or (isinstance(value, dict) and value.get("event") == event)):
                return built(inner, of, value)
        return value
    if isinstance(value, dict) and "properties" in schema and value.keys() == schema["properties"].keys():
        members = {name: built(schema["properties"][name], resolver, member) for name, member in value.items()}
        return getattr(generated, schema["title"])(**members)
    if isinstance(value, list) and "items" in schema:
        return tuple(built(schema["items"], resolver, member) for member in value)
    if isinstance(value, str) and "enum" in schema and isinstance(getattr(generated, schema.get("title", ""), None), type(Enum)):
        return getattr(generated, schema["title"])(value) if value in schema["enum"] else value
    return value


@EACH_KIND
def test_a_record_comes_back_from_its_bytes(kind):
    @given(records.of_kind(kind))
    def each(value):
        record = of_package(firstnan.decode, kind, json.dumps(value))
        if record == REFUSED:
            return
        encoded = firstnan.encode(record)
        assert firstnan.decode(kind, encoded) == record
        assert firstnan.encode(firstnan.decode(kind, encoded)) == encoded
        assert hash(firstnan.decode(kind, encoded)) == hash(record)
        profile = firstnan.canonical_evidence if is_evidence(kind) else firstnan.canonical_record
        assert profile(value) == encoded == profile(record)
        assert json.loads(json.dumps(asdict(record))) == value
        assert type(record)(**{field.name: getattr(record, field.name) for field in fields(record)}) == record

    each()


def is_evidence(kind):
    schema = generic.SCHEMAS[kind]
    return next(iter(schema.get("$defs", {}).values()), schema)["x-firstnan-profile"] == "evidence"


ODD = [value for value in records.STRANGE if not isinstance(value, records.Raw)]
ODD_VALUES, FORCED = st.sampled_from(ODD), st.sampled_from([*ODD, float("nan"), b"a"])


@st.composite
def retyped(draw, values):
    """A record with all its names, one value of which is perhaps strange."""
    value = draw(values)
    if draw(st.booleans()):
        within = records.pick(list(records.objects_in(value)), draw(records.ANY))
        name = records.pick(sorted(within), draw(records.ANY))
        number = type(within[name]) is int and draw(st.booleans())
        within[name] = within[name] + draw(records.BESIDE) * 2.0 if number else draw(ODD_VALUES)
    return value


@EACH_KIND
def test_a_constructor_takes_what_decode_takes(kind):
    @given(retyped(records.of_kind(kind)))
    def each(value):
        decoded = of_package(firstnan.decode, kind, json.dumps(value))
        made = of_package_typed(built, *generic.root(kind), value)
        if decoded == REFUSED:
            assert made == REFUSED or not hasattr(made, "__dataclass_fields__")
        else:
            assert made == decoded

    each()


@EACH_KIND
def test_encode_checks_a_forced_record(kind):
    @given(records.of_kind(kind), st.data())
    def each(value, data):
        record = of_package(firstnan.decode, kind, json.dumps(value))
        if record == REFUSED:
            return
        name = records.pick(fields(record), data.draw(records.ANY)).name
        object.__setattr__(record, name, data.draw(FORCED))
        encoded = of_package_typed(firstnan.encode, record)
        assert encoded == REFUSED or layer_of(firstnan.decode, kind, encoded) is None

    each()
