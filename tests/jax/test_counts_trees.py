"""What may be a leaf, what a leaf is called, and how counts travel through JAX's transformations."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from firstnan.jax import StageCounts, count_stages


def only(tally):
    (leaf,) = tally.leaves
    return leaf


def test_names_leaves_by_path():
    class Pair(NamedTuple):
        left: object
        right: object

    tree = {"a/b": [1.0, Pair(2.0, None)], "c~": (jnp.zeros(2),)}
    tally = count_stages(input=tree, loss=jnp.float32(1)).to_host()
    assert [(leaf.stage, leaf.path) for leaf in tally.leaves] == [
        ("input", "a~1b/0"),
        ("input", "a~1b/1/left"),
        ("input", "c~0/0"),
        ("loss", ""),
    ]


def test_what_is_finite_by_nature_is_checked():
    tree = {
        "key": jax.random.split(jax.random.key(0), 3),
        "float0": np.zeros((2, 2), jax.dtypes.float0),
        "flags": jnp.ones(5, bool),
        "number": 7,
        "nothing": None,
    }
    tally = count_stages(input=tree).to_host()
    assert {leaf.path: (leaf.checked, leaf.nonfinite, leaf.maximum_absolute_finite) for leaf in tally.leaves} == {
        "key": (3, 0, None),
        "float0": (4, 0, None),
        "flags": (5, 0, 1),
        "number": (1, 0, 7),
    }
    jitted = jax.jit(lambda key: count_stages(input={"key": key}))(tree["key"])
    assert only(jitted.to_host()).checked == 3


def test_float0_gradients_of_integers_are_counted():
    gradients = jax.grad(lambda x, ids: jnp.sum(x) * 1.0, argnums=(0, 1), allow_int=True)(jnp.ones(2), jnp.arange(3))
    assert [leaf.dtype for leaf in count_stages(backward=gradients).to_host().leaves] == ["float32", "float0"]


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)])
def test_an_empty_leaf_is_checked_zero_times(shape):
    for counts in (count_stages(input=np.zeros(shape)), jax.jit(lambda x: count_stages(input=x))(jnp.zeros(shape))):
        leaf = only(counts.to_host())
        assert (leaf.checked, leaf.nonfinite, leaf.maximum_absolute_finite) == (0, 0, 0.0)


def test_a_stage_without_leaves_is_measured_and_a_stage_not_given_is_not():
    counts = count_stages(input={}, loss=jnp.float32(0))
    assert counts.stages == ("input", "loss")
    assert counts.to_host().total("input").checked == 0
    with pytest.raises(KeyError):
        counts.to_host().total("forward")
    assert count_stages().to_host().leaves == ()


@pytest.mark.parametrize(
    "leaf",
    [
        "text",
        object(),
        np.array(["text"]),
        np.array([object()]),
        np.zeros(2, "datetime64[s]"),
        np.zeros(2, np.longdouble),
        np.ma.masked_array([1.0, np.nan], [False, True]),
        10**30,
    ],
    ids=lambda leaf: type(leaf).__name__,
)
def test_a_leaf_that_is_no_number_is_refused_by_name(leaf):
    with pytest.raises(TypeError, match="backward leaf 'layer/w'"):
        count_stages(backward={"layer": {"w": leaf}})


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::-3],
        lambda a: a.reshape(10, 20)[:, ::2],
        lambda a: a.reshape(10, 20).T,
        lambda a: a.astype(a.dtype.newbyteorder(">")),
        lambda a: np.broadcast_to(a[:1], (7, 5)),
        lambda a: a[3],
        lambda a: np.float32(np.nan),
    ],
    ids=["reversed", "strided", "transposed", "byte-swapped", "broadcast", "scalar", "numpy-scalar"],
)
def test_a_numpy_leaf_of_any_layout(view):
    values = np.linspace(-3, 5, 200).astype(np.float32)
    values[[0, 3, 77]] = np.nan, np.inf, -np.inf
    array = view(values)
    if isinstance(array, np.ndarray):
        array.setflags(write=False)
    leaf = only(count_stages(input=array).to_host())
    finite = np.abs(np.asarray(array)[np.isfinite(array)])
    assert leaf.nan == np.isnan(array).sum()
    assert leaf.positive_infinity == np.isposinf(array).sum()
    assert leaf.negative_infinity == np.isneginf(array).sum()
    assert leaf.maximum_absolute_finite == (float(finite.max()) if finite.size else 0.0)


def test_a_host_value_beyond_float32_is_infinite_only_after_the_transfer():
    batch = np.array([1e300])
    assert only(count_stages(input=batch).to_host()).nonfinite == 0
    with np.errstate(over="ignore"):
        jitted = jax.jit(lambda x: count_stages(input=x))(batch)
    assert only(jitted.to_host()).positive_infinity == 1


def test_a_scan_stacks_the_counts_of_its_iterations():
    def body(carry, x):
        carry = jnp.exp(2 * carry) + x
        return carry, count_stages(forward=carry)

    stacked = jax.jit(lambda xs: jax.lax.scan(body, jnp.float32(0), xs)[1])(jnp.ones(6))
    assert stacked.data.shape[0] == 6
    with pytest.raises(ValueError, match="unstack"):
        stacked.to_host()
    bad = [step.to_host().first_nonfinite for step in stacked.unstack()]
    assert bad.index("forward") == 2
    with pytest.raises(ValueError, match="to_host"):
        next(stacked.unstack()).unstack()


def test_vmap_counts_each_example():
    examples = jnp.asarray([[1.0, 2.0], [np.nan, 3.0], [np.inf, -np.inf]])
    counts = jax.jit(jax.vmap(lambda x: count_stages(forward=x, loss=jnp.sum(x))))(examples)
    assert [tuple(leaf.nonfinite for leaf in one.to_host().leaves) for one in counts.unstack()] == [(0, 0), (1, 1), (2, 1)]


@pytest.mark.parametrize("wrap", [lambda f: f, jax.checkpoint], ids=["grad", "remat"])
def test_counts_inside_a_differentiated_function_leave_the_gradient_alone(wrap):
    def loss(w, x):
        hidden = jnp.tanh(w * x)
        return jnp.sum(hidden**2), count_stages(forward={"hidden": hidden, "w": w})

    w, x = jnp.linspace(0.1, 1.0, 8), jnp.linspace(-2.0, 2.0, 8)
    gradient, counts = jax.jit(jax.grad(wrap(loss), has_aux=True))(w, x)
    plain = jax.jit(jax.grad(lambda w, x: loss(w, x)[0]))(w, x)
    assert np.array_equal(gradient, plain)
    assert counts.to_host().total("forward").checked == 16


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_counting_does_not_change_the_numerics_of_the_step(dtype):
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2))

    def loss_fn(params, x):
        hidden = jax.nn.gelu((x @ params["a"]).astype(dtype))
        out = jax.nn.softmax(hidden @ params["b"].astype(dtype))
        return jnp.mean((out - 0.1) ** 2).astype(jnp.float32), (hidden, out)

    def step(state, x, counted):
        params, opt_state = state
        (loss, outputs), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, x)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        counts = count_stages(input=x, forward=outputs, loss=loss, backward=grads, optimizer=(updates, opt_state))
        return (optax.apply_updates(params, updates), opt_state), counts if counted else loss

    rng = np.random.default_rng(0)
    params = {name: jnp.asarray(rng.normal(size=(32, 32)), jnp.float32) for name in "ab"}
    batches = [jnp.asarray(rng.normal(size=(16, 32)), jnp.float32) for _ in range(8)]
    ends = []
    for counted in (False, True):
        jitted = jax.jit(lambda state, x, counted=counted: step(state, x, counted))
        state = (params, optimizer.init(params))
        for batch in batches:
            state, _ = jitted(state, batch)
        ends.append([np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state)])
    assert ends[0] == ends[1]


def test_counts_are_a_pytree_of_one_array():
    counts = count_stages(loss=jnp.float32(1))
    leaves, treedef = jax.tree.flatten(counts)
    assert len(leaves) == 1
    assert isinstance(jax.tree.unflatten(treedef, leaves), StageCounts)
    assert jax.eval_shape(lambda x: count_stages(loss=x, backward=[x, x]), jnp.float32(1)).data.shape == (3, 8)


def test_eager_counts_join_leaves_of_any_home():
    tree = [jnp.ones(3), np.full(2, np.nan), 1.5]
    assert count_stages(input=tree).to_host().total("input").nonfinite == 2


def test_exact_beyond_31_bits():
    rows = 2**23 + 1

    def bad_half(value, other):
        # The position decides, so that no shortcut of the compiler counts a constant.
        place = jax.lax.broadcasted_iota(jnp.uint8, (rows, 256), 1)
        return count_stages(forward=jnp.where(place < 128, value, other))

    leaf = only(jax.jit(bad_half)(jnp.float16(np.nan), jnp.float16(2)).to_host())
    assert (leaf.checked, leaf.nan, leaf.finite) == (rows * 256, rows * 128, rows * 128)


@pytest.mark.parametrize(("value", "field"), [(np.nan, "nan"), (np.inf, "positive_infinity"), (-np.inf, "negative_infinity")])
@pytest.mark.parametrize("shape", [(2**31 + 5,), (2**32 + 7,), (2**24 + 1, 257)], ids=str)
def test_one_count_beyond_31_and_32_bits(value, field, shape):
    counts = jax.jit(lambda x: count_stages(loss=jnp.broadcast_to(x, shape)))(jnp.float32(value)).to_host()
    assert getattr(only(counts), field) == only(counts).nonfinite == math.prod(shape)
    assert only(counts).finite == 0
