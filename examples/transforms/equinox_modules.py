"""Equinox: a module is a pytree; count its arrays, since functions are leaves of it too."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from firstnan.jax import count_stages

FAULT = "--fault" in sys.argv
optimizer = optax.adam(0.01)


def make_step(counted):
    @eqx.filter_jit
    def step(model, opt_state, x):
        def loss_fn(model):
            outputs = jax.vmap(model)(x)
            return jnp.mean(jnp.linalg.norm(outputs - x, axis=-1)), outputs

        (loss, outputs), grads = eqx.filter_value_and_grad(loss_fn, has_aux=True)(model)
        updates, opt_state = optimizer.update(grads, opt_state)
        model = eqx.apply_updates(model, updates)
        new = eqx.filter(model, eqx.is_array)
        counts = count_stages(input=x, forward=outputs, loss=loss, backward=grads, optimizer=(updates, new))
        # The loss leaves both steps: one that nothing reads is not computed, and its neighbours are compiled otherwise.
        return model, opt_state, loss, counts if counted else None

    return step


ends = []
for counted in (True, False):
    model = eqx.nn.MLP(3, 3, 8, 1, use_final_bias=False, use_bias=False, key=jax.random.key(0))
    opt_state, step = optimizer.init(eqx.filter(model, eqx.is_array)), make_step(counted)
    for index in range(3):
        # An input of zeros is met exactly without biases: the norm's derivative at zero is NaN.
        x = jnp.full((2, 3), 0.0 if FAULT and index == 2 else 1.0)
        model, opt_state, _, counts = step(model, opt_state, x)
        if counted and (bad := [f"{leaf.stage}/{leaf.path}" for leaf in counts.to_host().leaves if leaf.nonfinite]):
            print(f"step {index}: first seen in {bad[0]}; stages {sorted({name.split('/')[0] for name in bad})}")
    ends.append([np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_array))])
print("bit-identical without the probe:", ends[0] == ends[1])
