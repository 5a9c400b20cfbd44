"""The package's own validator says what jsonschema and a CEL engine say, layer by layer."""

import json

import pytest
from hypothesis import given, settings

import firstnan
from properties import generic, records
from properties.outcome import layer_of

EACH_KIND = pytest.mark.parametrize("kind", generic.KINDS)


def agree(kind, text):
    expected = generic.layer(kind, text)
    ours = layer_of(firstnan.decode, kind, text)
    if expected == "unreadable":
        assert ours is not None, text
    else:
        assert ours == expected, text
    return expected


def test_the_kinds_are_those_of_the_schemas():
    assert len(generic.KINDS) >= 13


@EACH_KIND
def test_seeds_are_accepted(kind):
    for text in records.seeds(kind):
        assert agree(kind, text) is None


@EACH_KIND
def test_records(kind):
    seen = set()

    @given(records.of_kind(kind))
    def each(record):
        seen.add(agree(kind, json.dumps(record)))

    each()
    # Else nothing but shapes was compared.
    assert seen >= ({None, "rule"} if generic.has_rules(kind) else {None})


@EACH_KIND
def test_mutated_records(kind):
    @given(records.mutated(records.of_kind(kind)))
    def each(text):
        agree(kind, text)

    each()


@EACH_KIND
def test_a_second_engine_evaluates_the_rules_alike(kind):
    @settings(max_examples=settings.default.max_examples // 10)
    @given(records.of_kind(kind).filter(generic.VALIDATORS[kind].is_valid))
    def each(record):
        for rule, value in generic.Bound(kind, record).rules:
            assert generic.holds_slowly(rule, value) == generic.holds(rule, value), rule

    each()
