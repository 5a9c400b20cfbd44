"""Each refusal of triage is reached, alone: evidence right but for one thing, and sealed to it."""

import copy
import json
import math
from types import SimpleNamespace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import firstnan
from properties.incidents import ANY, contracts, identity, sealed, stages_of
from properties.outcome import of_reference
from reference import decode as reference
from reference import triage
from reference.triage import SCOPE

FEW = settings(max_examples=settings.default.max_examples // 7)


@st.composite
def steps(draw):
    """A contract and stages that triage takes, and the earliest stage that is not finite."""
    contract, first = draw(contracts()), draw(st.sampled_from([None, 0, 1, 2, 3, 4]))
    contract["maximum_total_elements"] = 5 * contract["maximum_elements_per_stage"]
    return contract, draw(stages_of(contract, first)), first


def records_of(contract, evidence):
    return (firstnan.decode("training-incident-contract", json.dumps(contract)),
            firstnan.decode("training-run-evidence", json.dumps(evidence)))  # fmt: skip


def refusal(contract, evidence):
    """The refusal of both implementations: where ours points to."""
    of_text = map(json.dumps, (contract, evidence))
    kinds = ("training-incident-contract", "training-run-evidence")
    theirs = of_reference(triage.triage_training_incident, *map(reference.decode, kinds, of_text))
    assert theirs == "refused"
    with pytest.raises(firstnan.ContractError) as caught:
        firstnan.triage_training_incident(*records_of(contract, evidence))
    return caught.value.pointer


def accepted(contract, stages):
    return firstnan.triage_training_incident(*records_of(contract, sealed(contract, stages)))


@FEW
@given(steps())
def test_the_verdict_names_the_earliest(step):
    contract, stages, first = step
    report = accepted(contract, stages)
    assert report.earliest_nonfinite_stage == (None if first is None else firstnan.STAGES[first])
    assert report.decision == ("CONTINUE_BOUNDED_DIAGNOSTICS" if first is None else "HOLD")
    assert report.contract_content_id == identity(contract)


@pytest.mark.parametrize("name", SCOPE)
@FEW
@given(steps(), st.integers(0, 4))
def test_a_stage_of_another_step(name, step, at):
    contract, stages, _ = step
    value = stages[at][name]
    if name == "step_id":
        stages[at][name] = value - 1 if value else 1
    elif name == "loss_scale":
        stages[at][name] = math.nextafter(value, math.inf)
    else:
        stages[at][name] = f"x{value}"[:128] if value != "x" * 128 else "y"
    assume(stages[at][name] != value)
    assert refusal(contract, sealed(contract, stages)) == f"/stages/{at}/{name}"


@FEW
@given(steps(), st.integers(0, 4))
def test_an_owner_of_another_stage(step, at):
    contract, stages, _ = step
    stages[at]["owner"] = "team:someone-else"
    assert refusal(contract, sealed(contract, stages)) == f"/stages/{at}/owner"


@pytest.mark.parametrize("name", ["telemetry_id", "tensor_set_id"])
@FEW
@given(steps(), st.permutations(range(5)))
def test_an_id_used_twice(name, step, order):
    contract, stages, _ = step
    earlier, later = sorted(order[:2])
    stages[later][name] = stages[earlier][name]
    assert refusal(contract, sealed(contract, stages)) == f"/stages/{later}/{name}"


@FEW
@given(steps(), st.permutations(range(5)))
def test_stages_out_of_order(step, order):
    contract, stages, _ = step
    moved = [stages[at] for at in order]
    assume(moved != stages)
    first_moved = next(at for at in range(5) if order[at] != at)
    assert refusal(contract, sealed(contract, moved)) == f"/stages/{first_moved}/stage"


@FEW
@given(steps(), st.integers(0, 4), st.integers(1, 4))
def test_a_stage_misnumbered(step, at, more):
    contract, stages, _ = step
    stages[at]["stage_order"] = (at + more) % 5
    assert refusal(contract, sealed(contract, stages)) == f"/stages/{at}/stage_order"


@FEW
@given(steps(), ANY)
def test_more_elements_than_the_bounds(step, at):
    contract, stages, first = step
    at %= 5 if first is None else first + 1
    most = contract["maximum_elements_per_stage"]
    too_many, bound = copy.deepcopy(stages), copy.deepcopy(stages)
    for changed, count in ((too_many, most + 1), (bound, most)):
        changed[at].update(checked_elements=count, finite_elements=count - changed[at]["nonfinite_elements"])
    assert refusal(contract, sealed(contract, too_many)) == f"/stages/{at}/checked_elements"
    total = sum(stage["checked_elements"] for stage in bound)
    contract["maximum_total_elements"] = max(total, most)
    accepted(contract, bound)
    if total > most:
        contract["maximum_total_elements"] = total - 1
        assert refusal(contract, sealed(contract, bound)) == "/stages"


@FEW
@given(steps(), ANY)
def test_magnitudes_at_their_bounds_and_next_to_them(step, at):
    contract, stages, first = step
    at %= 5 if first is None else first + 1
    low, high = contract["minimum_numeric_resolution"], contract["maximum_absolute_finite"]
    for value in (low, high, float(high), 0, 0.0, -0.0):
        stages[at]["maximum_absolute_finite"] = value
        accepted(contract, stages)
    for value in (math.nextafter(high, math.inf), high * 2, math.nextafter(low, 0), 5e-324, 10**300):
        stages[at]["maximum_absolute_finite"] = value
        assert refusal(contract, sealed(contract, stages)) == f"/stages/{at}/maximum_absolute_finite"


EMPTY = {"state": "NOT_RUN", "checked_elements": 0, "finite_elements": 0, "nonfinite_elements": 0, "maximum_absolute_finite": 0}
ONE = {"state": "OBSERVED", "checked_elements": 1, "finite_elements": 1, "nonfinite_elements": 0, "maximum_absolute_finite": 0}


@FEW
@given(steps(), ANY)
def test_states_that_do_not_follow(step, at):
    contract, stages, first = step
    early = at % (5 if first is None else first + 1)
    unfounded = [stage | EMPTY if order >= early else stage for order, stage in enumerate(stages)]
    assert refusal(contract, sealed(contract, unfounded)) == f"/stages/{early}/state"
    if first is not None and first < 3:
        resumed = [stage | EMPTY if order == first + 1 else stage | ONE if order > first else stage
                   for order, stage in enumerate(stages)]  # fmt: skip
        assert refusal(contract, sealed(contract, resumed)) == f"/stages/{first + 2}/state"


@FEW
@given(steps(), ANY, st.sampled_from(["contract", "stage", "evidence_id"]))
def test_a_seal_that_does_not_match(step, at, what):
    contract, stages, _ = step
    evidence = sealed(contract, stages)
    if what == "contract":
        contract["incident_owner"] += "x"
        assert refusal(contract, evidence) == "/contract_content_id"
    elif what == "stage":
        evidence["stages"] = copy.deepcopy(stages)
        evidence["stages"][at % 5]["evidence_source_id"] += "x" if len(stages[at % 5]["evidence_source_id"]) < 128 else ""
        assume(evidence["stages"] != stages)
        assert refusal(contract, evidence) == "/evidence_content_id"
    else:
        evidence["evidence_id"] = "f"
        assert refusal(contract, evidence) == "/evidence_content_id"


@FEW
@given(steps(), st.sampled_from([int, float]))
def test_a_loss_scale_compares_by_value_and_seals_by_type(step, of):
    contract, stages, _ = step
    contract["loss_scale"] = 512.0
    for stage in stages:
        stage["loss_scale"] = of(512)
    assert accepted(contract, stages).contract_content_id == identity(contract)
    retyped = [{**stage, "loss_scale": (float if of is int else int)(512)} for stage in stages]
    evidence = sealed(contract, stages)
    assert sealed(contract, retyped)["evidence_content_id"] != evidence["evidence_content_id"]
    assert refusal(contract, {**evidence, "stages": retyped}) == "/evidence_content_id"


class Contract(firstnan.TrainingIncidentContract):
    """A subclass is not the class."""


class Evidence(firstnan.TrainingRunEvidence):
    """A subclass is not the class."""


@FEW
@given(steps())
def test_subclasses_and_look_alikes_are_a_type_error(step):
    values, stages, _ = step
    contract, evidence = records_of(values, sealed(values, stages))
    of_reference_class = reference.decode("training-incident-contract", json.dumps(values))
    for wrong in (Contract(**vars(contract)), of_reference_class, SimpleNamespace(**vars(contract)), values, None, evidence):
        with pytest.raises(TypeError):
            firstnan.triage_training_incident(wrong, evidence)
        with pytest.raises(TypeError):
            firstnan.TrainingRunEvidence.capture(evidence_id="e", contract=wrong, stages=evidence.stages)
    for wrong in (Evidence(**vars(evidence)), SimpleNamespace(**vars(evidence)), sealed(values, stages), None, contract):
        with pytest.raises(TypeError):
            firstnan.triage_training_incident(contract, wrong)


@FEW
@given(steps(), st.sampled_from([tuple, list, iter]))
def test_capture_seals_what_triage_takes(step, shape):
    values, stages, _ = step
    contract, evidence = records_of(values, sealed(values, stages))
    assert firstnan.TrainingRunEvidence.capture(evidence_id="e", contract=contract, stages=shape(evidence.stages)) == evidence
