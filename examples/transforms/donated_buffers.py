"""A step that donates its state: the counts are read from what the step makes, before it is given away again."""

import sys

import jax
import jax.numpy as jnp
import numpy as np

from firstnan.jax import count_stages

FAULT = "--fault" in sys.argv


def make_step(counted):
    def step(state, x):
        loss, grads = jax.value_and_grad(lambda w: jnp.mean((x * w) ** 2))(state["w"])
        state = {"w": state["w"] - 0.1 * grads, "seen": state["seen"] + jnp.log(x)}
        return state, count_stages(input=x, loss=loss, backward=grads, optimizer=state) if counted else None

    return jax.jit(step, donate_argnums=0)


ends = []
for counted in (True, False):
    step, state = make_step(counted), {"w": jnp.ones(4), "seen": jnp.zeros(4)}
    for index in range(4):
        given = state["w"]
        state, counts = step(state, jnp.full(4, 0.0 if FAULT and index == 2 else 1.0))
        assert given.is_deleted()
        if counted and (bad := [f"{leaf.stage}/{leaf.path}" for leaf in counts.to_host().leaves if leaf.nonfinite]):
            print(f"step {index}: {bad}")
    ends.append([np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state)])
print("bit-identical without the probe:", ends[0] == ends[1])
