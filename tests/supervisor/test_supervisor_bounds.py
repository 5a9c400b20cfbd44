"""Workers that misbehave: what they write is bounded and judged, and none outlives its run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from observed import LIMIT_S, is_running

import firstnan
from firstnan.supervisor import default_config, launch

STARTED = {"event": "started", "monotonic_s": 1.5, "pid": 7, "backend": "cpu", "device_count": 1}
COMPLETED = {"event": "completed", "monotonic_s": 2.5, "step": 8, "state_hash": "0" * 64}


def line(event: dict[str, Any]) -> bytes:
    return json.dumps(event).encode() + b"\n"


def writer(stdout: bytes, stderr: bytes = b"", code: int = 0) -> bytes:
    return (
        f"import sys\nsys.stdout.buffer.write({stdout!r})\nsys.stderr.buffer.write({stderr!r})\n"
        f"sys.stdout.flush()\nsys.exit({code})\n"
    ).encode()


@pytest.mark.parametrize(
    ("stdout", "code", "status"),
    [
        (line(STARTED) + line(COMPLETED), 0, "completed"),
        (line(COMPLETED), 0, "completed"),
        (line(COMPLETED)[:-1], 0, "completed"),
        (line(COMPLETED), 1, "failed"),
        (line(COMPLETED), 23, "failed"),
        (line(STARTED), 0, "failed"),
        (b"", 0, "failed"),
        (line(COMPLETED) + line(STARTED), 0, "failed"),
        (b"hello\n" + line(COMPLETED), 0, "failed"),
        (line(COMPLETED) + b"\n", 0, "failed"),
        (line(STARTED) * 21 + line(COMPLETED), 0, "failed"),
        (line(STARTED) * 20 + line(COMPLETED), 0, "completed"),
    ],
)
def test_status(tmp_path: Path, stdout: bytes, code: int, status: str) -> None:
    record = launch(tmp_path, None, LIMIT_S, _worker=writer(stdout, code=code))
    assert (record["status"], record["returncode"]) == (status, code)


MALFORMED = [
    b"not JSON",
    b"",
    b"{",
    b"[]",
    b'{"event":"started"}',
    line({**STARTED, "more": 1})[:-1],
    line({**STARTED, "event": "begun"})[:-1],
    line({**STARTED, "monotonic_s": float("nan")})[:-1],
    line({**STARTED, "pid": True})[:-1],
    line({**STARTED, "pid": 7.0})[:-1],
    line({**STARTED, "backend": "cpu\n"})[:-1],
    line(STARTED)[:-2] + b',"pid":8}',
    line(STARTED)[:-1] + b"{}",
    line(COMPLETED)[:-2],
    b"\xff\xfe \xe2\x82",
    b"\xed\xa0\x80",
    line({"event": "failed", "monotonic_s": 1, "kind": "X", "message": "\ud800"})[:-1],
    b"\xef\xbb\xbf" + line(STARTED)[:-1],
    b" " * 70_000 + line(STARTED)[:-1],
]


def test_malformed_lines_are_kept_in_order_beside_the_events(tmp_path: Path) -> None:
    stdout = line(STARTED) + b"\n".join(MALFORMED) + b"\n" + line(COMPLETED)
    record = launch(tmp_path, None, LIMIT_S, _worker=writer(stdout))
    assert record["status"] == "failed"
    assert record["events"] == [STARTED, COMPLETED]
    assert record["malformed_stdout"] == [bad.decode("utf-8", "backslashreplace")[:1024] for bad in MALFORMED]
    assert json.loads((tmp_path / "run.json").read_bytes()) == record


def test_end_of_stderr_is_kept(tmp_path: Path) -> None:
    record = launch(tmp_path, None, LIMIT_S, _worker=writer(b"", b"start" + b"x" * 300_000 + b"\xff\x00 end"))
    assert len(record["stderr"]) == 16_384
    assert record["stderr"].endswith("xxx\\xff\x00 end")


def test_many_malformed_lines_are_counted_out(tmp_path: Path) -> None:
    many = b"".join(b"%d\n" % number for number in range(100_000))
    record = launch(tmp_path, None, LIMIT_S, _worker=writer(many))
    assert record["malformed_stdout"] == [str(number) for number in range(64)]


FLOODS = {
    "one line of 1 GiB": b"import os\nfor _ in range(1024): os.write(1, b'x' * 2**20)\n",
    "lines for ever": b"import os\nwhile True: os.write(1, b'{\\n' * 2**19)\n",
    "events for ever": b"import os\nwhile True: os.write(1, " + repr(line(STARTED)).encode() + b" * 1000)\n",
    "1 GiB of stderr": b"import os\nfor _ in range(1024): os.write(2, b'x' * 2**20)\n",
}

# The limit holds for the supervisor, which must not need more, and for the worker that it starts.
LAUNCH_IN_LITTLE_MEMORY = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (400 * 2**20, 400 * 2**20))
from firstnan.supervisor import launch
record = launch(sys.argv[1], None, float(sys.argv[2]), _worker=sys.stdin.buffer.read())
print(json.dumps([record["status"], len(record["events"]), len(record["malformed_stdout"]), len(record["stderr"])]))
"""


@pytest.mark.parametrize(
    ("flood", "limit", "expected"),
    [
        ("one line of 1 GiB", LIMIT_S, ["failed", 0, 1, 0]),
        ("lines for ever", 2.0, ["timed_out", 0, 64, 0]),
        ("events for ever", 2.0, ["timed_out", 21, 64, 0]),
        ("1 GiB of stderr", LIMIT_S, ["failed", 0, 0, 16_384]),
    ],
)
def test_flood_is_held_in_little_memory(tmp_path: Path, flood: str, limit: float, expected: list[Any]) -> None:
    argv = [sys.executable, "-c", LAUNCH_IN_LITTLE_MEMORY, str(tmp_path), str(limit)]
    ended = subprocess.run(argv, input=FLOODS[flood], capture_output=True, check=True)
    assert json.loads(ended.stdout) == expected
    firstnan.decode("run-record", (tmp_path / "run.json").read_bytes())


STUBBORN = b"""
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
with open("pids", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
"""


@pytest.mark.parametrize(
    ("then", "status", "returncode"),
    [
        (b"time.sleep(3600)", "timed_out", -9),
        (b"os.close(1); os.close(2); time.sleep(3600)", "timed_out", -9),
        (b"os.kill(os.getpid(), signal.SIGSTOP)", "timed_out", -9),
        (b"sys.exit(5)", "failed", 5),
        (b"os.kill(os.getpid(), signal.SIGSEGV)", "failed", -11),
    ],
)
def test_nothing_of_the_group_outlives_the_run(tmp_path: Path, then: bytes, status: str, returncode: int) -> None:
    limit = 2.0 if status == "timed_out" else LIMIT_S
    record = launch(tmp_path, None, limit, _worker=STUBBORN + then)
    assert (record["status"], record["returncode"]) == (status, returncode)
    leader, grandchild = map(int, (tmp_path / "pids").read_text().split())
    assert not is_running(leader)
    assert not is_running(grandchild)


def test_exit_with_0_after_the_limit_is_no_success(tmp_path: Path) -> None:
    late = b"import signal, sys, time\n" + b"signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
    record = launch(tmp_path, None, 2.0, _worker=late + writer(line(COMPLETED))[:-12] + b"time.sleep(3600)\n")
    assert (record["status"], record["returncode"]) == ("timed_out", 0)
    assert record["events"] == [COMPLETED]


def test_descendant_in_another_session_does_not_hold_the_run(tmp_path: Path) -> None:
    escaping = b"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(5)"], start_new_session=True)
"""
    assert launch(tmp_path, None, LIMIT_S, _worker=escaping)["status"] == "failed"


def test_a_module_in_root_does_not_stand_in(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(99)")
    record = launch(tmp_path, default_config(), LIMIT_S, _worker=b"import json\n")
    assert record["returncode"] == 0
