"""What `run` is given, checked before a step is spent; and that a hold is found however a run ends."""

import os
import subprocess
import sys
from pathlib import Path

import incidents
import jax.numpy as jnp
import numpy as np
import pytest

from firstnan import ContractError, decode, triage_training_incident
from firstnan.jax import RunResult, count_stages, run, verify_bundle


def good_step(state, batch):
    return state, count_stages(input=batch, forward=batch, loss=batch, backward=batch, optimizer=batch), {"loss_scale": 1.0}


def bad_step(state, batch):
    bad = batch * jnp.nan
    return state, count_stages(input=batch, forward=batch, loss=batch, backward=bad, optimizer=batch), {}


ONES = [np.ones(2, np.float32)]


@pytest.mark.parametrize(
    ("wrong", "pointer", "kind"),
    [
        *[({"every": value}, "/every", "type") for value in (float("nan"), 1.5, True, "2", None)],
        *[({"history": value}, "/history", "type") for value in (1.0, True)],
        ({"every": 0}, "/every", "minimum"),
        ({"history": -1}, "/history", "minimum"),
        ({"start_step": True}, "/start_step", "type"),
        ({"start_step": -1}, "/start_step", "minimum"),
        ({"start_step": 10**12 + 1}, "/start_step", "maximum"),
        ({"first_batch": 0.0}, "/first_batch", "type"),
        ({"bundle_dir": "a\0b"}, "/bundle_dir", "pattern"),
        ({"bundle_dir": "\ud800"}, "/bundle_dir", "pattern"),
        ({"bundle_dir": 7}, "/bundle_dir", "type"),
        ({"contract": {"run_id": "r"}}, "/contract", "type"),
        ({"on_step": 5}, "/on_step", "type"),
        ({"skip": 3}, "/skip", "type"),
        ({"skip": "12"}, "/skip", "type"),
        ({"policy": {}}, "/policy", "type"),
        ({"peers": 2}, "/peers", "type"),
        ({"state": {1: 1, "a": 2}}, "/state", "type"),
        ({"batches": 5}, "/batches", "type"),
        ({"step": None}, "/step", "type"),
    ],
)
def test_an_argument_is_refused_by_name_before_a_step_is_spent(wrong, pointer, kind, contract, tmp_path):
    spent = []

    def step(state, batch):
        spent.append(batch)
        return good_step(state, batch)

    arguments = {"step": step, "state": 0.0, "batches": ONES, "contract": contract, "bundle_dir": tmp_path} | wrong
    with pytest.raises(ContractError) as error:
        run(arguments.pop("step"), arguments.pop("state"), arguments.pop("batches"), **arguments)
    assert (error.value.pointer, error.value.kind, spent) == (pointer, kind, [])


@pytest.mark.parametrize("scale", ["2", True, np.ones(2), [1.0], 1j])
def test_a_loss_scale_is_one_real_number(scale, contract, tmp_path):
    def step(state, batch):
        return (*good_step(state, batch)[:2], {"loss_scale": scale})

    with pytest.raises(TypeError, match="step 0 must return the loss_scale"):
        run(step, 0.0, ONES, contract=contract, bundle_dir=tmp_path)


@pytest.mark.parametrize("scale", [-1.0, 0, float("nan"), 10**400, -(10**400)])
def test_a_loss_scale_out_of_bounds_is_refused_with_what_was_measured(scale, contract, tmp_path):
    def step(state, batch):
        return (*good_step(state, batch)[:2], {"loss_scale": scale})

    with pytest.raises(ContractError, match=f"step 0 was refused: .*loss_scale.*{tmp_path}/refused-step-0"):
        run(step, 0.0, ONES, contract=contract, bundle_dir=tmp_path)
    assert verify_bundle(tmp_path / "refused-step-0") == ()


@pytest.mark.parametrize("name", [1, None, b"loss", "\ud800"])
def test_the_names_of_aux_are_text(name, contract, tmp_path):
    def step(state, batch):
        return (*good_step(state, batch)[:2], {"loss": 1.0, name: 2.0})

    with pytest.raises(TypeError, match="names are text"):
        run(step, 0.0, ONES, contract=contract, bundle_dir=tmp_path)


def test_a_restart_that_is_refused_costs_no_batch(contract, tmp_path):
    result = run(bad_step, 0.0, ONES * 3, contract=contract, bundle_dir=tmp_path)
    for wrong, pointer in (({"every": 0}, "/every"), ({"often": 1}, "/often")):
        with pytest.raises(ContractError) as error:
            result.restart(**wrong)
        assert error.value.pointer == pointer
    assert result.restart(step=good_step).steps == 2


@pytest.mark.parametrize("ending", [SystemExit(3), GeneratorExit(), ZeroDivisionError(), KeyError("x")])
def test_what_had_run_is_triaged_however_the_run_is_ended(ending, contract, tmp_path):
    calls = []

    def step(state, batch):
        calls.append(batch)
        if len(calls) == 3:
            raise ending
        return bad_step(state, batch) if len(calls) == 2 else good_step(state, batch)

    with pytest.raises(type(ending)) as error:
        run(step, 0.0, ONES * 5, contract=contract, bundle_dir=tmp_path, every=5)
    assert "step 1 was held before this" in error.value.__notes__[0]
    assert verify_bundle(tmp_path / "incident-step-1") == ()


def test_a_step_that_ends_the_process_when_run_again_does_not_cost_the_hold(contract, tmp_path):
    calls = []

    def step(state, batch):
        calls.append(batch)
        if len(calls) > 1:
            raise SystemExit
        return bad_step(state, batch)

    with pytest.warns(UserWarning, match="again raised SystemExit"):
        result = run(step, 0.0, ONES, contract=contract, bundle_dir=tmp_path)
    assert (result.held, result.reproduced, verify_bundle(result.bundle)) == (True, False, ())


KILLED_WHEN_RUN_AGAIN = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from test_loop_arguments import ONES, bad_step
from firstnan import decode
from firstnan.jax import run
contract = decode("training-incident-contract", open(sys.argv[3], "rb").read())
calls = []
def step(state, batch):
    calls.append(batch)
    if len(calls) > 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return bad_step(state, batch)
run(step, 0.0, ONES, contract=contract, bundle_dir=sys.argv[1])
"""


def test_what_was_found_is_on_the_disk_before_the_step_is_run_again(contract, tmp_path):
    from firstnan import encode

    (tmp_path / "contract.json").write_bytes(encode(contract))
    folder = tmp_path / "incidents"
    here, told = str(Path(__file__).parent), str(tmp_path / "contract.json")
    command = [sys.executable, "-c", KILLED_WHEN_RUN_AGAIN, str(folder), here, told]
    done = subprocess.run(command, env=os.environ | {"JAX_PLATFORMS": "cpu"}, check=False)
    assert done.returncode == -9
    (local,) = folder.iterdir()
    assert local.name == "local-step-0"
    records = {name: decode(kind, (local / name).read_bytes()) for name, kind in (
        ("contract.json", "training-incident-contract"), ("evidence.json", "training-run-evidence"))}
    assert triage_training_incident(*records.values()).earliest_nonfinite_stage == "backward"


def test_the_local_record_is_gone_once_the_bundle_is_whole(contract, tmp_path):
    result = run(bad_step, 0.0, ONES, contract=contract, bundle_dir=tmp_path)
    assert list(tmp_path.iterdir()) == [result.bundle]


def test_a_result_says_in_a_line_how_the_run_ended(contract, tmp_path):
    case = incidents.c1_guard_after_the_square_root()
    result = run(case.step(), case.state(), case.batches, contract=contract, bundle_dir=tmp_path)
    assert repr(result) == (f"RunResult(steps=1, next_step=1, held=True, bad_step=1, bad_batch=1, stage='backward', "
                            f"bundle='{tmp_path}/incident-step-1')")
    assert isinstance(result, RunResult)


def test_a_refusal_names_the_stage(contract, tmp_path):
    def step(state, batch):
        large = batch * 1e30
        return state, count_stages(input=large, forward=batch, loss=batch, backward=batch, optimizer=batch)

    with pytest.raises(ContractError, match="stage input/maximum_absolute_finite"):
        run(step, 0.0, ONES, contract=contract, bundle_dir=tmp_path)


WITHOUT_JAX = """
import sys
for name in ("jax", "jaxlib"):
    sys.modules[name] = None
import firstnan.jax
for name in ("count_stages", "run", "locate"):
    try:
        getattr(firstnan.jax, name)
    except ImportError as error:
        assert "pip install 'firstnan[jax]'" in str(error) and name in str(error), error
    else:
        raise AssertionError(name)
bundle = firstnan.jax.read_bundle(sys.argv[1])
assert firstnan.jax.verify_bundle(sys.argv[1]) == ()
try:
    bundle.state()
except ImportError as error:
    assert "pip install 'firstnan[jax]'" in str(error), error
"""


def test_without_jax_a_bundle_is_read_and_the_rest_says_what_to_install(contract, tmp_path):
    result = run(bad_step, 0.0, ONES, contract=contract, bundle_dir=tmp_path)
    subprocess.run([sys.executable, "-c", WITHOUT_JAX, str(result.bundle)], check=True)
