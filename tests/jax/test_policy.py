"""Policies: what is declared as intended is taken out, counted and recorded; nothing else is hidden."""

import fnmatch
from dataclasses import replace

import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstnan import ContractError, ExpectedNonfinite, LeafRole, NonfinitePolicy, RoleOfLeaves, triage_training_incident
from firstnan.jax import capture, count_stages
from firstnan.jax.policy import apply_policy, matches, role_of, unused_entries

NAN, INF = jnp.nan, jnp.inf


def policy(*expected, roles=(), skips=0, may_change=()):
    return NonfinitePolicy(policy_version="v1", expected=tuple(expected), missing=(), roles=tuple(roles),
                           maximum_consecutive_skips=skips, skip_may_change=tuple(may_change))


def mask(path="scores", stage="forward", **kinds):
    kinds = {"nan": False, "positive_infinity": False, "negative_infinity": True} | kinds
    return ExpectedNonfinite(stage=stage, path=path, reason="mask", **kinds)


def forward(tree):
    return count_stages(forward=tree).to_host()


def test_the_kinds_of_a_named_leaf_are_taken_out_and_kept():
    counts = forward({"scores": jnp.array([1.0, -INF, -INF, NAN]), "other": jnp.array([-INF, 2.0])})
    triaged = apply_policy(counts, policy(mask()))
    scores, other = (next(leaf for leaf in triaged.tally.leaves if leaf.path == path) for path in ("scores", "other"))
    assert (scores.checked, scores.negative_infinity, scores.nan, scores.finite) == (2, 0, 1, 1)
    assert other == next(leaf for leaf in counts.leaves if leaf.path == "other")
    (out,) = triaged.excluded
    assert (out.stage, out.path, out.elements, out.negative_infinity) == ("forward", "scores", 2, 2)


def test_nothing_is_hidden_by_an_entry_of_another_stage_leaf_or_kind():
    counts = forward({"scores": jnp.array([NAN, INF])})
    others = mask(stage="input", nan=True), mask(path="score", nan=True), mask(path="scores/*", nan=True)
    for entry in others:
        assert apply_policy(counts, policy(entry)).tally == counts
    assert unused_entries(policy(mask("score"), mask("scores"), mask("x", stage="loss")), counts) == ("forward: score",)


def test_a_root_leaf_has_the_empty_path():
    assert apply_policy(forward(jnp.array([-INF, 1.0])), policy(mask(""))).tally.total("forward").nonfinite == 0


def test_a_policy_and_what_it_took_out_are_part_of_the_evidences_identity(contract):
    def step(scores):
        return count_stages(input=jnp.ones(3), forward={"scores": scores}, loss=jnp.float32(1), backward=jnp.ones(2),
                            optimizer=jnp.ones(2))

    bad, clean = step(jnp.array([1.0, -INF, 2.0])), step(jnp.array([1.0, 0.5, 2.0]))
    one, other = policy(mask()), policy(mask(), skips=1)
    assert triage_training_incident(contract, capture(bad, contract)).earliest_nonfinite_stage == "forward"
    evidence = capture(bad, contract, policy=one)
    assert triage_training_incident(contract, evidence).decision == "CONTINUE_BOUNDED_DIAGNOSTICS"
    forward_told = evidence.stages[1]
    assert (forward_told.checked_elements, forward_told.nonfinite_elements) == (2, 0)
    told = [capture(counts, contract, policy=declared) for counts in (bad, clean) for declared in (None, one, other)]
    assert len({evidence.evidence_content_id for evidence in told}) == 6
    with pytest.raises(ContractError, match="NonfinitePolicy"):
        capture(bad, contract, policy={"expected": []})
    with pytest.raises(ContractError, match="forward has no element"):
        capture(step(jnp.full(3, -INF)), contract, policy=one)


def test_an_entry_must_expect_something_and_fields_are_checked():
    with pytest.raises(ContractError, match="at least one kind"):
        mask(negative_infinity=False)
    with pytest.raises(ContractError, match="/maximum_consecutive_skips"):
        policy(skips=-1)
    with pytest.raises(ContractError, match="/reason"):
        replace(mask(), reason="")


def test_the_first_role_that_matches_counts():
    declared = policy(roles=[RoleOfLeaves(LeafRole.PARAMETERS, "0/*"), RoleOfLeaves(LeafRole.OPTIMIZER_STATE, "*")])
    assert role_of("0/kernel", declared) is LeafRole.PARAMETERS
    assert role_of("1/mu", declared) is LeafRole.OPTIMIZER_STATE
    assert role_of("1/mu", None) is LeafRole.STATE


@given(st.text("ab/*", max_size=8), st.text("ab/", max_size=12))
def test_patterns_match_as_shell_patterns_of_stars_do(pattern, path):
    assert matches(pattern, path) == fnmatch.fnmatchcase(path, pattern)


@given(st.text("*ab[]?!.^$\\\n", max_size=8))
def test_only_the_star_is_special(text):
    assert matches(text, text)
    assert matches(text.replace("*", ""), text) == ("*" not in text)


def test_many_stars_take_no_time():
    assert not matches("*a" * 500 + "b", "a" * 1024)
