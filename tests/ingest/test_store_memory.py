"""The memory of an ingestion is bounded, whatever the input: measured by the kernel on 1 GiB of lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from telemetry_lines import lines

GIB = 1 << 30
MOST = 512 << 20

CHILD = """
import resource, sys
from firstnan.ingest import ingest
summary = ingest("-", store=sys.argv[1])
print(summary.bytes, summary.lines, summary.records, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def test_a_gibibyte_needs_less_than_512_mebibytes(tmp_path: Path) -> None:
    # Distinct lines, so that nothing of it is known; a pipe, so that no file of that size is needed.
    parts = (lines(first, 20_000, bad_every=5000) for first in range(0, 10_000_000, 20_000))
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
