"""The recovery drill: a run that fails and is resumed must equal one that never failed."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from firstnan.arguments import checked_path
from firstnan.canonical import decode
from firstnan.errors import ContractError
from firstnan.supervisor.configuration import default_config
from firstnan.supervisor.json_file import digest
from firstnan.supervisor.supervise import launch


def drill(root: str | os.PathLike[str], timeout: float = 30.0) -> dict[str, Any]:
    """Rehearse recovery under `root`: run 8 steps; fail after step 3, with a checkpoint at 2; resume to step 8.

    Args:
        root: The folder for `uninterrupted/` and `interrupted/`, each the root of a `launch`.
        timeout: The limit of each of the three runs, in seconds.

    Returns:
        `passed`, and `comparisons`: for each a `name`, what was `expected`, what was `found`, and whether `equal`.

    Raises:
        As `launch`.
    """
    root = checked_path("root", root)
    comparisons: list[dict[str, Any]] = []

    def compare(name: str, expected: object, found: object) -> None:
        comparisons.append({"name": name, "expected": expected, "found": found, "equal": expected == found})

    whole = launch(root / "uninterrupted", default_config(), timeout)
    compare("uninterrupted run", ["completed", 0], [whole["status"], whole["returncode"]])
    broken = launch(root / "interrupted", default_config(fail_after=3), timeout)
    compare("interrupted run", ["failed", 23], [broken["status"], broken["returncode"]])
    compare("steps before the failure", [1, 2, 3], [event["step"] for event in _events(broken, "progress")])
    compare("step of the last checkpoint", 2, (_checkpoint(root / "interrupted") or {}).get("step"))
    resumed = launch(root / "interrupted", default_config(resume=True), timeout)
    compare("resumed run", ["completed", 0], [resumed["status"], resumed["returncode"]])

    hashes = {event["step"]: event["state_hash"] for event in _events(whole, "progress")}
    again = {event["step"]: event["state_hash"] for event in _events(resumed, "progress")}
    restored = _events(resumed, "restored")
    compare("state restored at step 2", [hashes.get(2)], [event["state_hash"] for event in restored])
    compare("steps after the resume", [3, 4, 5, 6, 7, 8], list(again))
    for step in range(3, 9):
        compare(f"state after step {step}", hashes.get(step, "none"), again.get(step))
    expected, found = (_checkpoint(root / name) for name in ("uninterrupted", "interrupted"))
    compare("final checkpoint", [8, digest(expected)], [(found or {}).get("step"), digest(found)])
    return {"passed": all(comparison["equal"] for comparison in comparisons), "comparisons": comparisons}


def _events(record: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [event for event in record["events"] if event["event"] == kind]


def _checkpoint(root: Path) -> dict[str, Any] | None:
    """The checkpoint in a run's folder, or None where there is none or something else is in its place."""
    path = root / "checkpoint.json"
    try:
        # A pipe of that name would be waited for without end.
        return dataclasses.asdict(decode("checkpoint", path.read_bytes())) if path.is_file() else None
    except (OSError, ContractError):
        return None
