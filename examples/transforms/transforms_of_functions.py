"""`grad`, `value_and_grad`, `remat` and `vmap` under one `jit`: counts leave a differentiated function as its aux."""

import sys

import jax
import jax.numpy as jnp
import numpy as np

from firstnan.jax import count_stages

FAULT = "--fault" in sys.argv


def loss_fn(w, x, counted):
    hidden = jnp.exp(x * w["up"])
    loss = jnp.mean(jnp.log1p(hidden) * w["down"])
    return loss, count_stages(forward={"hidden": hidden}, loss=loss) if counted else None


x = jnp.linspace(-1, 1, 12).reshape(3, 4)
if FAULT:
    x = x.at[1, 2].set(200.0)  # beyond the range of exp in float32
w = {"up": jnp.float32(1), "down": jnp.float32(0.5)}
ways = {
    "grad": lambda w, x, counted: jax.grad(loss_fn, has_aux=True)(w, x, counted),
    "value_and_grad": lambda w, x, counted: jax.value_and_grad(loss_fn, has_aux=True)(w, x, counted)[::-1],
    "remat": lambda w, x, counted: jax.grad(jax.checkpoint(loss_fn, static_argnums=2), has_aux=True)(w, x, counted),
    "vmap": lambda w, x, counted: jax.vmap(jax.grad(loss_fn, has_aux=True), (None, 0, None))(w, x, counted),
}
for name, way in ways.items():
    way = jax.jit(way, static_argnums=2)
    probed, bare = way(w, x, True), way(w, x, False)
    # value_and_grad was turned round: gradients first, then the loss with its counts.
    counts = probed[1][1] if name == "value_and_grad" else probed[1]
    grads, bare_grads = probed[0], bare[0]
    each = list(counts.unstack()) if name == "vmap" else [counts]
    for index, one in enumerate(each):
        bad = [f"{leaf.stage}/{leaf.path}" for leaf in one.to_host().leaves if leaf.nonfinite]
        if bad:
            print(f"{name}, example {index}: first seen in {bad[0]}" if name == "vmap" else f"{name}: first seen in {bad[0]}")
    pairs = zip(jax.tree.leaves(grads), jax.tree.leaves(bare_grads), strict=True)
    print(f"{name}: bit-identical without the probe:", all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs))
