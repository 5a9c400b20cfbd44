"""Data parallel by `shard_map`: gradients are counted on each device before the mean over devices spreads a NaN."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from firstnan.jax import before_reduction, count_stages, each_shard, stacked_shard

FAULT = "--fault" in sys.argv
mesh = Mesh(np.array(jax.devices()), ("data",))


def make_step(counted):
    def local(w, x, mask):
        # `pcast` keeps the derivative of the replicated parameters on its device until the mean below.
        w = jax.lax.pcast(w, "data", to="varying")
        loss, grads = jax.value_and_grad(lambda w: jnp.sum((x @ w) * mask) / jnp.sum(mask))(w)
        counts = stacked_shard(count_stages(input=x, loss=loss, backward={"w": grads})) if counted else None
        mean = jax.lax.pmean(grads, "data")
        return mean, counts

    return jax.jit(jax.shard_map(local, mesh=mesh, in_specs=(P(), P("data"), P("data")), out_specs=(P(), P("data"))))


x = np.ones((4 * mesh.size, 3), np.float32)
mask = np.ones(4 * mesh.size, np.float32)
if FAULT:
    mask[12 % len(mask) :][:4] = 0  # no token on one device
mean, counts = make_step(True)(jnp.ones(3), x, mask)
found = before_reduction(each_shard(counts, mesh), count_stages(backward=mean).to_host())
for shard in found.shards:
    leaves = [f"{leaf.stage}/{leaf.path}" for leaf in shard.tally.leaves if leaf.nonfinite]
    print("first seen on the device at", dict(shard.coordinates), "in", leaves)
bare = make_step(False)(jnp.ones(3), x, mask)[0]
print("bit-identical without the probe:", np.asarray(mean).tobytes() == np.asarray(bare).tobytes())
