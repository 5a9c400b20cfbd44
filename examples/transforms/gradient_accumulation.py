"""Gradient accumulation with `scan`: counts of every micro-batch, so that the one that went bad has a number."""

import sys

import jax
import jax.numpy as jnp
import numpy as np

from firstnan.jax import count_stages

FAULT = "--fault" in sys.argv


def loss_fn(w, x):
    return jnp.mean(jnp.sqrt(jnp.abs(x @ w)))


def accumulate(w, micro_batches, counted):
    def body(total, x):
        loss, grads = jax.value_and_grad(loss_fn)(w, x)
        counts = count_stages(input=x, loss=loss, backward={"w": grads}) if counted else None
        return total + grads, counts

    total, counts = jax.lax.scan(body, jnp.zeros_like(w), micro_batches)
    return w - 0.1 * total / len(micro_batches), counts


x = np.random.default_rng(0).normal(size=(6, 4, 3)).astype(np.float32)
if FAULT:
    x[4, 2] = 0  # the square root's derivative at zero
step = jax.jit(accumulate, static_argnums=2)
w, counts = step(jnp.ones(3), x, True)
for index, one in enumerate(counts.unstack()):
    tally = one.to_host()
    if tally.first_nonfinite:
        leaves = [leaf.path for leaf in tally.leaves if leaf.nonfinite]
        print(f"micro-batch {index}: first seen in {tally.first_nonfinite} {leaves}")
same = np.asarray(w).tobytes() == np.asarray(step(jnp.ones(3), x, False)[0]).tobytes()
print("bit-identical without the probe:", same)
