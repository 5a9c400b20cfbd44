"""Births in whole training steps: what is only counted, optimizers that contain, transformations, several devices."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from locate_steps import births

from firstnan.jax import count_stages, locate


def make_step(optimizer, loss):
    def step(state, batch):
        params, opt_state = state
        (value, outputs), grads = jax.value_and_grad(loss, has_aux=True)(params, batch)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        counts = count_stages(input=batch, forward=outputs, loss=value, backward=grads, optimizer=(updates, opt_state))
        return (params, opt_state), counts, {"loss": value}

    return jax.jit(step)


def root_loss(params, x):
    y = jnp.tanh(x @ params["w"]) + params["b"]
    return jnp.mean(jnp.where(y > 0, jnp.sqrt(y), 0.0)), y  # guarded root


PARAMS = {"w": np.eye(2, dtype=np.float32), "b": np.zeros(2, np.float32)}
BATCH = np.array([[1.0, 0.0], [0.5, 0.25]], np.float32)


@pytest.mark.parametrize(
    "optimizer",
    [
        optax.adam(1e-3),
        optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3)),
        optax.apply_if_finite(optax.adam(1e-3), 3),
        optax.MultiSteps(optax.sgd(0.1), 2),
    ],
    ids=["adam", "clip", "apply_if_finite", "multi_steps"],
)
def test_the_line_under_an_optimizer(optimizer):
    step = make_step(optimizer, root_loss)
    found = locate(step, (PARAMS, optimizer.init(PARAMS)), BATCH)
    assert found.reproduced
    assert (found.first_nan.primitive, found.first_nan.sweep) == ("mul", "transpose")
    assert (found.first_inf.primitive, found.first_inf.sweep) == ("div", "derivative")
    assert found.first_nan.line == found.first_inf.line == root_loss.__code__.co_firstlineno + 2
    assert found.first_nan.function == "root_loss"
    assert found.first_nan.sources == ("state/0/b", "state/0/w", "batch")
    assert {"backward b", "backward w"} <= set(found.first_nan.reaches)


def test_a_gradient_that_is_counted_and_then_skipped():
    optimizer = optax.apply_if_finite(optax.sgd(0.1), 3)
    found = locate(make_step(optimizer, root_loss), (PARAMS, optimizer.init(PARAMS)), BATCH)
    # The parameters were spared: what the counts saw is all that is reached.
    assert found.first_nan.reaches == ("backward b", "backward w")


def test_counts_stacked_by_a_scan():
    optimizer = optax.sgd(0.0)
    step = make_step(optimizer, lambda w, x: (jnp.log(x * w), x))

    def many(state, xs):
        return jax.lax.scan(lambda state, x: (state, step(state, x)[1]), state, xs)

    found = locate(many, (jnp.float32(1), optimizer.init(0.0)), jnp.array([1.0, 0.0, 2.0]))
    assert (found.first_inf.primitive, found.first_inf.iteration) == ("log", (1,))
    assert found.first_inf.reaches[0] == "loss"


def test_vmap_and_gradient_accumulation():
    per_example = jax.vmap(jax.grad(lambda w, x: jnp.sqrt(w * x)), (None, 0))  # per example

    def step(w, xs):
        def add(total, x):
            return total + jnp.sum(per_example(w, x)), None

        return jax.lax.scan(add, 0.0, xs)[0]

    nan, inf = births(step, jnp.float32(1), jnp.array([[1.0, 2.0], [3.0, 4.0], [0.0, 5.0]]))
    assert (inf.primitive, inf.iteration) == ("div", (2,))
    assert inf.text.endswith("# per example")
    assert nan.iteration == (2,)


def test_an_installed_model_has_the_line_that_calls_it():
    def loss(logits):
        return optax.softmax_cross_entropy(logits, jnp.array([1.0, 0.0, 0.0]))  # one-hot times -inf

    nan, inf = births(loss, jnp.array([1.0, 2.0, -jnp.inf]))
    assert (nan.primitive, inf) == ("mul", None)
    assert nan.text.endswith("# one-hot times -inf")


SHARDED = """
import json, jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from firstnan.jax import locate

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("a", "b"))

def local(w, x, m):
    def loss(w):
        _, ys = lax.scan(lambda c, x: (c + jnp.sum(x), c + x), jnp.sum(x) * 0, x * w)
        return lax.pmean(jnp.sum(ys * m) / jnp.sum(m), ("a", "b"))
    return jax.value_and_grad(loss)(w)

mask = np.ones((8, 4), np.float32)
mask[4:6, 2:] = 0
step = jax.jit(jax.shard_map(local, mesh=mesh, in_specs=(P(), P("a", "b"), P("a", "b")), out_specs=P()))
found = locate(step, jnp.float32(1), jnp.ones((8, 4)), mask)

def gathered(x):
    return lax.all_gather(jnp.log(x), "a", tiled=True), lax.psum(x, "a")
flat = Mesh(np.array(jax.devices()), ("a",))
other = locate(jax.shard_map(gathered, mesh=flat, in_specs=P("a"), out_specs=(P(("a",)), P())), jnp.arange(8.0) - 2)

x = jax.device_put(np.arange(8, dtype=np.float32), NamedSharding(flat, P("a")))
named = locate(jax.jit(lambda x: jnp.sum(1 / x)), x)
print(json.dumps([one.to_json() for one in (found, other, named)]))
"""


def test_eight_devices(python):
    found, other, named = json.loads(python(SHARDED, devices=8).stdout)
    assert found["reproduced"]
    nan, inf = found["first_nan"], found["first_inf"]
    # The shard without a token: row 2 and column 1 of the mesh. The first axes of the index are those of the mesh.
    assert (nan["primitive"], nan["sweep"], nan["index"], nan["line"]) == ("div", "forward", [2, 1], 12)
    assert (inf["primitive"], inf["sweep"], inf["index"], inf["line"]) == ("div", "transpose", [2, 1], 12)
    assert [place["primitive"] for place in nan["path"]] == ["div", "psum_invariant", "div"]
    assert nan["reaches"] == ["output 0"]
    assert inf["reaches"] == ["output 1"]
    assert (other["first_nan"]["primitive"], other["first_nan"]["index"]) == ("log", [0, 0])
    assert (other["first_inf"]["primitive"], other["first_inf"]["index"]) == ("log", [2, 0])
    assert (named["first_inf"]["primitive"], named["first_inf"]["index"]) == ("div", [0])
