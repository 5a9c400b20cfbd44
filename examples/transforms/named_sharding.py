"""NamedSharding over every device: counts are of whole arrays, and `count_shards` names the device."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from firstnan.jax import bad_shards, count_shards, count_stages

FAULT = "--fault" in sys.argv
mesh = Mesh(np.array(jax.devices()), ("data",))
x = np.arange(1, 1 + 4 * mesh.size, dtype=np.float32).reshape(mesh.size, 4)
if FAULT:
    x[3 % mesh.size, 1] = -1  # a negative number under a square root
x = jax.device_put(x, NamedSharding(mesh, P("data")))
w = jax.device_put(jnp.ones(4), NamedSharding(mesh, P()))


def step(w, x, counted):
    def loss_fn(w):
        outputs = jnp.sqrt(x) * w
        return jnp.mean(outputs), outputs

    (loss, outputs), grads = jax.value_and_grad(loss_fn, has_aux=True)(w)
    new = w - 0.1 * grads
    if not counted:
        return new, None, None
    whole = count_stages(input=x, forward={"outputs": outputs}, loss=loss, backward=grads, optimizer=new)
    return new, whole, count_shards(mesh=mesh, specs=P("data"), forward={"outputs": outputs})


step = jax.jit(step, static_argnums=2)
new, whole, per_shard = step(w, x, True)
tally = whole.to_host()
if tally.first_nonfinite:
    print("first seen in", tally.first_nonfinite, next(leaf.path for leaf in tally.leaves if leaf.nonfinite))
for shard in bad_shards(per_shard, mesh):
    print("on the device at", dict(shard.coordinates))
print("bit-identical without the probe:", np.asarray(new).tobytes() == np.asarray(step(w, x, False)[0]).tobytes())
