"""`firstnan drill`: the real drill, passing and failing."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import Command


def test_the_drill_passes_and_shows_each_comparison(command: Command, tmp_path: Path) -> None:
    done = command("drill", "--timeout", "120", str(tmp_path / "drill"))
    text = done.stdout.decode()
    assert done.returncode == 0, text
    assert text.splitlines()[-1] == "the drill passed: the resumed run equals the one that never failed"
    rows = [line for line in text.splitlines() if line.startswith("ok")]
    assert len(rows) >= 12
    assert "FAILED" not in text
    for step in range(3, 9):
        assert any(f"state after step {step}" in row for row in rows)
    assert (tmp_path / "drill/interrupted/checkpoint.json").exists()


def test_a_drill_that_cannot_finish_in_time_is_1(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "drill"
    done = command("drill", "--timeout", "0.05", "--json", str(folder))
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["passed"] is False
    assert document["comparisons"][0]["equal"] is False
    assert json.loads((folder / "uninterrupted/run.json").read_bytes())["status"] == "timed_out"
    text = command("drill", "--timeout", "0.05", str(folder)).stdout.decode()
    assert "FAILED" in text
    assert f"run.json in {folder}/uninterrupted and /interrupted" in text


def test_a_folder_in_use_is_misuse(command: Command, tmp_path: Path) -> None:
    import fcntl
    import os

    (tmp_path / "uninterrupted").mkdir()
    held = os.open(tmp_path / "uninterrupted", os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = command("drill", str(tmp_path))
    finally:
        os.close(held)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert b"temporarily unavailable" in done.stderr
