"""The verdict on random steps: the package and the second implementation agree."""

import json
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import firstnan
from properties.incidents import incidents
from properties.outcome import REFUSED, of_package, of_reference
from properties.records import ANY, pick
from reference import decode as reference
from reference import records, triage


def of_texts(decode, judge, contract, evidence):
    return judge(decode("training-incident-contract", contract), decode("training-run-evidence", evidence))


FIRST = [None, *range(5)]


@pytest.mark.parametrize("first", FIRST)
def test_verdicts(first):
    seen = set()

    @settings(max_examples=settings.default.max_examples // 3)
    @given(incidents(first))
    def each(incident):
        contract, evidence = map(json.dumps, incident)
        ours = of_package(of_texts, firstnan.decode, firstnan.triage_training_incident, contract, evidence)
        theirs = of_reference(of_texts, reference.decode, triage.triage_training_incident, contract, evidence)
        assert (ours == REFUSED) == (theirs == REFUSED)
        if ours != REFUSED:
            assert json.loads(firstnan.encode(ours)) == records.plain(theirs)
            assert ours == firstnan.IncidentReport(**records.plain(theirs))
        seen.add(REFUSED if ours == REFUSED else ours.earliest_nonfinite_stage)

    each()
    assert seen >= {REFUSED, None if first is None else firstnan.STAGES[first]}


NUMBERS = [True, 0, 1, -1, 2**63, 10**400, 1.0, float("nan"), float("inf"), -0.0, 1e-5]
TEXTS = ["", "a", "a\n", "\ud800", "team:a", "OBSERVED", "NOT_RUN", *firstnan.STAGES]
FORCED = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(TEXTS), st.sampled_from([None, (), [], {}, b"a"]))


@settings(max_examples=settings.default.max_examples * 2)
@given(st.sampled_from(FIRST).flatmap(incidents), st.data())
def test_forced_fields_are_seen(incident, data):
    contract, evidence = map(json.dumps, incident)
    ours = of_package(lambda: pair(firstnan.decode, contract, evidence))
    theirs = of_reference(lambda: pair(reference.decode, contract, evidence))
    assert (ours == REFUSED) == (theirs == REFUSED)
    if ours == REFUSED:
        return
    at, which, value = data.draw(ANY), data.draw(ANY), data.draw(FORCED)
    for contract, evidence in (ours, theirs):
        target = pick([contract, evidence, *evidence.stages], at)
        object.__setattr__(target, pick(fields(target), which).name, value)
    assert verdict(firstnan.triage_training_incident, ours) == verdict(triage.triage_training_incident, theirs)


def pair(decode, contract, evidence):
    return decode("training-incident-contract", contract), decode("training-run-evidence", evidence)


def verdict(judge, arguments):
    """The report's fields, or the class of the error: ValueError or TypeError."""
    try:
        return records.plain(judge(*arguments))
    except ValueError:
        return ValueError
    except TypeError:
        return TypeError
