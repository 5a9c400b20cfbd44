"""Births where calls, loops, branches, transformations and meshes stand in one another."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from locate_steps import births, unsafe_log, unsafe_root

ROWS = np.ones((3, 4), np.float32)
ROWS[1, 2] = 0


def divide(x):
    return 1 / x  # the division


WRAPPED = {
    "jit in jit": jax.jit(jax.jit(divide)),
    "remat": jax.checkpoint(divide),
    "vmap": jax.vmap(divide),
    "vmap of jit of vmap": jax.vmap(jax.jit(jax.vmap(divide))),
    "cond": lambda x: lax.cond(jnp.sum(x) > 0, divide, lambda x: x, x),
    "cond in cond": lambda x: lax.cond(jnp.sum(x) > 0, lambda x: lax.cond(jnp.sum(x) > 99, lambda x: x, divide, x), jnp.sin, x),
    "remat of cond of jit": jax.checkpoint(lambda x: lax.cond(jnp.sum(x) > 0, jax.jit(divide), lambda x: x, x)),
    "vmapped cond": lambda x: jax.vmap(lambda x: lax.cond(jnp.sum(x) > 3, lambda x: x, divide, x))(x),
    "associative scan": lambda x: divide(lax.associative_scan(jnp.multiply, x, axis=1)),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_one_division(name):
    nan, inf = births(WRAPPED[name], ROWS)
    assert nan is None
    assert (inf.primitive, inf.sweep, inf.text, inf.iteration) == ("div", "forward", "return 1 / x  # the division", ())


LOOPS = {
    "scan of jit": (lambda rows: lax.scan(lambda c, x: (c, jax.jit(divide)(x)), 0.0, rows)[1], (1,)),
    "map of cond": (lambda rows: lax.map(lambda x: lax.cond(jnp.sum(x) < 4, divide, lambda x: x, x), rows), (1,)),
    "scan of remat of scan": (
        lambda rows: lax.scan(
            lambda c, row: (c, jax.checkpoint(lambda row: lax.map(jax.jit(divide), row))(row)), 0.0, rows)[1],
        (1, 2),
    ),
    "while around a scan": (
        lambda rows: lax.while_loop(
            lambda s: s[0] < 2, lambda s: (s[0] + 1, lax.map(lambda x: divide(x) * s[0], rows)), (0, rows))[1],
        (1, 1),
    ),
    "scan around a while": (  # 1 / 0, then 1 / Inf, which is 0, so that it is the third that is kept
        lambda rows: lax.map(
            lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, divide(s[1])), (0, x))[1][:3], rows),
        (1, 2),
    ),
    "fori with a traced bound": (
        lambda rows: lax.fori_loop(0, rows.shape[0], lambda n, total: total + jnp.sum(divide(rows[n])), 0.0), (1,)),
    "vmap of scan": (lambda rows: jax.vmap(lambda row: lax.map(divide, row))(rows), (2,)),
    "unrolled scan": (lambda rows: lax.scan(lambda c, x: (c, divide(x)), 0.0, rows, unroll=3)[1], (1,)),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_one_division_in_loops(name):
    step, iteration = LOOPS[name]
    nan, inf = births(step, ROWS)
    assert (inf.primitive, inf.sweep, inf.text) == ("div", "forward", "return 1 / x  # the division")
    assert inf.iteration == iteration
    assert nan is None


@pytest.mark.parametrize("outside", [jax.jit, jax.checkpoint, jax.vmap, lambda f: lambda x: lax.map(f, x)])
@pytest.mark.parametrize(("rule", "at_zero"), [(unsafe_root, "div"), (unsafe_log, "div")])
def test_custom_rules_inside_transformations(outside, rule, at_zero):
    def loss(rows):
        return jnp.sum(outside(lambda row: jnp.where(row > 0, rule(row), 0.0))(rows))

    nan, inf = births(jax.value_and_grad(loss), ROWS)
    assert at_zero in [birth.primitive for birth in (nan, inf) if birth is not None]
    assert all(birth.sweep != "forward" for birth in (nan, inf) if birth is not None)


MESHES = """
import json, jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from firstnan.jax import locate

mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)

def put(array, *spec):
    return jax.device_put(array, NamedSharding(mesh, P(*spec)))

rows = np.ones((8, 6), np.float32)
rows[5, 4] = 0
w = put(np.eye(6, 4, dtype=np.float32), None, "model")

def loss(w, rows):
    hidden = lax.with_sharding_constraint(jnp.sqrt(rows) @ w, NamedSharding(mesh, P("data", "model")))  # root
    return jnp.mean(hidden ** 2) + jnp.mean(jnp.log(rows))  # log

def local(rows):
    def body(state):
        n, x = state
        return n + 1, lax.cond(n > 0, lambda x: lax.scan(lambda c, r: (c, 1 / r), 0.0, x)[1], lambda x: x, x)  # division
    return lax.while_loop(lambda state: state[0] < 2, body, (0, rows))[1]

@jax.jit
def nested(rows):
    inner = jax.shard_map(local, mesh=mesh, in_specs=P("data", "model"), out_specs=P("data", "model"), check_vma=False)
    return jnp.sum(inner(rows))

def one_axis(rows):
    return lax.psum(jnp.sum(jax.checkpoint(jnp.log)(rows)), "data")  # one axis

partial = jax.jit(jax.shard_map(one_axis, mesh=mesh, in_specs=P("data", None), out_specs=P(), axis_names={"data"}))
found = {
    "named": locate(jax.jit(jax.grad(loss)), w, put(rows, "data", None)),
    "value": locate(jax.jit(loss), w, put(rows, "data", "model")),
    "replicated": locate(jax.jit(loss), w, put(rows)),
    "nested": locate(nested, put(rows, "data", "model")),
    "partial": locate(partial, put(rows, "data", None)),
}
print(json.dumps({name: one.to_json() for name, one in found.items()}))
"""


def test_meshes(python):
    found = json.loads(python(MESHES, devices=8).stdout)
    lines = MESHES.splitlines()

    def told(name):
        birth = found[name]["first_inf"]
        return birth["primitive"], birth["index"], birth["iteration"], lines[birth["line"] - 1].partition("  # ")[2]

    assert all(one["reproduced"] and one["entered"] == [] for one in found.values())
    assert found["named"]["first_inf"] is None  # the gradient of the weights needs no value of the log
    assert told("value") == told("replicated") == ("log", [5, 4], [], "log")
    # The place in the mesh, then the one in the shard: row 5 is row 1 of the third of four, column 4 is 1 of the second.
    assert told("nested") == ("div", [2, 1, 1], [1, 1], "division")
    assert told("partial") == ("log", [2, 1, 4], [], "one axis")
