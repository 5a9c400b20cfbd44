"""The memory of an ingestion is bounded, whatever the input: measured by the kernel on 1 GiB of lines."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

from telemetry_lines import line, lines

GIB = 1 << 30
MOST = 512 << 20

CHILD = """
import sys
from firstnan.ingest import ingest
summary = ingest("-", store=sys.argv[1])
# Not ru_maxrss: a process starts with that of the one that forked it. VmHWM begins with exec.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(summary.bytes, summary.lines, summary.records, int(peak.split()[1]) * 1024)
"""


def test_a_gibibyte_needs_less_than_512_mebibytes(tmp_path: Path) -> None:
    # A distinct line in each part, so that no shard is known; a pipe, so that no file of that size is needed.
    same = lines(0, 20_000, bad_every=5000)
    parts = (line(number) + same for number in itertools.count(1_000_000))
    with subprocess.Popen([sys.executable, "-c", CHILD, os.fspath(tmp_path / "store")], stdin=-1, stdout=-1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        written = 0
        while written < GIB:
            written += process.stdin.write(next(parts))
        process.stdin.close()
        size, count, records, peak = map(int, process.stdout.read().split())
    assert process.returncode == 0
    assert size == written >= GIB
    assert count > records > 1_700_000
    assert peak < MOST, f"{peak / (1 << 20):.0f} MiB"
