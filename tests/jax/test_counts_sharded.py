"""Counts of arrays that live on eight devices: of the whole array, and of each shard."""

import json
from dataclasses import asdict

PROGRAM = """
import json, jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
from firstnan.jax import count_stages

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("a", "b"))
values = np.random.default_rng(0).normal(size=(64, 32)).astype(np.float32)
values[3, 4], values[60, :5], values[0, 0] = np.nan, -np.inf, np.inf
host = count_stages(forward=values).to_host()

whole = {}
for spec in (P("a", "b"), P("a", None), P(None, "b"), P(("a", "b")), P()):
    array = jax.device_put(values, NamedSharding(mesh, spec))
    jitted = jax.jit(lambda x: count_stages(forward=x))(array).to_host()
    eager = count_stages(forward=array).to_host()
    whole[str(spec)] = jitted == eager == host

keys = jax.device_put(jax.random.split(jax.random.key(0), 8), NamedSharding(mesh, P("a")))
whole["keys"] = jax.jit(lambda k: count_stages(input=k))(keys).to_host().leaves[0].checked == 8

with jax.set_mesh(jax.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Explicit,) * 2)):
    array = jax.device_put(values, P("a", "b"))
    whole["explicit"] = jax.jit(lambda x: count_stages(forward=x))(array).to_host() == host

def local(x, m):
    loss = jnp.sum(x * m) / jnp.sum(m)
    counts = count_stages(input=(x, m), loss=loss)
    reduced = jax.lax.pmean(loss, "a")
    return jax.tree.map(lambda leaf: leaf[None], (counts, count_stages(loss=reduced)))

mesh = Mesh(np.array(jax.devices()), ("a",))
mask = np.ones((8, 4), np.float32)
mask[3] = 0
sharded = jax.shard_map(local, mesh=mesh, in_specs=(P("a"), P("a")), out_specs=P("a"))
before, after = jax.jit(sharded)(np.ones((8, 4), np.float32), mask)
print(json.dumps({
    "whole": whole,
    "checked": [c.to_host().total("input").checked for c in before.unstack()],
    "before": [c.to_host().total("loss").nan for c in before.unstack()],
    "after": [c.to_host().total("loss").nan for c in after.unstack()],
}))
"""


def test_whole_arrays_and_single_shards(python):
    told = json.loads(python(PROGRAM, devices=8).stdout)
    assert len(told["whole"]) == 7
    assert all(told["whole"].values()), told["whole"]
    assert told["checked"] == [8] * 8
    # A token count of zero on rank 3 alone; after the mean over ranks every rank has the NaN.
    assert told["before"] == [0, 0, 0, 1, 0, 0, 0, 0]
    assert told["after"] == [1] * 8


LOOP = """
import sys, json, jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from firstnan import TrainingIncidentContract
from firstnan.jax import count_stages, read_bundle, run

mesh = Mesh(np.array(jax.devices()), ("d",))
rows, whole = NamedSharding(mesh, P("d")), NamedSharding(mesh, P())

def step(state, batch):
    def loss(w):
        y = batch @ w
        return jnp.mean(jnp.sqrt(jnp.abs(y))), y
    (value, y), grads = jax.value_and_grad(loss, has_aux=True)(state["w"])
    state = {"w": state["w"] - 0.01 * grads, "m": state["m"] + batch}
    return state, count_stages(input=batch, forward=y, loss=value, backward=grads, optimizer=state)

def batches():
    for index in range(12):
        x = np.random.default_rng(index).normal(size=(16, 4)).astype(np.float32)
        x[5] *= index != 8
        yield jax.device_put(x, rows)

initial = {"w": jax.device_put(jnp.ones(4), whole), "m": jax.device_put(jnp.zeros((16, 4)), rows)}
contract = TrainingIncidentContract(**json.loads(sys.argv[1]))
ends = []
for donate in ((), (0, 1)):
    for every in (1, 5):
        jitted = jax.jit(step, donate_argnums=donate)
        result = run(jitted, initial, batches(), contract=contract, every=every, bundle_dir=sys.argv[2])
        assert (result.held, result.bad_step, result.reproduced) == (True, 8, True), result
        assert result.report.earliest_nonfinite_stage == "backward"
        assert result.state["m"].sharding == rows
        back = read_bundle(result.bundle).state(like=result.state)
        assert back["m"].sharding == rows
        end = result.restart()
        assert (end.held, end.next_step) == (False, 11)
        ends.append([np.asarray(x).tobytes() for tree in (result.state, back, end.state) for x in jax.tree.leaves(tree)]
                    + [result.evidence.evidence_content_id])
assert all(end == ends[0] for end in ends)
"""


def test_a_loop_over_sharded_state_holds_and_goes_on(python, contract, tmp_path):
    python(LOOP, json.dumps(asdict(contract)), str(tmp_path), devices=8)
