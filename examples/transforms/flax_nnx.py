"""Flax NNX: states are pytrees, so a model, its gradients and its optimizer are counted as they are."""

import sys

import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from firstnan.jax import count_stages

FAULT = "--fault" in sys.argv


class Model(nnx.Module):
    def __init__(self, rngs):
        self.up = nnx.Linear(4, 8, rngs=rngs)
        self.down = nnx.Linear(8, 1, rngs=rngs)

    def __call__(self, x):
        hidden = self.up(x)
        return self.down(hidden / jnp.sqrt(jnp.sum(hidden**2, -1, keepdims=True))), hidden


def make_step(counted):
    def step(model, optimizer, x):
        def loss_fn(model):
            outputs, hidden = model(x)
            return jnp.mean(outputs**2), {"hidden": hidden, "outputs": outputs}

        (loss, outputs), grads = nnx.value_and_grad(loss_fn, has_aux=True)(model)
        optimizer.update(model, grads)
        states = {"model": nnx.as_pure(nnx.state(model)), "optimizer": nnx.as_pure(nnx.state(optimizer))}
        counts = count_stages(input=x, forward=outputs, loss=loss, backward=nnx.as_pure(grads), optimizer=states)
        return counts if counted else None

    return nnx.jit(step)


ends = []
for counted in (True, False):
    model = Model(nnx.Rngs(0))
    optimizer, step = nnx.Optimizer(model, optax.adam(0.01), wrt=nnx.Param), make_step(counted)
    for index in range(3):
        x = np.ones((2, 4), np.float32)
        if FAULT and index == 0:
            x[1] = 0  # biases begin at zero, so the hidden row is zero and its norm divides by zero
        counts = step(model, optimizer, jnp.asarray(x))
        if counted and (bad := [f"{leaf.stage}/{leaf.path}" for leaf in counts.to_host().leaves if leaf.nonfinite]):
            print(f"step {index}: first seen in {bad[0]}; stages {sorted({name.split('/')[0] for name in bad})}")
    leaves = nnx.to_pure_dict(nnx.state(model))
    ends.append([np.asarray(leaves[a][b]).tobytes() for a in ("up", "down") for b in ("kernel", "bias")])
print("bit-identical without the probe:", ends[0] == ends[1])
