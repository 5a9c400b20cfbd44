"""One worker of Ray against two on the same files, into a store: how much sooner two are done.

    python benches/ray_scaling.py [--files 16] [--lines 100000] [--rounds 3]

Each worker has one core of this machine (all of Ray's processes are held to as many cores as there are workers), since a
worker alone would use a second core to read ahead. Workers are started, and have worked once, before they are timed.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import tempfile
from functools import partial
from pathlib import Path

import ray

from firstnan.ingest.on_ray import ingest_on_ray
from ingest import seconds, write


def timed(workers: int, folder: Path, store: Path) -> float:
    """Seconds of so many workers, on as many cores, for all files of a folder."""
    cores = os.sched_getaffinity(0)
    if len(cores) < workers:
        raise SystemExit(f"{workers} cores are needed, and there are {len(cores)}")
    os.sched_setaffinity(0, sorted(cores)[:workers])
    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, configure_logging=False)
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    try:
        ingest_on_ray(folder, store=store / "first")
        return seconds(partial(ingest_on_ray, folder, store=store / "timed"))
    finally:
        ray.shutdown()
        os.sched_setaffinity(0, cores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--lines", type=int, default=100_000, help="of each file")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    os.environ["RAY_AUTH_MODE"] = "disabled"
    os.environ["RAY_DATA_DISABLE_PROGRESS_BARS"] = "1"
    times: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory(prefix="firstnan-bench-") as name:
        folder = Path(name, "lines")
        folder.mkdir()
        for number in range(arguments.files):
            write(folder / f"{number}.jsonl", arguments.lines, number * arguments.lines)
        for turn in range(arguments.rounds):
            one, two = (timed(workers, folder, Path(name, f"{turn}-{workers}")) for workers in (1, 2))
            times.append((one, two))
            print(f"1 worker {one:7.2f} s   2 workers {two:7.2f} s   ratio {one / two:5.2f}", flush=True)
    print(f"median ratio {statistics.median(one / two for one, two in times):.2f}, "
          f"{arguments.files * arguments.lines:,} lines in {arguments.files} files")


if __name__ == "__main__":
    main()
