"""Births inside every kind of call and loop, and births that are none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from locate_steps import Told, births, told, unsafe_log, unsafe_root

from firstnan.jax import locate

ZERO = jnp.float32(0)


def test_nested_scans_number_each_loop():
    def step(c, xs):
        def inner(c, x):
            return c / x, c  # inner division

        def outer(c, row):
            c, ys = lax.scan(inner, c, row)
            return c, jnp.sum(ys)

        return lax.scan(outer, c, xs)

    xs = np.ones((4, 5), np.float32)
    xs[2, 3] = 0
    nan, inf = births(step, jnp.float32(1), xs)
    assert (nan, inf) == (None, Told("div", "forward", "return c / x, c  # inner division", (2, 3)))


def test_a_reverse_scan_is_numbered_along_the_axis():
    nan, inf = births(lambda xs: lax.scan(lambda c, x: (c / x, c), jnp.float32(1), xs, reverse=True), jnp.array([1.0, 0.0, 2.0]))
    assert nan is None
    assert (inf.primitive, inf.iteration) == ("div", (1,))


def test_the_backward_pass_of_a_scan():
    def loss(w, xs):
        return lax.scan(lambda c, x: (c + jnp.sqrt(x * w), None), ZERO, xs)[0]  # the root

    nan, inf = births(jax.value_and_grad(loss), jnp.float32(1), jnp.array([4.0, 0.0, 1.0]))
    assert (inf.primitive, inf.sweep, inf.iteration) == ("div", "derivative", (1,))
    assert (nan.primitive, nan.sweep, nan.iteration) == ("mul", "transpose", (1,))
    assert inf.text.endswith("# the root")
    assert nan.text.endswith("# the root")


def test_a_while_loop():
    def step(x):
        def halve(state):
            n, x = state
            return n + 1, 1.0 / (3.0 - n) + x  # reciprocal

        return lax.while_loop(lambda state: state[0] < 6, halve, (ZERO, x))[1]

    assert births(step, jnp.float32(1)) == (None, Told("div", "forward", "return n + 1, 1.0 / (3.0 - n) + x  # reciprocal", (3,)))


def test_a_while_loop_whose_lanes_end_apart_is_one_equation():
    def step(x):
        return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] / s[0]), (x, x))[1]

    nan, inf = births(jax.vmap(step), jnp.array([1.0, 0.0, 2.0]))
    assert (nan.primitive, inf) == ("while", None)
    assert "lax.while_loop(" in nan.text


def test_the_branch_that_was_taken():
    def step(which, x):
        branches = [lambda x: jnp.log(x - x), lambda x: jnp.sqrt(-x)]  # branches
        return lax.switch(which, branches, x)

    x = jnp.float32(2)
    assert births(step, 0, x)[1].primitive == "log"
    nan, inf = births(step, 1, x)
    assert (nan.primitive, inf) == ("sqrt", None)
    assert nan.text.endswith("# branches")


def test_remat_computes_again_in_the_backward_pass():
    def loss(w):
        return jnp.sum(jax.checkpoint(lambda w: jnp.sin(jnp.sqrt(w)))(w))  # rematted

    nan, inf = births(jax.value_and_grad(loss), jnp.zeros(2))
    assert (nan, inf.primitive, inf.sweep) == (None, "div", "derivative")
    assert inf.text.endswith("# rematted")


def test_custom_derivatives():
    x = jnp.array([4.0, 0.0])
    nan, inf = births(jax.value_and_grad(lambda x: jnp.sum(unsafe_root(x))), x)
    assert (nan, inf.primitive, inf.text) == (None, "div", "return root, tangents[0] * (0.5 / root)  # custom rule")
    assert births(unsafe_root, -x)[0].primitive == "sqrt"
    assert births(unsafe_log, x)[1].text == "return jnp.log(x)  # custom forward"
    guarded = jax.value_and_grad(lambda x: jnp.sum(jnp.where(x > 0, unsafe_log(x), 0.0)))
    nan, inf = births(guarded, x)
    # JAX gives the equations of a custom backward function the line that called the forward one.
    assert (nan.primitive, nan.sweep, inf) == ("div", "transpose", None)
    assert nan.text.startswith("guarded = ")


def test_a_library_function_has_the_line_that_calls_it():
    def step(x, y):
        a = jnp.linalg.norm(x)  # first call
        return a + jnp.linalg.norm(y) * 0  # second call

    nan, inf = births(step, jnp.ones(3), jnp.full(3, 1e30))
    assert inf.text.endswith("# second call")
    assert (nan.primitive, nan.text) == ("mul", inf.text)


@pytest.mark.parametrize(
    "harmless",
    [
        lambda x: jnp.where(x > 0, jnp.log(x), 0.0),
        lambda x: jnp.nan_to_num(jnp.log(x)),
        lambda x: jnp.exp(jnp.log(x)),
        lambda x: jnp.log(x)[1:],
        lambda x: jnp.maximum(jnp.log(x), -10.0),
        lambda x: jnp.argmax(jnp.sqrt(x - 1)),
        lambda x: lax.scan(lambda c, x: (c + jnp.where(x > 0, 1 / x, 0), None), ZERO, x)[0],
        lambda x: (jnp.log(x), x)[1],
    ],
)
def test_a_birth_that_reaches_no_output(harmless):
    assert births(harmless, jnp.array([0.0, 1.0])) == (None, None)


def test_of_two_births_the_one_that_is_kept():
    def step(x):
        dropped = jnp.where(x > 0, jnp.log(x), 0.0)
        return dropped + 1 / x  # kept

    assert births(step, jnp.array([0.0, 1.0]))[1] == Told("div", "forward", "return dropped + 1 / x  # kept")


def test_of_two_births_in_one_array_the_one_whose_elements_are_kept():
    def step(x):
        both = -jnp.concatenate([jnp.log(x), 1 / x])
        return jnp.where(x == 0, jnp.flip(both)[:2], 0.0)

    assert births(step, jnp.array([0.0, 1.0])) == (None, None)
    assert births(step, jnp.array([0.0, 0.0]))[1].primitive == "div"

    def scanned(xs):
        return lax.scan(lambda c, x: (c, 1 / x), 0.0, xs)[1][3]

    assert births(scanned, jnp.array([1.0, 0.0, 1.0, 0.0]))[1].iteration == (3,)


@pytest.mark.parametrize("mode", ["fill", "clip"])
def test_what_a_gather_fills_in(mode):
    def step(table, ids):
        return jnp.take(jnp.log(table), ids, axis=0, mode=mode)  # take

    nan, inf = births(step, jnp.array([1.0, 0.0, 2.0]), jnp.array([0, 1, 9]))
    assert inf.primitive == "log"
    assert (nan and nan.primitive) == ("gather" if mode == "fill" else None)
    assert births(step, jnp.array([1.0, 0.0, 2.0]), jnp.array([0, 2, 2])) == (None, None)


def test_an_infinity_of_the_program_is_deliberate():
    mask = np.array([0.0, -np.inf, 0.0], np.float32)
    for masked in (
        lambda x: x + mask,
        lambda x: jnp.where(x > 1, x, -jnp.inf),
        lambda x: x + jnp.log(jnp.tril(jnp.ones((3, 3)))),
        lambda x: lax.scan(lambda m, x: (jnp.maximum(m, x), m), -jnp.inf, x),
    ):
        assert births(masked, jnp.arange(3.0)) == (None, None)


def test_an_overflow_beside_a_deliberate_infinity():
    def step(x):
        masked = jnp.where(x < 0, -jnp.inf, x)
        return jnp.sum(masked * 1e30)  # overflows

    nan, inf = births(step, jnp.array([-1.0, 1e10]))
    assert inf == Told("mul", "forward", "return jnp.sum(masked * 1e30)  # overflows")
    assert nan.primitive == "reduce_sum"


def test_a_constant_that_is_nan_is_born_where_it_enters():
    weighted = births(lambda x: x + 0.0 * jnp.log(-1.0), jnp.ones(2))[0]
    assert weighted.primitive == "log"
    assert births(lambda x: jnp.where(x > 0, x, jnp.nan), jnp.zeros(2))[0].primitive == "select_n"
    variance = births(lambda x: 0.1 * jnp.var(x, 0, ddof=1), jnp.ones((1, 2)))[0]
    assert variance.text.startswith("variance = ")


def test_what_enters_infinite_is_born_as_nan_only():
    found = locate(lambda x: x - x, jnp.array([1.0, jnp.inf]))
    assert (told(found.first_nan).primitive, found.first_inf) == ("sub", None)
    assert [(leaf.path, leaf.positive_infinity, leaf.index) for leaf in found.entered] == [("x", 1, (1,))]
    assert found.first_nan.sources == ("x",)


def test_a_nan_that_was_closed_over_came_in():
    data = jnp.array([1.0, jnp.nan])
    found = locate(lambda w: jnp.sum(w * data), jnp.float32(1))
    assert (found.first_nan, found.first_inf) == (None, None)
    assert [(leaf.path, leaf.nan) for leaf in found.entered] == [("closed-over array 0", 1)]


def test_leaves_without_nan():
    def step(state, key, ids):
        noise = jax.random.normal(key, (3,))
        keys = jax.random.split(key, 2)
        _, draws = lax.scan(lambda c, k: (c, (jax.random.uniform(k) / (c - c), k)), 1.0, keys)
        rows = state["table"][ids]
        return {"noise": noise + rows, "draws": draws, "flag": ids > 1, "key": key, "count": state["count"] + 1}

    state = {"table": jnp.zeros(4), "count": 7}
    found = locate(jax.jit(step), state, jax.random.key(0), jnp.arange(3))
    assert (found.first_nan, found.first_inf.primitive) == (None, "div")
    assert found.first_inf.iteration == (0,)
    assert found.reaches == ("output draws/0",)
    assert found.first_inf.sources == ("key",)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "complex64"])
def test_small_and_complex_formats(dtype):
    found = locate(lambda x: (x.astype(dtype) * jnp.asarray(0, dtype)) / jnp.asarray(0, dtype), jnp.ones(2))
    assert found.first_nan.primitive == "div"
    assert found.first_nan.outputs[0].nan == 2


def test_a_narrow_format_without_infinity_overflows_to_nan():
    nan, inf = births(lambda x: x.astype(jnp.float8_e4m3fn), jnp.array([10.0, 500.0]))
    assert (nan.primitive, inf) == ("convert_element_type", None)


def test_donated_arguments():
    step = jax.jit(lambda state, x: (state / x, jnp.sum(state)), donate_argnums=0)
    state = jnp.ones(3)
    found = locate(step, state, jnp.zeros(3))
    assert (found.first_inf.primitive, found.reaches, state.is_deleted()) == ("div", ("output 0",), False)
    # Called by another function, the donation is in an equation.
    assert locate(lambda s, x: step(s + 0, x), state, jnp.zeros(3)).first_inf.primitive == "div"
    step(state, jnp.ones(3))
    with pytest.raises(ValueError, match="argument state was donated"):
        locate(step, state, jnp.zeros(3))


def test_static_arguments_are_to_be_bound():
    step = jax.jit(lambda n, x: x / n, static_argnums=0)
    with pytest.raises(TypeError, match="partial"):
        locate(step, 0, jnp.ones(2))


def test_debug_flags_of_jax_do_not_stop_it():
    with jax.debug_nans(True), jax.debug_infs(True):
        assert births(lambda x: jnp.log(x) * 0, jnp.zeros(2))[0].primitive == "mul"


def test_the_text_and_the_json():
    import json

    found = locate(lambda w, x: jnp.mean(jnp.log(w * x)), ZERO, jnp.ones(2))
    text = str(found)
    assert "first Inf: log, " in text
    assert "from       w, x" in text
    assert "output" in text
    read = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert (read["first_inf"]["primitive"], read["first_inf"]["outputs"][0]["sample"]) == ("log", "-inf")
    nothing = str(locate(lambda x: x, ZERO))
    assert "nothing non-finite" in nothing
