"""Integers that a policy calls missing: counted where the leaf is, taken out of the triage, recorded and shown."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from firstnan import ContractError, ExpectedNonfinite, MissingSentinel, NonfinitePolicy, ObservationWord
from firstnan.jax import (
    Exclusion,
    LeafCount,
    StepRefused,
    capture,
    count_shards,
    count_stages,
    each_shard,
    read_bundle,
    run,
    verify_bundle,
)
from firstnan.jax.policy import apply_policy, unused_entries

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def policy(*missing, expected=()):
    return NonfinitePolicy(policy_version="v1", expected=tuple(expected), missing=tuple(missing), roles=(),
                           maximum_consecutive_skips=0, skip_may_change=())


def padding(value=-100, path="labels", stage="input"):
    return MissingSentinel(stage=stage, path=path, value=value, reason="padding, ignored by the loss")


def only_leaf(counts):
    (leaf,) = counts.to_host().leaves
    return leaf


@given(st.sampled_from(INTEGERS), st.data())
def test_the_host_counts_exactly_the_elements_that_equal_a_value(dtype, data):
    limits = np.iinfo(dtype)
    near = st.sampled_from([limits.min, limits.max, 0, 1, 100])
    elements = data.draw(st.lists(near, max_size=20))
    values = data.draw(st.lists(st.one_of(near, st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=3))
    values = [value for value in values if value < 2**63] or [0]
    leaf = only_leaf(count_stages(input={"labels": np.array(elements, dtype)}, policy=policy(*map(padding, values))))
    assert (leaf.missing, leaf.missing_values) == (sum(one in values for one in elements), tuple(sorted(set(values))))
    assert (leaf.nan, leaf.nonfinite, leaf.checked) == (0, 0, len(elements))
    assert LeafCount.from_json(leaf.to_json()) == leaf


@pytest.mark.parametrize("dtype", [*INTEGERS, ml_dtypes.int4, ml_dtypes.uint4])
@pytest.mark.parametrize("shape", [(7,), (3, 200)])
def test_the_device_counts_what_the_host_counts(dtype, shape):
    limits = ml_dtypes.iinfo(dtype)
    rng = np.random.default_rng(1)
    labels = np.array([int(limits.min), int(limits.max), 1], dtype)[rng.integers(0, 3, shape)]
    declared = policy(padding(int(limits.min)), padding(min(int(limits.max), 2**63 - 1)), padding(-(2**63)))
    on_host = only_leaf(count_stages(input={"labels": labels}, policy=declared))
    with jax.enable_x64(True):
        device = jnp.asarray(labels)
        assert device.dtype == labels.dtype
        counted = only_leaf(jax.jit(lambda x: count_stages(input={"labels": x}, policy=declared))(device))
    assert counted == on_host
    assert 0 < counted.missing <= counted.checked


def test_only_integer_leaves_that_the_policy_names_have_missing_elements():
    batch = {"labels": jnp.array([-100, 3]), "others": jnp.array([-100]), "mask": jnp.array([True]), "x": jnp.array([-100.0])}
    declared = policy(padding(path="labels"), padding(1, path="mask"), padding(path="x"), padding(path="labels", stage="loss"))
    counts = count_stages(input=batch, policy=declared).to_host()
    assert {leaf.path: leaf.missing_values for leaf in counts.leaves if leaf.missing_values} == {"labels": (-100,)}
    assert unused_entries(declared, counts) == ("input: mask", "input: x")
    plain = count_stages(input=batch).to_host()
    assert "missing" not in plain.to_json()["leaves"][0]
    assert [leaf for leaf in apply_policy(counts, declared).tally.leaves if leaf.path != "labels"] == [
        leaf for leaf in plain.leaves if leaf.path != "labels"
    ]


def test_a_policy_with_missing_integers_hides_no_leaf_that_it_does_not_name():
    batch = {"labels": jnp.array([-100, 3]), "x": jnp.array([jnp.nan, 1.0]), "labels_too": jnp.array([-100, -100])}
    declared = policy(padding())
    triaged = apply_policy(count_stages(input=batch, policy=declared).to_host(), declared)
    assert triaged.tally.total("input").nonfinite == 1
    assert [(leaf.path, leaf.checked) for leaf in triaged.tally.leaves] == [("labels", 1), ("labels_too", 2), ("x", 2)]
    assert triaged.excluded == (Exclusion("input", "labels", 0, 0, 0, 1),)
    assert Exclusion.from_json(triaged.excluded[0].to_json()) == triaged.excluded[0]


def test_each_shard_and_each_example_counts_its_own():
    declared = policy(padding())
    labels = jnp.array([[-100, 1], [2, 3]])
    stacked = jax.vmap(lambda row: count_stages(input={"labels": row}, policy=declared))(labels)
    assert [only_leaf(one).missing for one in stacked.unstack()] == [1, 0]
    mesh = Mesh(np.array(jax.devices()[:1]), ("data",))
    (shard,) = each_shard(count_shards(mesh=mesh, specs=P("data"), policy=declared, input={"labels": labels}), mesh)
    assert shard.tally.leaves[0].missing == 1


def step_of(declared, counted=None):
    """A step whose loss ignores padded labels, and goes NaN on a batch without any other."""
    counted = declared if counted is None else counted

    @jax.jit
    def step(w, batch):
        def loss_of(w):
            kept = batch["labels"] != -100
            return jnp.sum(jnp.where(kept, (batch["x"] * w - batch["labels"]) ** 2, 0.0)) / jnp.sum(kept), batch["x"] * w

        (loss, outputs), grads = jax.value_and_grad(loss_of, has_aux=True)(w)
        new = w - 0.01 * grads
        return new, count_stages(input=batch, forward=outputs, loss=loss, backward=grads, optimizer=new, policy=counted)

    return step


def batches():
    for labels in ([1, 2, -100], [-100, -100, -100]):
        yield {"x": np.ones(3, np.float32), "labels": np.array(labels, np.int32)}


def test_what_is_missing_stands_in_the_bundle_and_in_the_evidences_identity(contract, tmp_path):
    declared = policy(padding())
    held = run(step_of(declared), jnp.float32(1), batches(), contract=contract, bundle_dir=tmp_path, policy=declared)
    assert (held.held, held.bad_step, held.report.earliest_nonfinite_stage) == (True, 1, "loss")
    assert held.evidence.stages[0].checked_elements == 3
    assert verify_bundle(held.bundle) == ()
    bundle = read_bundle(held.bundle)
    assert bundle.excluded == (Exclusion("input", "labels", 0, 0, 0, 3),)
    told = [one for one in bundle.observations.observations if one.word is ObservationWord.MISSING_ELEMENTS]
    assert [(one.stage, one.path, one.elements) for one in told] == [("input", "labels", 3)]
    assert not any(one.word is ObservationWord.EXCLUDED_BY_POLICY for one in bundle.observations.observations)
    renamed = replace(declared, missing=(replace(padding(), reason="another"),))
    again = capture(bundle.counts, bundle.contract, policy=renamed, evidence_id=held.evidence.evidence_id)
    assert again.evidence_content_id != held.evidence.evidence_content_id
    assert again.stages[0].checked_elements == 3


@pytest.mark.parametrize("counted", [policy(), policy(padding(-1)), policy(padding(), padding(0))])
def test_a_step_that_counts_other_integers_than_the_policy_is_refused(counted, contract, tmp_path):
    declared = policy(padding(), expected=[ExpectedNonfinite(stage="loss", path="", nan=True, positive_infinity=False,
                                                             negative_infinity=False, reason="none")])
    with pytest.raises(StepRefused, match=r"calls \[-100\] missing in the input leaf 'labels'.*give count_stages this policy"):
        run(step_of(declared, counted), jnp.float32(1), batches(), contract=contract, bundle_dir=tmp_path, policy=declared)
    (bundle,) = tmp_path.iterdir()
    assert verify_bundle(bundle) == ()


def test_a_policy_that_is_none_is_refused():
    with pytest.raises(ContractError, match="NonfinitePolicy"):
        count_stages(input=jnp.ones(2), policy={"missing": []})
