"""Every public incident: the equation and line of its first NaN and Inf, or the argument it came in by, or silence."""

import inspect
from functools import cache

import pytest
from incidents import CASES, Case

from firstnan.jax import locate

CAME_IN = {
    "b2_fully_masked_row": "batch",
    "c6_nan_padding": "batch/x",
    "c8_logsumexp_of_nothing": "batch/mask",
    "e5_nan_learning_rate": "batch/learning_rate",
    "e6_nan_in_the_optimizer_state_on_resume": "state/optimizer/0/nu",
    "e8_nan_in_a_frozen_leaf": "state/params/frozen",
    "f1_nan_in_the_data": "batch",
    "f3_too_large_for_the_device": "batch",
}
BACKWARD = (("mul", "transpose"), ("div", "derivative"))
# The first NaN, the first Inf: primitive and sweep. Both in the update where the case's own lines make none.
BORN = {
    "a1_log_of_zero": (("mul", "transpose"), ("log", "forward")),
    "a2_all_labels_ignored": (("div", "forward"), None),
    "a5_one_hot_of_masked_logits": (("mul", "forward"), None),
    "a7_auxiliary_loss_of_weight_zero": (("log", "forward"), None),
    "b1_float16_overflow": (("sub", "forward"), ("mul", "forward")),
    "b2_fully_masked_row": (("sub", "forward"), None),
    "b3_masked_row_that_is_sliced_away": (("sub", "forward"), None),
    "b6_one_value_a_channel": (("select_n", "forward"), None),
    "b8_index_out_of_bounds": (("gather", "forward"), None),
    "b10_empty_expert": (("div", "forward"), None),
    "b10_empty_expert_declared": (("div", "forward"), None),
    "b11_float8_cast": (("convert_element_type", "forward"), None),
    "b13_washed_nan": (("log", "forward"), None),
    "c1_guard_after_the_square_root": BACKWARD,
    "c3_epsilon_outside_the_square_root": BACKWARD,
    "c8_logsumexp_of_nothing": (("div", "transpose"), ("log", "forward")),
    "e1_epsilon_vanishes_in_float16": (("div", "forward"), None),
    "e3_clipping_of_an_infinity": (("div", "forward"), ("convert_element_type", "transpose")),
    "f6_divergence": (None, ("integer_pow", "forward")),
}
SILENT = {"a9_metric_only", "b5_causal_mask_is_clean", "d5_padding_of_a_flat_buffer"}
CONSTANT = {
    "a5_one_hot_of_masked_logits": ("logits + mask", "mul"),
    "b3_masked_row_that_is_sliced_away": ("w * x + mask", "sub"),
    "b5_causal_mask_is_clean": ("w * x + mask", None),
}


@cache
def at_the_bad_step(name):
    """What `locate` finds on the last batch, from the state that the batches before it leave."""
    case = CASES[name]()
    step, state = case.step(), case.state()
    for batch in case.batches[:-1]:
        state = step(state, batch)[0]
    return locate(step, state, case.batches[-1])


def marked(name, kind):
    """The numbers of the lines of a case, or else of the step around it, that are marked for a kind."""
    for source in (CASES[name.removesuffix("_declared")], Case.step):
        lines, first = inspect.getsourcelines(source)
        found = [n for n, line in enumerate(lines, first) if kind in line.partition("# born: ")[2]]
        if found:
            return found
    raise AssertionError(f"{name} has no line marked for {kind}")


def test_each_incident_is_expected_to_be_born_to_come_in_or_to_be_silent():
    assert set(BORN) | set(CAME_IN) | SILENT == set(CASES)
    assert not SILENT & (set(BORN) | set(CAME_IN))


@pytest.mark.parametrize("name", CASES)
def test_an_incident(name):
    case = CASES[name]()
    found = at_the_bad_step(name)
    assert found.reproduced
    found_births = (found.first_nan, found.first_inf)
    for kind, birth, expected in zip(("NaN", "Inf"), found_births, BORN.get(name, (None, None)), strict=True):
        assert (birth and (birth.primitive, birth.sweep)) == expected, found
        if birth is not None:
            assert birth.file.endswith("incidents.py")
            assert [birth.line] == marked(name, kind), found
    assert [leaf.path for leaf in found.entered] == ([CAME_IN[name]] if name in CAME_IN else [])
    assert ("this step cannot tell" in str(found)) == (name in CAME_IN)
    if name in SILENT:
        assert "nothing non-finite that reaches an output is born in the step" in str(found)
    elif case.stage is not None:
        assert f"{case.stage} {case.leaf}".rstrip() in [reached for reached in found.reaches if not reached.startswith("output ")]


@pytest.mark.parametrize("name", CASES)
def test_an_infinity_of_the_program_is_mentioned(name):
    found = at_the_bad_step(name)
    if name not in CONSTANT:
        assert found.constants == ()
        return
    (constant,) = found.constants
    text, nan = CONSTANT[name]
    lines, first = inspect.getsourcelines(CASES[name])
    assert text in lines[constant.place.line - first]
    assert (constant.nan and constant.nan.primitive) == nan
    assert f"constant Inf of the program, not born in the step: add, {constant.place.at}" in str(found)
    assert ("it is an input of the NaN of" in str(found)) == (nan is not None)
    assert found.first_nan is None or (constant.nan.line, constant.nan.primitive) == (found.first_nan.line, nan)


def test_a_value_that_a_conversion_made_infinite():
    found = at_the_bad_step("f3_too_large_for_the_device")
    assert found.entered[0].finite_as == "float64"
    assert "finite as float64, before JAX converted it" in str(found)
    assert at_the_bad_step("f1_nan_in_the_data").entered[0].finite_as is None
