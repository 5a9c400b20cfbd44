"""Public incidents: the stage, the leaf and the observations that each must have, and silence where nothing is wrong."""

import json
from dataclasses import replace

import incidents
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from firstnan import LeafRole, ObservationWord, RoleOfLeaves
from firstnan.jax import count_stages, read_bundle, run, verify_bundle


def words(result):
    return {one.word.value for one in result.observations.observations}


@pytest.mark.parametrize("name", incidents.CASES)
@pytest.mark.parametrize("every", [1, 4])
def test_an_incident_is_held_where_it_first_shows(name, every, contract, tmp_path):
    case = incidents.CASES[name]()
    # numpy warns where jax casts float64 that float32 cannot hold, and as an error that warning crashes jaxlib.
    with np.errstate(over="ignore"):
        result = run(case.step(), case.state(), case.batches, contract=contract, bundle_dir=tmp_path, every=every,
                     policy=case.policy)
    if case.stage is None:
        assert (result.held, result.steps) == (False, len(case.batches))
        return
    assert result.held
    assert result.report.earliest_nonfinite_stage == case.stage
    leaves = {leaf.path for leaf in result.counts.leaves if leaf.stage == case.stage and leaf.nonfinite}
    assert case.leaf in leaves
    assert set(case.words) <= words(result)
    assert not set(case.without) & words(result)
    assert words(result) >= {"reproduced"}
    bundle = read_bundle(result.bundle)
    assert (bundle.observations, bundle.policy) == (result.observations, case.policy)
    assert verify_bundle(result.bundle) == ()


def observed(result, word):
    return [one for one in result.observations.observations if one.word is ObservationWord(word)]


def test_what_was_there_before_is_named_with_its_role(contract, tmp_path):
    case = incidents.e6_nan_in_the_optimizer_state_on_resume()
    result = run(case.step(), case.state(), case.batches, contract=contract, bundle_dir=tmp_path, policy=case.policy)
    (entered,) = observed(result, "present_on_entry")
    assert (entered.role, entered.path, entered.elements) == (LeafRole.OPTIMIZER_STATE, "optimizer/0/nu", 1)
    undeclared = run(case.step(), case.state(), case.batches, contract=contract, bundle_dir=tmp_path)
    assert observed(undeclared, "present_on_entry")[0].role is LeafRole.STATE


def test_a_frozen_leaf_was_bad_before_the_window_however_long_that_is(contract, tmp_path):
    """F9: a loss that is logged finite hides it."""
    case = incidents.e8_nan_in_a_frozen_leaf()
    case.batches = [jnp.ones(2)] * 3
    result = run(case.step(), case.state(), case.batches, contract=contract, bundle_dir=tmp_path, every=3, policy=case.policy)
    assert [one.path for one in observed(result, "began_before_window")] == ["params/frozen"]
    assert np.isfinite(result.history[-1].metrics["loss"])


def scaled_step(overflow_from, honest=True):
    """float16 gradients under a loss scale that halves on overflow; `honest` skips, else it moves on all the same."""

    @jax.jit
    def step(state, batch):
        def scaled(w):
            loss = jnp.sum(w.astype(jnp.float32) * batch)
            return loss * state["loss_scale"], (loss, w)

        grads, (loss, outputs) = jax.grad(scaled, has_aux=True)(state["params"].astype(jnp.float16))
        good = jnp.isfinite(grads).all()
        update = -0.01 * jnp.where(jnp.isfinite(grads), grads, 0).astype(jnp.float32) / state["loss_scale"]
        params = state["params"] + update
        counts = count_stages(input=batch, forward=outputs, loss=loss, backward=grads, optimizer=(update, params))
        kept = jnp.where(good, params, state["params"]) if honest else params
        scale = jnp.where(good, state["loss_scale"], state["loss_scale"] / 2)
        return {"params": kept, "loss_scale": scale}, counts, {"loss": loss, "loss_scale": state["loss_scale"], "skipped": ~good}

    return step, {"params": jnp.ones(2), "loss_scale": jnp.float32(overflow_from)}


BATCHES = [jnp.array([8.0, 1.0])] * 6


@pytest.mark.parametrize("every", [1, 2, 4])
def test_an_overflow_that_the_scaler_skips_is_passed_over(contract, tmp_path, every):
    """C9."""
    step, state = scaled_step(2.0**16)
    policy = incidents.declared(skips=4, may_change=("loss_scale",))
    result = run(step, state, BATCHES, contract=contract, bundle_dir=tmp_path, every=every, policy=policy)
    assert (result.held, result.steps) == (False, 6)
    skipped = [summary.metrics["skipped"] for summary in result.history]
    assert skipped == [1, 1, 1, 1, 0, 0]
    assert not list(tmp_path.iterdir())
    # Without the policy, and without the step's word, it is a HOLD.
    assert run(step, state, BATCHES, contract=contract, bundle_dir=tmp_path).report.earliest_nonfinite_stage == "backward"


@pytest.mark.parametrize("every", [1, 3])
def test_a_scaler_that_goes_on_skipping_is_held(contract, tmp_path, every):
    """C10, by persistence."""
    step, state = scaled_step(2.0**20)
    policy = incidents.declared(skips=3, may_change=("loss_scale",))
    result = run(step, state, BATCHES, contract=contract, bundle_dir=tmp_path, every=every, policy=policy)
    assert (result.held, result.bad_step, result.observations.consecutive_skips) == (True, 3, 4)
    assert words(result) >= {"skips_exhausted", "skipped_by_scaler", "contained"}
    assert result.state["params"].tolist() == [1.0, 1.0]


def test_a_skip_does_not_cover_what_shows_before_the_gradients(contract, tmp_path):
    """C10: the forward was non-finite already."""
    step, state = scaled_step(2.0**10)
    policy = incidents.declared(skips=3, may_change=("loss_scale",))
    state["params"] = jnp.array([1e5, 1.0])
    result = run(step, state, BATCHES, contract=contract, bundle_dir=tmp_path, policy=policy)
    assert (result.held, result.bad_step, result.report.earliest_nonfinite_stage) == (True, 0, "forward")


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("may_change", [("loss_scale",), ("params",), ()])
def test_a_skip_that_is_not_a_skip_is_held(contract, tmp_path, every, may_change):
    """E9: the update went on with the gradients that were finite; and a skip may change only what is declared."""
    step, state = scaled_step(2.0**14, honest=False)
    policy = incidents.declared(skips=3, may_change=may_change)
    result = run(step, state, [jnp.array([8.0, 1.0])] * 2, contract=contract, bundle_dir=tmp_path, every=every, policy=policy)
    assert (result.held, result.bad_step) == (True, 0)
    changed = {one.path for one in observed(result, "skip_changed_state")}
    assert changed == {"params", "loss_scale"} - set(may_change)


def test_one_microbatch_of_four_is_named(contract, tmp_path):
    """C11."""

    @jax.jit
    def step(w, batch):
        def micro(total, x):
            loss, grads = jax.value_and_grad(lambda w: jnp.sum(w * jnp.sqrt(jnp.abs(w) * x)))(w)
            return total + grads, (count_stages(backward=grads), loss)

        grads, (each, losses) = jax.lax.scan(micro, jnp.zeros_like(w), batch)
        counts = count_stages(input=batch, forward=w, loss=losses, backward=grads, optimizer=w - 0.01 * grads)
        return w - 0.01 * grads, counts, {"microbatches": each}

    result = run(step, jnp.ones(1), [jnp.array([1.0, 2.0, 0.0, 3.0])], contract=contract, bundle_dir=tmp_path)
    assert result.report.earliest_nonfinite_stage == "backward"
    each = step(jnp.ones(1), jnp.array([1.0, 2.0, 0.0, 3.0]))[2]["microbatches"]
    assert [part.to_host().first_nonfinite for part in each.unstack()] == [None, None, "backward", None]


def test_a_step_that_does_not_repeat_itself_is_told_so(contract, tmp_path):
    """F5: what one run shows and the next does not."""
    calls = iter([jnp.nan, 1.0, 1.0])

    def step(w, x):
        bad = w * x * next(calls)
        return w, count_stages(input=x, forward=bad, loss=w.sum(), backward=w, optimizer=w)

    result = run(step, jnp.ones(1), [jnp.ones(1)], contract=contract, bundle_dir=tmp_path)
    assert words(result) == {"not_reproduced", "reach_undecided"}


def test_a_maximum_does_not_swallow_a_nan():
    """D3."""
    (leaf,) = count_stages(loss=jnp.array([1.0, jnp.nan, 3.0])).to_host().leaves
    assert (leaf.nan, leaf.maximum_absolute_finite) == (1, 3.0)


def test_apply_if_finite_leaves_parameters_and_state_bit_for_bit(contract, tmp_path):
    """A step under optax's own wrapper, which says in its state whether it applied the update."""
    optimizer = optax.apply_if_finite(optax.adam(0.1), max_consecutive_errors=8)

    @jax.jit
    def step(state, x):
        loss, grads = jax.value_and_grad(lambda w: jnp.sum(jnp.sqrt(w * x)))(state["params"])
        updates, opt_state = optimizer.update(grads, state["optimizer"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        counts = count_stages(input=x, forward=state["params"], loss=loss, backward=grads, optimizer=(updates, params))
        return {"params": params, "optimizer": opt_state}, counts, {"skipped": ~opt_state.last_finite}

    state = {"params": jnp.ones(2), "optimizer": optimizer.init(jnp.ones(2))}
    batches = [jnp.ones(2), jnp.array([0.0, 1.0]), jnp.ones(2)]
    counters = ("optimizer/notfinite_count", "optimizer/last_finite", "optimizer/total_notfinite")
    policy = replace(incidents.declared(skips=2, may_change=counters), roles=(RoleOfLeaves(LeafRole.PARAMETERS, "params"),))
    result = run(step, state, batches, contract=contract, bundle_dir=tmp_path, policy=policy)
    assert (result.held, result.steps, int(result.state["optimizer"].total_notfinite)) == (False, 3, 1)


def test_the_command_and_the_page_show_what_was_observed(contract, tmp_path, capsys):
    from firstnan.cli import main
    from firstnan.report.observed import SAID

    case = incidents.e8_nan_in_a_frozen_leaf()
    result = run(case.step(), case.state(), case.batches, contract=contract, bundle_dir=tmp_path, policy=case.policy)
    assert main(["triage", str(result.bundle)]) == 0
    text = capsys.readouterr().out
    assert "present_on_entry" in text
    assert "params/frozen" in text
    assert main(["triage", str(result.bundle), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["observations"]["observations"]
    assert {one["word"] for one in told} == words(result)
    assert main(["report", str(result.bundle)]) == 0
    page = capsys.readouterr().out
    assert SAID[ObservationWord.PRESENT_ON_ENTRY] in page
    assert set(SAID) == set(ObservationWord)
