"""Canonical bytes of Python objects: the package, the second implementation and `json.dumps` agree."""

import copy
import json
from dataclasses import dataclass
from hashlib import sha256

from hypothesis import example, given
from hypothesis import strategies as st

import firstnan
from properties import objects
from properties.outcome import REFUSED, of_package, of_package_typed, of_reference
from reference import canonical as reference

RECORDS = {firstnan.TrainingIncidentContract, firstnan.StageTelemetry, firstnan.TrainingRunEvidence, firstnan.IncidentReport}


@given(st.one_of(objects.of_record, objects.anything), st.one_of(st.just(65536), st.integers(1, 300)))
@example({"\ue000": 1, "\U00010000": 2, "\uffff": 3}, 65536)
@example([objects.boxed(objects.Node(None, {}))] * 2, 65536)
@example([{}, {}, {"a": 1}, {"a": 2}, {}], 65536)
@example([objects.Reversed([1, 2]), objects.Doubled(a=2)], 65536)
@example({objects.Text("a"): 1, "b": objects.Number(2**63 - 1)}, 65536)
@example("\U0001f600", 4)
def test_record_profile(value, max_bytes):
    ours = of_package(firstnan.canonical_record, value, max_bytes=max_bytes)
    assert ours == of_reference(reference.canonical_record, value, max_bytes=max_bytes)
    if max_bytes == 65536:
        digest = of_package(firstnan.contract_digest, value)
        assert digest == (REFUSED if ours == REFUSED else sha256(ours).hexdigest())


@given(st.one_of(objects.of_evidence, objects.anything))
@example({"\ud83d\ude00": 1, "\uffff": 2})
@example({"\U0001f600": 1, "\uffff": 2})
@example({"\ud83d\ude00": 1, "\U0001f600": 2})
@example([objects.Real(0.1), objects.Number(10**30), objects.Colour.RED, objects.Level.HUGE, objects.Corner.ORIGIN])
@example(objects.Doubled({"\x00more": 2}))
def test_evidence_profile(value):
    ours = of_package_typed(firstnan.canonical_evidence, value)
    assert ours == of_reference(reference.canonical_evidence, value, RECORDS)
    identity = of_package_typed(firstnan.content_id, "training-incident-evidence", value)
    assert identity == of_reference(reference.content_id, "training-incident-evidence", value, RECORDS)


@given(objects.plain)
def test_evidence_profile_is_what_json_dumps_writes(value):
    try:
        expected = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:
        expected = REFUSED
    if names_collide(value):
        expected = REFUSED
    assert of_package(firstnan.canonical_evidence, value) == expected


def names_collide(value):
    """Do two names of one dict escape alike, as a pair of surrogates and the character that they stand for?"""
    if isinstance(value, dict):
        escaped = {json.dumps(name) for name in value}
        return len(escaped) < len(value) or any(map(names_collide, value.values()))
    return isinstance(value, list) and any(map(names_collide, value))


@given(objects.plain)
def test_record_profile_is_what_json_dumps_writes(value):
    ours = of_package(firstnan.canonical_record, value)
    try:
        expected = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        expected = REFUSED
    if out_of_bounds(value):
        expected = REFUSED
    assert ours == expected


def out_of_bounds(value, depth=0):
    if isinstance(value, float) or depth > 16:
        return True
    if type(value) is int:
        return not -(2**63) <= value < 2**63
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(out_of_bounds(each, depth + 1) for each in inner)


@given(objects.strangers, st.sampled_from([lambda it: it, lambda it: [it], lambda it: {"a": it}, lambda it: (1, [it])]))
def test_the_class_of_a_refusal_of_a_type(stranger, wrap):
    assert of_package(firstnan.canonical_record, wrap(stranger)) == REFUSED
    try:
        firstnan.canonical_evidence(wrap(stranger))
    except TypeError:
        return
    raise AssertionError("taken, or refused as a value")


LOOPS = {
    "list": ([], list.append),
    "dict": ({"a": 1}, lambda table, inner: table.update(b=inner)),
    "dataclass": (objects.Node(1, None), lambda node, inner: setattr(node, "below", inner)),
}


@given(objects.plain, st.integers(0, 3), st.sampled_from(sorted(LOOPS)))
def test_a_cycle_is_refused(value, depth, kind):
    loop, close = copy.deepcopy(LOOPS[kind])
    inner = loop
    for _ in range(depth):
        inner = [value, inner]
    close(loop, inner)
    assert of_package(firstnan.canonical_record, loop) == REFUSED
    assert of_package_typed(firstnan.canonical_evidence, loop) == REFUSED


WRAPPERS = [lambda it: [it], lambda it: (it,), lambda it: {"": it}, objects.boxed, lambda it: objects.Node(0, it)]


@given(st.lists(st.sampled_from(WRAPPERS), min_size=13, max_size=19), st.sampled_from([0, [], {}, objects.Level.HIGH]))
def test_depth_of_the_record_profile(wrappers, value):
    for wrap in wrappers:
        value = wrap(value)
    assert of_package(firstnan.canonical_record, value) == of_reference(reference.canonical_record, value)


@given(st.lists(st.sampled_from(WRAPPERS[:3]), min_size=253, max_size=259), st.sampled_from([0, [], {}]))
def test_depth_of_the_evidence_profile(wrappers, value):
    for wrap in wrappers:
        value = wrap(value)
    assert of_package(firstnan.canonical_evidence, value) == of_reference(reference.canonical_evidence, value)


@given(st.integers(4085, 4097), st.lists(st.sampled_from([[], {}, objects.Level.HIGH, objects.Node(1, [])]), max_size=5))
def test_items_of_the_record_profile(items, more):
    value = [*more, *[None] * (items - len(more))]
    assert of_package(firstnan.canonical_record, value) == of_reference(reference.canonical_record, value)


@given(st.integers(1, 65536), st.integers(-3, 3), st.sampled_from("a\x00\x7f\"\u00e9\u20ac\U0001f600"), st.booleans())
def test_bytes_of_the_record_profile(max_bytes, more, character, named):
    text = character * max(0, max_bytes // len(character.encode()) + more)
    for value in (text, {text: 1} if named else [text]):
        ours = of_package(firstnan.canonical_record, value, max_bytes=max_bytes)
        assert ours == of_reference(reference.canonical_record, value, max_bytes=max_bytes)


@given(st.one_of(st.integers(), st.booleans(), st.floats(), st.none(), st.integers(1, 65536).map(objects.Number)))
def test_the_bound_of_bytes_is_exactly_an_int_in_range(max_bytes):
    allowed = type(max_bytes) is int and 1 <= max_bytes <= 65536
    ours = of_package(firstnan.canonical_record, None, max_bytes=65536 if max_bytes is None else max_bytes)
    assert (ours == REFUSED) == (max_bytes is not None and not (allowed and max_bytes >= 4))


@dataclass
class Emptying:
    """Empties a container while a field of it is read."""

    container: object

    def __getattribute__(self, name):
        held = object.__getattribute__(self, name)
        if name != "container":
            return held
        held.clear()
        return 1


@given(st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_a_container_that_changes_while_it_is_read(before, after, is_dict):
    container = {} if is_dict else []
    members = [*range(before), Emptying(container), *range(after)]
    container.update({str(i): member for i, member in enumerate(members)}) if is_dict else container.extend(members)
    ours = of_package(firstnan.canonical_record, container)
    assert ours == REFUSED or len(json.loads(ours)) == len(members)
