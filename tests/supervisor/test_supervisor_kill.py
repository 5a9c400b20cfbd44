"""kill -9, of the worker and of the supervisor, at any moment."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from observed import LIMIT_S, Run, is_running, wait_for, workers_of

import firstnan
from firstnan.supervisor import default_config, launch

STEPS = {"steps": 1000, "checkpoint_every": 3}


def kill_after_a_checkpoint(root: Path, before: bytes | None) -> None:
    """Kill the worker at a random moment after the checkpoint is no longer `before`."""
    wait_for(lambda: bytes_of(root / "checkpoint.json") not in (before, None))
    time.sleep(random.uniform(0, 0.03))
    for pid in workers_of(root):
        os.kill(pid, signal.SIGKILL)


def bytes_of(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def test_run_killed_again_and_again_equals_one_never_killed(tmp_path: Path) -> None:
    whole = Run(tmp_path / "whole", launch(tmp_path / "whole", default_config(**STEPS), LIMIT_S))
    expected = {event["step"]: event["state_hash"] for event in whole.events("progress")}

    root = tmp_path / "killed"
    checkpoint = root / "checkpoint.json"
    pieces: list[Run] = []
    with ThreadPoolExecutor(1) as pool:
        while not pieces or pieces[-1].record["status"] != "completed":
            before = bytes_of(checkpoint)
            running = pool.submit(launch, root, default_config(**STEPS, resume=before is not None), LIMIT_S)
            if len(pieces) < 3:
                kill_after_a_checkpoint(root, before)
            pieces.append(Run(root, running.result()))

    assert [piece.record["returncode"] for piece in pieces] == [-9] * (len(pieces) - 1) + [0]
    assert len(pieces) > 1
    for piece in pieces:
        assert all(event["state_hash"] == expected[event["step"]] for event in piece.events("progress"))
    assert checkpoint.read_bytes() == (whole.root / "checkpoint.json").read_bytes()
    assert sorted(path.name for path in root.iterdir()) == ["checkpoint.json", "config.json", "run.json", "worker.py"]


# A shell starts its background jobs with SIGINT ignored, and children inherit that.
SUPERVISE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
from firstnan.supervisor import default_config, launch
launch(sys.argv[1], default_config(stall_at=3, stall_seconds=300), 300)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("moment", ["starting", "training"])
def test_death_of_the_supervisor_leaves_no_worker_and_no_record(
    tmp_path: Path, whole: Run, moment: str, number: signal.Signals
) -> None:
    (tmp_path / "run.json").write_bytes(b"the record of an earlier run")
    with subprocess.Popen([sys.executable, "-c", SUPERVISE, str(tmp_path)], stderr=subprocess.DEVNULL) as supervisor:
        (worker,) = wait_for(lambda: workers_of(tmp_path))
        if moment == "training":
            wait_for((tmp_path / "checkpoint.json").exists)
        supervisor.send_signal(number)
    wait_for(lambda: not is_running(worker))
    assert not (tmp_path / "run.json").exists()

    if moment == "training" and number == signal.SIGKILL:
        resumed = Run(tmp_path, launch(tmp_path, default_config(resume=True), LIMIT_S))
        assert resumed.events("restored")[0]["step"] == 2
        assert resumed.events("completed")[0]["state_hash"] == whole.events("completed")[0]["state_hash"]
        firstnan.decode("run-record", (tmp_path / "run.json").read_bytes())


def test_root_is_held_by_one_run_at_a_time(tmp_path: Path) -> None:
    sleeper = b"import time; time.sleep(3600)"
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(launch, tmp_path, None, LIMIT_S, _worker=sleeper)
        (pid,) = wait_for(lambda: workers_of(tmp_path))
        with pytest.raises(BlockingIOError):
            launch(tmp_path)
        os.kill(pid, signal.SIGKILL)
        assert first.result()["returncode"] == -signal.SIGKILL
    assert launch(tmp_path, None, LIMIT_S, _worker=b"")["status"] == "failed"
