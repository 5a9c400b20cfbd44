"""One bounded run of the worker, from its configuration to its run record."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from firstnan.arguments import checked_path, refused_argument
from firstnan.canonical import canonical_evidence, decode
from firstnan.supervisor.configuration import asked_of_worker
from firstnan.supervisor.json_file import atomic_json
from firstnan.supervisor.output import Stderr, Stdout
from firstnan.supervisor.process import run_bounded
from firstnan.supervisor.worker import replace_file

MAX_TIMEOUT_S = 1e9
# The names that the worker's `replace_file` gives.
LEFTOVER = re.compile(r"\.firstnan-[0-9a-f]{16}\.tmp")


def launch(
    root: str | os.PathLike[str],
    config: Mapping[str, Any] | None = None,
    timeout: float = 10.0,
    *,
    _worker: bytes | None = None,
) -> dict[str, Any]:
    """Run the worker in its own process under a wall-clock limit and write what became of it to `root/run.json`.

    Args:
        root: The folder of the run; made where it is missing. One run at a time may hold it.
        config: Fields of `WorkerConfiguration` that differ from `default_config()`.
        timeout: The limit in seconds, above 0. Then the worker is terminated, and killed one second later.
        _worker: Another worker's source, for tests of the bounds.

    Returns:
        The fields of `RunRecord`, equal to `run.json`.

    Raises:
        ContractError: root, config or timeout is out of its bounds.
        BlockingIOError: another run holds `root`.
        RunNotRecorded: the worker has ended and run.json cannot be written; the error has the outcome.
        ChildProcessError: another part of this process reaps every child, so the outcome is unknown.
        OSError: before the worker starts: a file cannot be written, or the process not started.
    """
    asked = asked_of_worker(config)
    folder = checked_path("root", root)
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout <= MAX_TIMEOUT_S:
        raise refused_argument("timeout", "range", "is not a number of seconds in its bounds", f"0 < s <= {MAX_TIMEOUT_S:.0f}")
    worker = resources.files(__package__).joinpath("worker.py").read_bytes() if _worker is None else _worker

    # Not Path.resolve, which answers a loop of links with RuntimeError.
    root = Path(os.path.realpath(folder))
    root.mkdir(parents=True, exist_ok=True)
    with _held(root):
        (root / "run.json").unlink(missing_ok=True)
        replace_file(root / "worker.py", worker)
        atomic_json(root / "config.json", asked)
        stdout, stderr = Stdout(max_events=2 * asked["steps"] + 5), Stderr()
        # -P: a file of root must not stand in for a module.
        argv = [sys.executable, "-P", str(root / "worker.py"), str(os.getpid())]
        ended = run_bounded(argv, root, timeout, stdout, stderr)
        _remove_leftovers(root)

        well = ended.returncode == 0 and not stdout.malformed
        completed = well and stdout.events[-1:] != [] and stdout.events[-1]["event"] == "completed"
        record = {
            "status": "timed_out" if ended.timed_out else "completed" if completed else "failed",
            "returncode": ended.returncode,
            "wall_s": ended.wall_s,
            "events": stdout.events,
            "stderr": stderr.text,
            "worker_hash": hashlib.sha256(worker).hexdigest(),
            "config": asked,
            "malformed_stdout": stdout.malformed,
        }
        decode("run-record", canonical_evidence(record))
        try:
            atomic_json(root / "run.json", record)
        except OSError as error:
            raise RunNotRecorded(root / "run.json", record, error) from error
    return record


class RunNotRecorded(OSError):
    """A worker has ended and `run.json` cannot be written. `record` is what would stand in it, as `launch` returns it."""

    def __init__(self, path: Path, record: dict[str, Any], cause: OSError) -> None:
        words = f"cannot be written ({cause.strerror}); the run is {record['status']}"
        super().__init__(cause.errno, words, str(path))
        self.record = record


def _remove_leftovers(root: Path) -> None:
    """Remove the temporary files of a worker killed while it replaced a file; what is not surely one of them stays."""
    for path in root.glob(".firstnan-*.tmp"):
        with contextlib.suppress(OSError):
            if LEFTOVER.fullmatch(path.name) and stat.S_ISREG(path.lstat().st_mode):
                path.unlink()


@contextlib.contextmanager
def _held(root: Path) -> Iterator[None]:
    """Hold the folder against other runs; the kernel lets go when this process ends."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(folder)
