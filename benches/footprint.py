"""What the package costs before it does anything, and what a record costs while it is decoded."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

IMPORTS = 10
DECODE = """
import ctypes, gc, json, pathlib
import firstnan

def run_record(size):
    event = {"event": "failed", "monotonic_s": 1.5, "kind": "InjectedFailure", "message": ""}
    record = json.loads(pathlib.Path(SCHEMA).read_text(encoding="utf-8"))["examples"][1]
    record["config"]["steps"] = 1000
    record["events"] = []
    while len(json.dumps(record)) < size - 200:
        record["events"].append(event)
    record["stderr"] = "x" * (size - len(json.dumps(record)) + len(record["stderr"]))
    return json.dumps(record).encode()

def status(name):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

small, large = run_record(2000), run_record(65536)
assert len(large) == 65536
firstnan.decode("run-record", small)
gc.collect()
ctypes.CDLL(None).malloc_trim(0)
pathlib.Path("/proc/self/clear_refs").write_text("5")
before = status("VmRSS:")
record = firstnan.decode("run-record", large)
print(status("VmHWM:") - before)
"""


def import_seconds(module: str) -> float:
    """The fastest of several child processes that import a module, less the fastest that imports nothing."""

    def best(code: str) -> float:
        times = []
        for _ in range(IMPORTS):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(time.perf_counter() - start)
        return min(times)

    return best(f"import {module}") - best("pass")


def decode_peak_bytes() -> int | None:
    """How far resident memory rises while a run record of 64 KiB with 500 events is decoded, the record itself included.

    In a child process whose freed memory was given back before; None where the system is not Linux with glibc.
    """
    schema = Path(__file__).resolve().parent.parent / "schemas/v1/run-record.json"
    child = subprocess.run(
        [sys.executable, "-c", f"SCHEMA = {str(schema)!r}\n{DECODE}"],
        env={**os.environ, "PYTHONMALLOC": "malloc"},  # so that all of it can be given back
        capture_output=True,
        text=True,
    )
    return int(child.stdout) if child.returncode == 0 else None
