"""A finished run, and a look at the processes of one that still goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

LIMIT_S = 120.0


class Run(NamedTuple):
    root: Path
    record: dict[str, Any]

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.record["events"] if event["event"] == kind]


def is_running(pid: int) -> bool:
    """Whether the process still executes; a zombie that nobody has reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def workers_of(root: Path) -> list[int]:
    """The processes that run the worker under `root`."""
    script, found = os.fsencode(root / "worker.py"), []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and script in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return [pid for pid in found if is_running(pid)]


def wait_for(what: Callable[[], Any]) -> Any:
    """The first true value of `what()`; the test fails when none comes."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if value := what():
            return value
        time.sleep(0.002)
    raise AssertionError("what was waited for never came")
