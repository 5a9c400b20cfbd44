"""Which shard went bad: public incidents of several ranks made small, on eight devices."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from firstnan.jax import bad_shards, count_shards, count_stages, each_shard, shards_of

PROGRAM = """
import json, jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from firstnan.jax import bad_shards, before_reduction, count_shards, count_stages, each_shard, shards_of, stacked_shard

told = {}
devices = np.array(jax.devices())
# Reversed, so that a device's id is not its place.
mesh = Mesh(devices[::-1], ("data",))
ids = [d.id for d in mesh.devices.flat]
def tell(found):
    return [[ids.index(s.device), dict(s.coordinates), s.tally.first_nonfinite] for s in found]

# One rank of eight: its examples' losses are bad, the reduced gradient is bad everywhere.
x = np.ones((8, 4), np.float32); x[3, 1] = 0
x = jax.device_put(x, NamedSharding(mesh, P("data")))
@jax.jit
def one_rank(w, x):
    losses = jnp.sum(jnp.log(x * w), axis=1)
    grads = jax.grad(lambda w: jnp.mean(jnp.sum(jnp.log(x * w) * (x > 0), axis=1)))(w)
    return count_shards(mesh=mesh, specs={"loss": P("data"), "backward": P()}, loss=losses, backward=grads), losses
counts, losses = one_rank(jnp.ones(4), x)
told["one rank, gradients everywhere"] = [s.tally.total("backward").nonfinite for s in each_shard(counts, mesh)]
told["one rank"] = [i for i, s in enumerate(each_shard(counts, mesh)) if s.tally.total("loss").nonfinite]
told["one rank, on the host"] = tell([s for s in shards_of(losses) if s.nonfinite])

# One rank without a token.
def mean(l, m):
    loss = jnp.sum(l * m) / jnp.sum(m)
    return stacked_shard(count_stages(loss=loss)), jax.lax.pmean(loss, "data")
m = np.ones((8, 4), np.float32); m[3] = 0
counts, reduced = jax.jit(jax.shard_map(mean, mesh=mesh, in_specs=P("data"), out_specs=(P("data"), P())))(jnp.ones((8, 4)), m)
found = before_reduction(each_shard(counts, mesh), count_stages(loss=reduced).to_host())
told["no token"] = [found.first_seen, tell(found.shards)]

# A sum that overflows in the collective only.
def total(g):
    return stacked_shard(count_stages(backward=g)), jax.lax.psum(g, "data")
summed = jax.jit(jax.shard_map(total, mesh=mesh, in_specs=P("data"), out_specs=(P("data"), P())))
for name, size in (("overflow", 1e4), ("no overflow", 10.0)):
    counts, reduced = summed(jnp.full((8, 2), size, jnp.float16))
    found = before_reduction(each_shard(counts, mesh), count_stages(backward=reduced).to_host())
    told[name] = [found.first_seen, tell(found.shards)]

# Two axes, a parameter sharded over one of them, a replicated one.
mesh = Mesh(devices.reshape(4, 2), ("data", "model"))
ids = [d.id for d in mesh.devices.flat]
w = np.ones((6, 8), np.float32); w[0, 7] = np.nan
specs = {"optimizer": {"w": P(None, "model"), "b": P()}}
f = jax.jit(lambda w, b: count_shards(mesh=mesh, specs=specs, optimizer={"w": w, "b": b}))
counts = f(w, np.ones(3, np.float32))
told["two axes"] = tell(bad_shards(counts, mesh))
told["sizes"] = [[leaf.path, leaf.checked] for leaf in each_shard(counts, mesh)[0].tally.leaves]
text = f.lower(w, np.ones(3, np.float32)).compile().as_text()
told["collectives"] = [word for word in ("all-gather", "all-reduce", "all-to-all") if word in text]
print(json.dumps(told))
"""


def test_the_shard_is_named_before_the_reduction_spreads_it(python):
    told = json.loads(python(PROGRAM, devices=8).stdout)
    assert told["one rank"] == [3]
    assert told["one rank, gradients everywhere"] == [1] * 8
    assert told["one rank, on the host"] == [[3, {"data": 3}, "forward"]]
    assert told["no token"] == ["shard", [[3, {"data": 3}, "loss"]]]
    assert told["overflow"] == ["reduce", []]
    assert told["no overflow"] == [None, []]
    assert told["two axes"] == [[2 * d + 1, {"data": d, "model": 1}, "optimizer"] for d in range(4)]
    assert told["sizes"] == [["b", 3], ["w", 24]]
    assert told["collectives"] == []


@pytest.fixture
def mesh():
    return Mesh(np.array(jax.devices()[:1]), ("data",))


def test_misuse_is_refused_by_name(mesh):
    with pytest.raises(TypeError, match="no such stage: reduce"):
        count_shards(mesh=mesh, specs=P(), reduce=jnp.ones(2))
    with pytest.raises(ValueError, match="no specs for the stage loss"):
        count_shards(mesh=mesh, specs={"input": P()}, loss=jnp.ones(2))
    with pytest.raises(ValueError, match="counts of 1 shards have the shape"):
        each_shard(count_stages(loss=jnp.ones(2)), mesh)
    with pytest.raises(TypeError, match="this is a ndarray"):
        shards_of(np.ones(2))


def test_one_device_is_a_mesh_too(mesh):
    counts = count_shards(mesh=mesh, specs=P(), loss=jnp.array([1.0, np.inf]), forward=None)
    assert [shard.coordinates for shard in bad_shards(counts, mesh)] == [{"data": 0}]
    (shard,) = shards_of(jnp.array([1.0, np.nan]))
    assert (shard.nonfinite, shard.coordinates) == (True, {})
