"""Every way of the table in which a step goes non-finite: the equation, sweep, iteration and line of its births."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from locate_steps import Told, births, same, scaled_half_precision
from steps import SCENARIOS, initial, make_step

from firstnan.jax import locate

# The first NaN, the first Inf. Where the update multiplies an infinite gradient by a learning rate of 0, that is a NaN.
UPDATE = Told("mul", "forward", "scenario.optimizer.update(")
EXPECTED = {
    "norm_at_zero": (Told("mul", "transpose", "jnp.linalg.norm("), Told("div", "derivative", "jnp.linalg.norm(")),
    # The -Inf of the log itself is dropped by the where: it reaches nothing.
    "where_guard_after_log": (Told("div", "transpose", "jnp.log(y)"), None),
    "log_of_zero_probability": (Told("mul", "transpose", "jax.nn.softmax("), Told("log", "forward", "jnp.log(p[")),
    "fp16_activation_overflow": (None, Told("dot_general", "forward", "astype(jnp.float16) @ w")),
    "loss_scale_overflow": (UPDATE, Told("mul", "transpose", "h = x.astype(jnp.float16) *")),
    "fully_masked_attention_row": (Told("sub", "forward", "jax.nn.softmax("), None),
    "minus_inf_mask_is_fine": (None, None),
    "mean_over_no_labels": (Told("div", "forward", '/ jnp.sum(batch["m"])'), Told("div", "transpose", '/ jnp.sum(batch["m"])')),
    "nan_in_data": (None, None),
    "embedding_index_out_of_range": (Told("gather", "forward", "jnp.take("), None),
    "std_of_constant_feature": (Told("mul", "transpose", "jnp.std("), Told("div", "derivative", "jnp.std(")),
    "exp_overflow_in_scan": (UPDATE, Told("exp", "forward", "jnp.exp(2 * c)", (2,))),
    "clip_by_norm_of_inf": (UPDATE._replace(primitive="div"), Told("dot_general", "transpose", "y = x @ w")),
    "adam_second_moment_overflow": (None, UPDATE._replace(primitive="integer_pow")),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_births_of_a_scenario(name):
    scenario = SCENARIOS[name]()
    step, state = make_step(scenario), initial(scenario)
    if scenario.batches[:-1]:
        good = locate(step, state, scenario.batches[0])
        assert (good.first_nan, good.first_inf, good.entered, good.reaches) == (None, None, (), ())
    found = locate(step, state, scenario.batches[-1])
    nan, inf = EXPECTED[name]
    assert found.reproduced
    assert same(found.first_nan, nan), found
    assert same(found.first_inf, inf), found
    stages = [output.split()[0] for output in found.reaches if not output.startswith("output")]
    assert (stages or [None])[0] == scenario.expected
    assert [leaf.path for leaf in found.entered] == (["batch/0"] if name == "nan_in_data" else [])
    earliest = [birth.reaches for birth in (found.first_nan, found.first_inf) if birth is not None]
    if nan or inf:
        assert any(output.startswith(scenario.expected) for reaches in earliest for output in reaches)


def test_what_came_in_is_told_by_leaf_count_and_index():
    scenario = SCENARIOS["nan_in_data"]()
    (leaf,) = locate(make_step(scenario), initial(scenario), scenario.batches[-1]).entered
    assert (leaf.path, leaf.nan, leaf.positive_infinity, leaf.negative_infinity, leaf.index) == ("batch/0", 1, 0, 0, (2, 1))


def test_a_converted_gradient_overflows_where_it_is_converted():
    nan, inf = births(jax.jit(scaled_half_precision), jnp.ones(4, jnp.float16), jnp.full(4, 8.0))
    assert nan is None
    assert (inf.primitive, inf.sweep) == ("convert_element_type", "transpose")
    assert inf.text.endswith("# widened")


def test_the_operands_of_a_birth():
    scenario = SCENARIOS["where_guard_after_log"]()
    birth = locate(make_step(scenario), initial(scenario), scenario.batches[-1]).first_nan
    numerator, denominator = birth.inputs
    assert (numerator.shape, numerator.dtype, numerator.sample, denominator.sample) == ((2,), "float32", 0.0, 0.0)
    assert (denominator.minimum, denominator.maximum) == (0.0, 2.0)
    (out,) = birth.outputs
    assert (out.nan, out.positive_infinity, out.negative_infinity, birth.index) == (1, 0, 0, (1,))
    assert np.isnan(out.sample)
    assert birth.sources == ("state/0", "batch/0")
    assert birth.reaches == ("output 0/0", "backward", "optimizer 0")
    assert [place.primitive for place in birth.path] == ["div", "dot_general"]
    assert birth.chain[0] == "state/0, batch/0"
    assert birth.chain[1].startswith("div (")
    assert birth.chain[-1] == "output 0/0, backward, optimizer 0"
