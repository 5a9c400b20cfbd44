"""A checkpoint that is not exactly right is never resumed from."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from observed import LIMIT_S, Run

from firstnan.supervisor import default_config, launch
from firstnan.supervisor.worker import CheckpointRefused, Regression, canonical, digest, read_checkpoint, restore

Checkpoint = dict[str, Any]


def sealed(**changes: Any) -> Callable[[Checkpoint], bytes]:
    """Change fields and make the checksum right again, so that only the field's own check can refuse."""

    def tamper(checkpoint: Checkpoint) -> bytes:
        rest = {**checkpoint, **changes}
        del rest["checksum"]
        text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
        rest["checksum"] = hashlib.sha256(text.encode()).hexdigest()
        return json.dumps(rest).encode()

    return tamper


def without(name: str) -> Callable[[Checkpoint], bytes]:
    return lambda checkpoint: canonical({k: v for k, v in checkpoint.items() if k != name})


TAMPERED: dict[str, Callable[[Checkpoint], bytes]] = {
    "checksum": lambda c: canonical({**c, "checksum": digest("else")}),
    "checksum of other params": lambda c: canonical({**c, "params": [2.0, 1.0]}),
    "checksum null": lambda c: canonical({**c, "checksum": None}),
    "worker": sealed(worker_hash="0" * 64),
    "config": sealed(config_hash="0" * 64),
    "data": sealed(data_hash="0" * 64),
    "data null": sealed(data_hash=None),
    "version": sealed(schema_version=2),
    "version true": sealed(schema_version=True),
    "version 1.0": sealed(schema_version=1.0),
    "three params": sealed(params=[1.0, 1.0, 1.0]),
    "params nested": sealed(params=[[1.0], [1.0]]),
    "params number": sealed(params=1.0),
    "params text": sealed(params="ab"),
    "params integers": sealed(params=[1, 2]),
    "no velocity": sealed(velocity=[]),
    "one key word": sealed(key=[1]),
    "key word negative": sealed(key=[-1, 1]),
    "key word of 33 bits": sealed(key=[2**32, 1]),
    "key word true": sealed(key=[True, 1]),
    "step 0": sealed(step=0),
    "step negative": sealed(step=-2),
    "step beyond the run": sealed(step=9),
    "step true": sealed(step=True),
    "step 2.0": sealed(step=2.0),
    "params NaN": sealed(params=[float("nan"), 1.0]),
    "velocity infinite": sealed(velocity=[1.0, float("-inf")]),
    "params overflow binary64": lambda c: sealed(params=[1.5, 1.0])(c).replace(b"1.5", b"1e999"),
    "params overflow float32": sealed(params=[1e39, 1.0]),
    "params not float32": sealed(params=[0.1, 1.0]),
    "field missing": without("velocity"),
    "checksum missing": without("checksum"),
    "field more": sealed(more=1),
    "name twice": lambda c: canonical(c)[:-1] + b',"step":8}',
    "cut": lambda c: canonical(c)[:-20],
    "empty": lambda c: b"",
    "trailing text": lambda c: canonical(c) + b"{}",
    "array": lambda c: canonical(list(c.values())),
    "null": lambda c: b"null",
    "not UTF-8": lambda c: canonical(c) + b"\xff",
    "UTF-16": lambda c: canonical(c).decode().encode("utf-16"),
    "deep": lambda c: b"[" * 60_000,
    "long": lambda c: canonical(c) + b" " * 65_536,
}


@pytest.fixture(scope="module")
def model() -> Regression:
    return Regression(default_config())


@pytest.fixture(scope="module")
def good(whole: Run) -> Checkpoint:
    checkpoint = read_checkpoint(whole.root / "checkpoint.json")
    assert isinstance(checkpoint, dict)
    return checkpoint


def test_untouched_checkpoint_is_taken(whole: Run, model: Regression, good: Checkpoint) -> None:
    state = restore(whole.root / "checkpoint.json", model, good["worker_hash"], 8)
    assert digest(state) == whole.events("completed")[0]["state_hash"]


def test_resealing_alone_changes_nothing(tmp_path: Path, model: Regression, good: Checkpoint) -> None:
    (tmp_path / "checkpoint.json").write_bytes(sealed()(good))
    assert restore(tmp_path / "checkpoint.json", model, good["worker_hash"], 8)["step"] == 8


@pytest.mark.parametrize("name", TAMPERED)
def test_tampered_checkpoint_is_refused(tmp_path: Path, model: Regression, good: Checkpoint, name: str) -> None:
    (tmp_path / "checkpoint.json").write_bytes(TAMPERED[name](good))
    with pytest.raises(CheckpointRefused):
        restore(tmp_path / "checkpoint.json", model, good["worker_hash"], 8)


REAL_RUNS: dict[str, tuple[str | None, dict[str, Any]]] = {
    **{name: (name, {}) for name in ("checksum", "worker", "data", "three params", "params NaN", "cut")},
    "other seed": (None, {"seed": 4}),
    "fewer steps than the checkpoint has": (None, {"steps": 4}),
    "missing": ("missing", {}),
}


@pytest.fixture(scope="module")
def refused(whole: Run, good: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """One real run for each of REAL_RUNS, two at a time."""

    def run(name: str) -> Run:
        root = tmp_path_factory.getbasetemp() / "refused" / name.replace(" ", "-")
        path = root / "checkpoint.json"
        root.mkdir(parents=True)
        tampering, changes = REAL_RUNS[name]
        if tampering is None:
            shutil.copy(whole.root / "checkpoint.json", path)
        elif tampering != "missing":
            path.write_bytes(TAMPERED[tampering](good))
        return Run(root, launch(root, default_config(resume=True, **changes), LIMIT_S))

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(REAL_RUNS, pool.map(run, REAL_RUNS), strict=True))


@pytest.mark.parametrize("name", REAL_RUNS)
def test_real_run_refuses(refused: dict[str, Run], good: Checkpoint, name: str) -> None:
    run = refused[name]
    assert (run.record["status"], run.record["returncode"]) == ("failed", 23)
    assert [event["event"] for event in run.record["events"]] == ["started", "failed"]
    assert run.events("failed")[0]["kind"] == "CheckpointRefused"
    tampering = REAL_RUNS[name][0]
    if tampering in TAMPERED:
        assert (run.root / "checkpoint.json").read_bytes() == TAMPERED[tampering](good)


def test_resume_of_a_finished_run_completes_at_once(whole: Run, tmp_path: Path) -> None:
    shutil.copy(whole.root / "checkpoint.json", tmp_path)
    run = Run(tmp_path, launch(tmp_path, default_config(resume=True), LIMIT_S))
    assert [event["event"] for event in run.record["events"]] == ["started", "restored", "ready", "completed"]
    assert run.events("completed")[0]["state_hash"] == whole.events("completed")[0]["state_hash"]


def test_resume_with_more_steps_equals_a_longer_run(whole: Run, tmp_path: Path) -> None:
    """The number of steps does not belong to the configuration's hash, so a run may be prolonged."""
    (tmp_path / "longer").mkdir()
    longer = Run(tmp_path / "longer", launch(tmp_path / "longer", default_config(steps=12), LIMIT_S))
    shutil.copy(whole.root / "checkpoint.json", tmp_path)
    prolonged = Run(tmp_path, launch(tmp_path, default_config(resume=True, steps=12), LIMIT_S))
    assert (prolonged.root / "checkpoint.json").read_bytes() == (longer.root / "checkpoint.json").read_bytes()
    assert [event["step"] for event in prolonged.events("progress")] == [9, 10, 11, 12]
