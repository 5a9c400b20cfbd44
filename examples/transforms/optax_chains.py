"""Optax: clipping by the global norm, MultiSteps, apply_if_finite. Count the gradients before the chain changes them."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

from firstnan.jax import count_stages

FAULT = "--fault" in sys.argv
CHAINS = {
    "clipping": optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.1)),
    "MultiSteps": optax.MultiSteps(optax.adam(0.1), every_k_schedule=2).gradient_transformation(),
    "apply_if_finite": optax.apply_if_finite(optax.adam(0.1), max_consecutive_errors=3),
}


def make_step(optimizer, counted):
    def step(state, x):
        params, opt_state = state
        loss, grads = jax.value_and_grad(lambda p: jnp.sum(jnp.sqrt(x * p["a"])) + jnp.sum(p["b"] ** 2))(params)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        counts = count_stages(input=x, loss=loss, backward=grads, optimizer={"updates": updates, "params": params})
        # The loss leaves both steps: one that nothing reads is not computed, and its neighbours are compiled otherwise.
        return (params, opt_state), loss, counts if counted else None

    return jax.jit(step)


for name, optimizer in CHAINS.items():
    ends = []
    for counted in (True, False):
        params = {"a": jnp.ones(3), "b": jnp.ones(2)}
        step, state = make_step(optimizer, counted), (params, optimizer.init(params))
        for index in range(4):
            x = jnp.array([1.0, 2.0, 0.0 if FAULT and index == 2 else 3.0])
            state, _, counts = step(state, x)
            if counted and (bad := [f"{leaf.stage}/{leaf.path}" for leaf in counts.to_host().leaves if leaf.nonfinite]):
                print(f"{name}, step {index}: {' '.join(bad)}")
        ends.append([np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state)])
    print(f"{name}: bit-identical without the probe:", ends[0] == ends[1])
