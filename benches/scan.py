"""A checkpoint of 2 GiB in page cache: `firstnan.scan` against `cat FILE >/dev/null`, in turn.

    python benches/scan.py [--json FILE]

A ratio is cat's seconds / ours, the median over rounds: 1 is as fast as cat. Needs 2 GiB of disk and of memory, and
deletes its file.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import firstnan

TARGET = 0.7
FILE_BYTES = 2 << 30
TENSORS = 64
ROUNDS = 7


@dataclass(frozen=True)
class Scanned:
    """Medians over the rounds; the command is a process of its own, with the start of Python."""

    cat_s: float
    scan_s: float
    command_s: float
    ratio: float
    command_ratio: float

    @property
    def met(self) -> bool:
        return self.ratio >= TARGET


def write_checkpoint(path: Path) -> None:
    """float32 from a normal distribution, the same in each tensor."""
    size = FILE_BYTES // TENSORS
    header = {
        f"layers.{number}.weight": {
            "dtype": "F32", "shape": [size // 4096, 1024], "data_offsets": [number * size, (number + 1) * size],
        }
        for number in range(TENSORS)
    }  # fmt: skip
    text = json.dumps(header).encode()
    block = np.random.default_rng(0).standard_normal(size // 4, np.float32).tobytes()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _ in range(TENSORS):
            file.write(block)


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def measured() -> Scanned:
    """Each in turn for `ROUNDS` rounds, after one that fills the page cache."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        write_checkpoint(path)

        def cat() -> None:
            subprocess.run(["cat", path], check=True, stdout=subprocess.DEVNULL)

        def scan() -> None:
            scanned = firstnan.scan(path)
            assert scanned.all_finite
            assert scanned.checked == FILE_BYTES // 4

        def command() -> None:
            subprocess.run([sys.executable, "-m", "firstnan", "scan", path], check=True, stdout=subprocess.DEVNULL)

        rounds = [(seconds(cat), seconds(scan), seconds(command)) for _ in range(ROUNDS + 1)][1:]
    return Scanned(
        *(statistics.median(times) for times in zip(*rounds, strict=True)),
        statistics.median(cat / scan for cat, scan, _ in rounds),
        statistics.median(cat / command for cat, _, command in rounds),
    )


def show(result: Scanned) -> None:
    gigabytes = FILE_BYTES / 1e9
    print(f"cat FILE >/dev/null       {gigabytes / result.cat_s:8.1f} GB/s")
    print(f"firstnan.scan(FILE)       {gigabytes / result.scan_s:8.1f} GB/s  {result.ratio:6.2f} of cat   target {TARGET:6.2f}"
          f"{'' if result.met else '  MISSED'}")
    print(f"the command, start and all{gigabytes / result.command_s:8.1f} GB/s  {result.command_ratio:6.2f} of cat", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    print(f"a checkpoint of 2 GiB in page cache, {len(os.sched_getaffinity(0))} cores")
    result = measured()
    show(result)
    if arguments.json:
        arguments.json.write_text(json.dumps(asdict(result)) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
