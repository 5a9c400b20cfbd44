"""One process under a wall-clock limit: nothing of its group outlives the call."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from firstnan.supervisor.exit_codes import exit_code, exit_codes_kept

CHUNK_BYTES = 16_384
POLL_S = 0.02
GRACE_S = 1.0


class Sink(Protocol):
    """Takes what one stream says, and is told its end."""

    def feed(self, chunk: bytes) -> None: ...

    def end(self) -> None: ...


@dataclass(frozen=True)
class Ended:
    """How a process ended: exit code or negative signal, whether the limit ended it, seconds it lived."""

    returncode: int
    timed_out: bool
    wall_s: float


def run_bounded(argv: Sequence[str], folder: Path, timeout: float, stdout: Sink, stderr: Sink) -> Ended:
    """Run `argv` in its own session; at `timeout` seconds terminate its process group, a second later kill it.

    Whatever is left of the group when the process ends is killed too, and so is all of it when this call is
    interrupted. A descendant that starts a session of its own gets away, as from any parent on POSIX.

    Raises:
        ChildProcessError: another part of this process reaps every child, so the exit code is unknown.
        OSError: the process could not be started.
    """
    with exit_codes_kept():
        return _run(argv, folder, timeout, stdout, stderr)


def _run(argv: Sequence[str], folder: Path, timeout: float, stdout: Sink, stderr: Sink) -> Ended:
    began = time.monotonic()
    process = subprocess.Popen(
        argv,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        with process.stdout, process.stderr, selectors.DefaultSelector() as selector:
            for stream, sink in ((process.stdout, stdout), (process.stderr, stderr)):
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ, sink)

            timed_out = False
            due = began + timeout
            while (returncode := exit_code(process.pid)) is None:
                if time.monotonic() >= due:
                    _signal_group(process.pid, signal.SIGKILL if timed_out else signal.SIGTERM)
                    timed_out = True
                    due = time.monotonic() + GRACE_S
                _read(selector, min(POLL_S, max(0.0, due - time.monotonic())))
            wall_s = time.monotonic() - began

            # What the process wrote is in the pipes by now; a straggler may go on writing.
            drained = time.monotonic() + GRACE_S
            while _read(selector, 0.0) and time.monotonic() < drained:
                pass
    finally:
        # The leader is not reaped yet, so the group's number cannot belong to anyone else.
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()
        _await_end_of_group(process.pid)
    stdout.end()
    stderr.end()
    return Ended(returncode, timed_out, wall_s)


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _await_end_of_group(group: int) -> None:
    """Give a killed group its moment to die; a zombie that nobody reaps is not waited for beyond GRACE_S."""
    end = time.monotonic() + GRACE_S
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < end:
            os.killpg(group, 0)
            time.sleep(0.001)


def _read(selector: selectors.BaseSelector, timeout: float) -> bool:
    """Pass on one chunk of each stream that has one; False when none had."""
    ready = selector.select(timeout)
    for key, _ in ready:
        if chunk := os.read(key.fd, CHUNK_BYTES):
            key.data.feed(chunk)
        else:
            selector.unregister(key.fileobj)
    return bool(ready)
