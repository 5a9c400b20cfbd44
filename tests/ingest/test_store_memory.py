"""The memory of the store is bounded, whatever the input: measured by the kernel on 1 GiB of lines, and on long ones."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

from telemetry_lines import line, lines

from firstnan.ingest import ingest

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


REWRITE = """
import sys
from firstnan.ingest import Store, compact, retry
with Store.open(sys.argv[1]) as store:
    done = {"compact": compact, "retry": retry}[sys.argv[2]](store)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(done.after if sys.argv[2] == "compact" else done.lines, int(peak.split()[1]) * 1024)
"""


def test_rewriting_a_quarantine_of_long_lines_needs_no_more(tmp_path: Path) -> None:
    """Lines that pack well, so that one segment has far more text than bytes: 384 MiB in one."""
    source, store, count = tmp_path / "junk", tmp_path / "store", 6144
    with source.open("wb") as file:
        for number in range(count):
            file.write(b"%065535d\n" % number)
    assert ingest(source, store=store).quarantined == count
    for what, answer in (("compact", 1), ("retry", count)):
        done = subprocess.run([sys.executable, "-c", REWRITE, store, what], capture_output=True, check=True)
        found, peak = map(int, done.stdout.split())
        assert found == answer
        assert peak < MOST, f"{what}: {peak / (1 << 20):.0f} MiB"
