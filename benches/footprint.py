"""What the package costs before it does anything, and what a record costs while it is decoded."""

from __future__ import annotations

import json
import subprocess
import sys
import time

IMPORTS = 10


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


def decode_growth_bytes() -> int:
    """How much the peak of the process grows over decoding a 64 KiB record ten times, in a child process."""
    code = """
import resource, firstnan
event = '{"event":"failed","monotonic_s":1,"kind":"K","message":"m"}'
line = event.encode() + b" " * (65536 - len(event))
firstnan.decode("worker-event", event)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(10):
    firstnan.decode("worker-event", line)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""
    return int(json.loads(subprocess.check_output([sys.executable, "-c", code], text=True)))

