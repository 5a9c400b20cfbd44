"""From counts to evidence, and the verdict on it."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from firstnan import STAGES, ContractError, triage_training_incident
from firstnan.jax import capture, count_stages


def five(**changed):
    stages = {stage: jnp.full((4,), index + 1.0) for index, stage in enumerate(STAGES)}
    return count_stages(**stages | changed)


def test_a_finite_step_is_observed_at_every_stage(contract):
    evidence = capture(five(), contract)
    assert [told.state for told in evidence.stages] == ["OBSERVED"] * 5
    assert [told.maximum_absolute_finite for told in evidence.stages] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert [told.owner for told in evidence.stages] == [contract.expected_owner(stage) for stage in STAGES]
    assert triage_training_incident(contract, evidence).decision == "CONTINUE_BOUNDED_DIAGNOSTICS"


@pytest.mark.parametrize("bad", STAGES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_stages_after_the_first_bad_one_are_not_run(contract, bad, value):
    later = STAGES[STAGES.index(bad) :]
    counts = five(**{stage: jnp.array([1.0, value, 2.0, value]) for stage in later})
    evidence = capture(counts, contract)
    assert [told.state for told in evidence.stages] == ["NOT_RUN" if stage in later[1:] else "OBSERVED" for stage in STAGES]
    held = evidence.stages[STAGES.index(bad)]
    assert (held.checked_elements, held.finite_elements, held.nonfinite_elements) == (4, 2, 2)
    report = triage_training_incident(contract, evidence)
    assert (report.decision, report.earliest_nonfinite_stage) == ("HOLD", bad)
    # What was measured later stays in the counts of the leaves.
    assert all(counts.to_host().total(stage).nonfinite == 2 for stage in later)


def test_sums_are_over_leaves_and_the_magnitude_over_inexact_ones(contract):
    batch = {"ids": jnp.array([50_000, 3]), "x": jnp.array([-2.5, 1.0], jnp.bfloat16), "z": jnp.array([3j])}
    told = capture(five(input=batch), contract).stages[0]
    assert (told.checked_elements, told.maximum_absolute_finite) == (5, 3.0)


def test_the_same_step_gives_the_same_evidence(contract):
    jitted = jax.jit(lambda x: count_stages(input=x, forward=x, loss=x, backward=x, optimizer=x))
    first, again = (capture(jitted(jnp.ones(4)), contract) for _ in range(2))
    assert first == again
    assert capture(jitted(jnp.ones(4)).to_host(), contract) == first
    other = capture(jitted(jnp.ones(5)), contract)
    assert other.stages[0].tensor_set_id != first.stages[0].tensor_set_id
    assert other.evidence_content_id != first.evidence_content_id
    assert capture(five(), replace(contract, step_id=1)).evidence_id != capture(five(), contract).evidence_id


def test_identifiers_hold_to_their_pattern_for_the_longest_contract(contract):
    longest = replace(contract, run_id="r" * 128, batch_id="b" * 128, step_id=10**12, model_version="m" * 128)
    assert triage_training_incident(longest, capture(five(), longest)).decision == "CONTINUE_BOUNDED_DIAGNOSTICS"


def test_the_callers_evidence_id_is_used(contract):
    assert capture(five(), contract, evidence_id="incident-7").evidence_id == "incident-7"
    with pytest.raises(ContractError, match="evidence_id"):
        capture(five(), contract, evidence_id="no spaces")


def test_a_stage_that_was_not_counted_is_refused_unless_the_step_is_held_before_it(contract):
    ones = jnp.ones(3)
    with pytest.raises(ContractError, match="forward was not counted"):
        capture(count_stages(input=ones, loss=ones, backward=ones, optimizer=ones), contract)
    evidence = capture(count_stages(input=jnp.array([jnp.nan])), contract)
    assert [told.state for told in evidence.stages] == ["OBSERVED"] + ["NOT_RUN"] * 4


@pytest.mark.parametrize("empty", [{}, jnp.zeros((0, 3)), [None]])
def test_a_stage_without_elements_is_refused(contract, empty):
    with pytest.raises(ContractError, match="loss has no element"):
        capture(five(loss=empty), contract)


def test_counts_beyond_the_contract_are_refused_with_advice(contract):
    with pytest.raises(ContractError, match=r"forward has 1000001 elements.*per rank or shard"):
        capture(five(forward=np.zeros(1_000_001)), contract)
    small = replace(contract, maximum_elements_per_stage=10, maximum_total_elements=12)
    with pytest.raises(ContractError, match=r"maximum_total_elements is 12.*per rank or shard"):
        capture(five(), small)
    # A hold ends the sum: what was not run is not counted.
    assert capture(five(loss=jnp.array([jnp.nan])), small).stages[2].nonfinite_elements == 1


def test_more_elements_than_the_record_can_say_are_refused_not_cut(contract):
    largest = replace(contract, maximum_elements_per_stage=10**10, maximum_total_elements=2 * 10**10)
    leaf = jax.ShapeDtypeStruct((10**10 + 1,), jnp.float32)
    shape = jax.eval_shape(lambda x: count_stages(input=x), leaf)
    counts = replace(shape, data=np.zeros((1, 8), np.uint32))
    with pytest.raises(ContractError, match="10000000001 elements"):
        capture(counts, largest)


def test_a_magnitude_outside_the_contract_is_left_to_triage(contract):
    evidence = capture(five(forward=jnp.array([1e20])), contract)
    with pytest.raises(ContractError):
        triage_training_incident(contract, evidence)


def test_stacked_counts_are_refused(contract):
    stacked = jax.vmap(lambda x: count_stages(input=x))(jnp.ones((2, 3)))
    with pytest.raises(ValueError, match="unstack"):
        capture(stacked, contract)
