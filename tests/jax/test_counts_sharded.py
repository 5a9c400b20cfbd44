"""Counts of arrays that live on eight devices: of the whole array, and of each shard."""

import json

PROGRAM = """
import json, jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
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
    assert len(told["whole"]) == 6
    assert all(told["whole"].values()), told["whole"]
    assert told["checked"] == [8] * 8
    # A token count of zero on rank 3 alone; after the mean over ranks every rank has the NaN.
    assert told["before"] == [0, 0, 0, 1, 0, 0, 0, 0]
    assert told["after"] == [1] * 8
