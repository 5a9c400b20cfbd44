"""What a run of the real worker reports, writes and ends with."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import jax
import numpy as np
import pytest
from observed import LIMIT_S, Run, is_running, workers_of

import firstnan
from firstnan.supervisor import default_config, digest, drill, launch


def test_completed_run(whole: Run) -> None:
    record = whole.record
    assert (record["status"], record["returncode"], record["malformed_stdout"]) == ("completed", 0, [])
    two = ["progress", "progress", "checkpoint"]
    assert [event["event"] for event in record["events"]] == ["started", "ready", *4 * two, "completed"]
    assert [event["step"] for event in whole.events("progress")] == list(range(1, 9))
    assert [event["step"] for event in whole.events("checkpoint")] == [2, 4, 6, 8]
    assert whole.events("started")[0]["backend"] == "cpu"
    assert whole.events("ready")[0]["step"] == 0
    assert {event["examples"] for event in whole.events("progress")} == {8}
    clock = [event["monotonic_s"] for event in record["events"]]
    assert clock == sorted(clock)


def test_training_learns(tmp_path: Path) -> None:
    """The line is y = 2x + 1, so the parameters must end there."""
    record = launch(tmp_path, default_config(steps=400, batch_size=64, checkpoint_every=400), LIMIT_S)
    assert record["status"] == "completed"
    checkpoint = firstnan.decode("checkpoint", (tmp_path / "checkpoint.json").read_bytes())
    assert checkpoint.params == pytest.approx([2.0, 1.0], abs=1e-4)


def test_files(whole: Run) -> None:
    root, record = whole
    assert sorted(path.name for path in root.iterdir()) == ["checkpoint.json", "config.json", "run.json", "worker.py"]
    assert json.loads((root / "run.json").read_bytes()) == record
    assert firstnan.decode("run-record", (root / "run.json").read_bytes()).status == "completed"
    assert json.loads((root / "config.json").read_bytes()) == record["config"] == default_config()
    assert record["worker_hash"] == hashlib.sha256((root / "worker.py").read_bytes()).hexdigest()


def test_checkpoint(whole: Run) -> None:
    data = (whole.root / "checkpoint.json").read_bytes()
    firstnan.decode("checkpoint", data)
    checkpoint = json.loads(data)
    state = {name: checkpoint[name] for name in ("step", "params", "velocity", "key")}
    last = whole.events("completed")[0]
    assert (state["step"], digest(state)) == (last["step"], last["state_hash"])
    hyper = {name: whole.record["config"][name] for name in ("seed", "learning_rate", "momentum", "batch_size")}
    assert checkpoint["config_hash"] == digest(hyper)
    assert checkpoint["worker_hash"] == whole.record["worker_hash"]
    assert checkpoint.pop("checksum") == digest(checkpoint)


def test_other_seed_other_states(whole: Run, tmp_path: Path) -> None:
    hashes = {event["state_hash"] for event in whole.events("progress")}
    other = Run(tmp_path, launch(tmp_path, default_config(steps=4, seed=4), LIMIT_S))
    assert not {event["state_hash"] for event in other.events("progress")} & hashes


def test_losses_are_those_of_the_specification(whole: Run) -> None:
    """The same training written a second time, in NumPy; only the draws are JAX's."""
    x = np.linspace(-1.0, 1.0, 64)
    params, velocity = np.zeros(2), np.zeros(2)
    key = jax.random.key(3, impl="threefry2x32")
    for event in whole.events("progress"):
        key, draw = jax.random.split(key)
        rows = np.asarray(jax.random.choice(draw, 64, (8,), replace=False))
        assert len(set(rows.tolist())) == 8
        error = params[0] * x[rows] + params[1] - (2.0 * x[rows] + 1.0)
        assert event["loss"] == pytest.approx(np.mean(error**2), rel=1e-4)
        velocity = 0.8 * velocity + 2.0 * np.array([np.mean(error * x[rows]), np.mean(error)])
        params = params - 0.04 * velocity
    checkpoint = json.loads((whole.root / "checkpoint.json").read_bytes())
    assert checkpoint["params"] == pytest.approx(params, rel=1e-4)
    assert checkpoint["key"] == jax.random.key_data(key).tolist()


def test_last_step_is_checkpointed_off_the_beat(tmp_path: Path) -> None:
    run = Run(tmp_path, launch(tmp_path, default_config(steps=3), LIMIT_S))
    assert [event["step"] for event in run.events("checkpoint")] == [2, 3]
    assert json.loads((tmp_path / "checkpoint.json").read_bytes())["step"] == 3


def test_fail_after(tmp_path: Path) -> None:
    run = Run(tmp_path, launch(tmp_path, default_config(fail_after=3), LIMIT_S))
    assert (run.record["status"], run.record["returncode"]) == ("failed", 23)
    assert [event["step"] for event in run.events("progress")] == [1, 2, 3]
    assert run.record["events"][-1]["event"] == "failed"
    assert run.record["events"][-1]["kind"] == "InjectedFailure"
    assert "InjectedFailure" in run.record["stderr"]


def test_run_that_diverges_fails_instead_of_reporting_nan(tmp_path: Path) -> None:
    diverging = default_config(learning_rate=0.999, momentum=0.999, batch_size=1, steps=5000, checkpoint_every=5000)
    run = Run(tmp_path, launch(tmp_path, diverging, LIMIT_S))
    assert (run.record["status"], run.record["returncode"]) == ("failed", 23)
    assert run.events("failed")[0]["kind"] == "FloatingPointError"
    assert not (tmp_path / "checkpoint.json").exists()


@pytest.mark.parametrize("changes", [{"backend": "no_such_platform"}, {"min_devices": 4096}], ids=repr)
def test_missing_device_fails(tmp_path: Path, changes: dict[str, object]) -> None:
    run = Run(tmp_path, launch(tmp_path, default_config(**changes), LIMIT_S))
    assert (run.record["status"], run.record["returncode"]) == ("failed", 23)
    assert len(run.events("failed")) == 1


def test_stall_is_ended_at_the_limit(tmp_path: Path, whole: Run) -> None:
    limit = 2 * whole.record["wall_s"] + 3
    run = Run(tmp_path, launch(tmp_path, default_config(stall_at=3, stall_seconds=3600), limit))
    assert (run.record["status"], run.record["returncode"]) == ("timed_out", -15)
    assert run.record["events"][-1]["event"] == "stall_injected"
    assert [event["step"] for event in run.events("progress")] == [1, 2]
    assert not is_running(run.events("started")[0]["pid"])
    assert workers_of(tmp_path) == []


def test_short_stall_only_delays(tmp_path: Path, whole: Run) -> None:
    run = Run(tmp_path, launch(tmp_path, default_config(stall_at=3, stall_seconds=0.01), LIMIT_S))
    assert run.record["status"] == "completed"
    assert run.events("completed")[0]["state_hash"] == whole.events("completed")[0]["state_hash"]


def test_drill(tmp_path: Path, whole: Run) -> None:
    result = drill(tmp_path, LIMIT_S)
    unequal = [comparison["name"] for comparison in result["comparisons"] if not comparison["equal"]]
    assert (result["passed"], unequal) == (True, [])
    found = {comparison["name"]: comparison["found"] for comparison in result["comparisons"]}
    for event in whole.events("progress")[2:]:
        assert found[f"state after step {event['step']}"] == event["state_hash"]


def test_drill_shows_what_differs(tmp_path: Path) -> None:
    """A limit too short for any of the runs: the drill must not pass on nothing."""
    result = drill(tmp_path, 0.001)
    assert result["passed"] is False
    assert {comparison["name"] for comparison in result["comparisons"] if comparison["equal"]} == set()
