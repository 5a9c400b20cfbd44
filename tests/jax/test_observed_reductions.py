"""What a held run says of a reduction over a mesh: which device was bad before it, or that only its result is."""

import json
import re
import subprocess
import sys
from dataclasses import asdict

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from firstnan import ContractError
from firstnan.jax import Shard, count_shards, count_stages, run, stacked_shard, verify_bundle
from firstnan.jax.reductions import MAX_SHARDS, ShardsSeen, observe_reduction, shards_seen
from firstnan.jax.shards import seen_shards

PROGRAM = """
import json, sys, jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from firstnan import TrainingIncidentContract
from firstnan.jax import count_stages, read_bundle, run, stacked_shard, verify_bundle

folder, contract = sys.argv[1], TrainingIncidentContract(**json.loads(sys.argv[2]))
# Reversed, so that a device's id is not its place.
mesh = Mesh(np.array(jax.devices())[::-1].reshape(2, 2), ("data", "model"))
axes, whole = P(("data", "model")), NamedSharding(mesh, P())

def make(after, copied):
    def local(w, x):
        grads = {"w": jax.grad(lambda w: jnp.sum(jnp.where(x > 0, jnp.sqrt(x * w), 0.0)))(w)}
        before = stacked_shard(count_stages(backward=grads))
        return jax.lax.psum(grads["w"].astype(jnp.float16), ("data", "model")), before
    spread = jax.shard_map(local, mesh=mesh, in_specs=(P(), axes), out_specs=(P(), axes), check_vma=False)
    @jax.jit
    def step(w, x):
        grad, before = spread(w, x)
        if copied:
            before = jax.lax.with_sharding_constraint(before, whole)
        new = w - 1e-6 * grad.astype(jnp.float32)
        kept = {"after_reduction": count_stages(backward={"w": grad})} if after else {}
        counts = count_stages(input=x, forward=x, loss=jnp.sum(x), backward={"w": grad}, optimizer=new)
        return new, counts, {"before_reduction": before, **kept}
    return step

def batches(bad):
    yield np.ones((4, 3), np.float32)
    x = np.ones((4, 3), np.float32)
    if bad == "shard": x[2, 1] = 0.0
    if bad == "every": x[:, 1] = 0.0
    if bad == "sum": x[:] = 1e10
    yield x

told = {}
for name, bad, after, copied in (("shard", "shard", False, False), ("copied", "shard", True, True), ("sum", "sum", True, False),
                                 ("every", "every", False, False), ("good", "", True, False)):
    result = run(make(after, copied), jax.device_put(jnp.ones(3), whole), batches(bad), contract=contract,
                 bundle_dir=f"{folder}/{name}")
    if not result.held:
        told[name] = [result.shards, result.bundle]
        continue
    bundle = read_bundle(result.bundle)
    assert verify_bundle(result.bundle) == () and bundle.shards == result.shards
    words = [[one.word.value, one.stage, one.path, one.elements] for one in bundle.observations.observations
             if "reduction" in one.word.value]
    told[name] = [words, bundle.shards.to_json()]
print(json.dumps(told))
"""


def test_a_held_run_tells_which_shard_was_bad_before_the_reduction(python, contract, tmp_path):
    fields = asdict(contract)
    told = json.loads(python(PROGRAM, str(tmp_path), json.dumps(fields), devices=4).stdout)
    spread = [["spread_by_reduction", "backward", "w", 1]]
    for name in ("shard", "copied"):
        words, shards = told[name]
        assert words == spread
        assert (shards["in_mesh"], shards["seen"], shards["bad"]) == (4, 4, 1)
        (listed,) = shards["listed"]
        # The third shard of a mesh of the devices 3, 2, 1, 0 is on device 1.
        assert (listed["device"], listed["coordinates"]) == (1, {"data": 1, "model": 0})
        assert [(leaf["stage"], leaf["path"], leaf["checked"]) for leaf in listed["leaves"]] == [("backward", "w", 3)]
    words, shards = told["sum"]
    assert words == [["first_after_reduction", "backward", "w", 3]]
    assert (shards["bad"], shards["listed"]) == (0, [])
    words, shards = told["every"]
    assert words == []
    assert [one["device"] for one in shards["listed"]] == [3, 2, 1, 0]
    assert told["good"] == [None, None]
    bundle = str(next((tmp_path / "shard").iterdir()))
    plain, page = (firstnan("triage", bundle), firstnan("report", bundle))
    assert "spread_by_reduction  backward  w" in plain
    assert "before the reduction: 1 of 4 shards seen held non-finite elements" in plain
    assert re.search(r"\b1 +data 1, model 0 +backward +w +1\n", plain)
    assert json.loads(firstnan("triage", "--json", bundle))["shards"] == told["shard"][1]
    assert "1 of the 4 shards seen here held non-finite elements." in page
    assert "data 1, model 0" in page


def firstnan(*arguments):
    return subprocess.run([sys.executable, "-m", "firstnan", *arguments], capture_output=True, text=True, check=True).stdout


def one_shard(values, device=0):
    return Shard(device, {"data": device}, count_stages(backward={"w": np.array(values)}).to_host())


def test_what_other_processes_hold_is_not_guessed():
    after = count_stages(backward={"w": np.array([np.nan])}).to_host()
    good, bad = one_shard([1.0]), one_shard([np.nan], 1)
    assert observe_reduction([good], 2, after) == []
    assert observe_reduction([bad], 2, after) == []
    assert [one.word.value for one in observe_reduction([good, bad], 4, after)] == ["spread_by_reduction"]
    assert [one.word.value for one in observe_reduction([good, good], 2, after)] == ["first_after_reduction"]
    assert observe_reduction([good, bad], 2, count_stages(backward={"v": np.array([np.nan])}).to_host()) == []


def test_of_many_bad_shards_all_are_counted_and_the_first_listed():
    seen = shards_seen([one_shard([np.inf], n) for n in range(MAX_SHARDS + 3)], 100)
    assert (seen.in_mesh, seen.seen, seen.bad, len(seen.listed)) == (100, MAX_SHARDS + 3, MAX_SHARDS + 3, MAX_SHARDS)
    assert ShardsSeen.from_json(json.loads(json.dumps(seen.to_json()))) == seen


@pytest.mark.parametrize("change", [{"bad": 0}, {"seen": 0}, {"in_mesh": 0}, {"listed": []}, {"listed": [{}]}, {"seen": True}])
def test_shards_of_another_form_are_refused(change):
    told = shards_seen([one_shard([np.nan])], 1).to_json()
    with pytest.raises(ContractError):
        ShardsSeen.from_json(told | change)


def test_counts_that_tell_of_no_device_are_refused_or_left_out(contract, tmp_path):
    mesh = Mesh(np.array(jax.devices()[:1]), ("data",))
    counts = count_shards(mesh=mesh, specs=P(), backward=jnp.ones(2))
    (shard,), in_mesh = seen_shards(jax.jit(lambda: counts)())
    assert (shard.device, in_mesh) == (jax.devices()[0].id, 1)

    def step(state, batch, before):
        counts = count_stages(input=batch, forward=batch, loss=batch, backward=batch, optimizer=state)
        return state, counts, {"before_reduction": before}

    how = {"contract": contract, "bundle_dir": tmp_path}
    bad, once = jnp.full(2, jnp.nan), stacked_shard(count_stages(backward=jnp.ones(2)))
    with pytest.raises(TypeError, match="before_reduction in its aux as counts of each shard"):
        run(lambda state, batch: step(state, batch, count_stages(backward=batch)), jnp.ones(1), [bad], **how)
    with pytest.warns(UserWarning, match="before_reduction is left out"):
        held = run(lambda state, batch: step(state, batch, once), jnp.ones(1), [bad], **how)
    assert (held.held, held.shards) == (True, None)
    assert verify_bundle(held.bundle) == ()
