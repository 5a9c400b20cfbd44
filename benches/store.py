"""Telemetry to a store on disk, and DuckDB's `CREATE TABLE AS SELECT * FROM read_json(...)` into a database file.

    python benches/store.py [--lines N] [--rounds N]

Both read the same lines, in turn, with all cores; ours also checks and identifies every record, and syncs what it writes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb

import ingest
from firstnan.ingest import ingest as into

LINES = 1_000_000
ROUNDS = 3
TARGET = 1.0


@dataclass(frozen=True)
class ToDisk:
    """Median seconds of ours and of DuckDB; `ratio` is the median over rounds of DuckDB / ours."""

    lines: int
    megabytes: float
    ours_s: float
    duckdb_s: float
    ratio: float
    ours_megabytes: float
    duckdb_megabytes: float

    @property
    def met(self) -> bool:
        return self.ratio >= TARGET


def measured(lines: int = LINES, rounds: int = ROUNDS) -> ToDisk:
    """Both in turn, each into a new place.

    Raises:
        AssertionError: ours did not take every line.
    """
    with tempfile.TemporaryDirectory(prefix="firstnan-bench-") as name:
        folder = Path(name)
        source, store, database = folder / "telemetry.jsonl", folder / "store", folder / "telemetry.duckdb"
        with open(source, "wb") as file:
            file.writelines(ingest.lines(lines))

        def ours() -> None:
            summary = into(source, store=store)
            assert summary.records == summary.lines == lines, "a line was refused"

        def theirs() -> None:
            with duckdb.connect(str(database)) as connection:
                connection.execute(f"CREATE TABLE telemetry AS SELECT * FROM read_json('{source}')")

        times: list[tuple[float, float]] = []
        for _ in range(rounds):
            shutil.rmtree(store, ignore_errors=True)
            database.unlink(missing_ok=True)
            times.append((seconds(ours), seconds(theirs)))
        return ToDisk(
            lines,
            source.stat().st_size / 1e6,
            statistics.median(ours for ours, _ in times),
            statistics.median(theirs for _, theirs in times),
            statistics.median(theirs / ours for ours, theirs in times),
            sum(path.stat().st_size for path in store.rglob("*") if path.is_file()) / 1e6,
            database.stat().st_size / 1e6,
        )


def seconds(function: Callable[[], object]) -> float:
    os.sync()
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def shown(result: ToDisk) -> str:
    return (f"telemetry to disk, DuckDB / ours {result.ratio:6.2f} x     target {TARGET:5.0f}{'' if result.met else '  MISSED'}"
            f"   ({result.lines:,} lines, {result.megabytes:.0f} MB: ours {result.ours_s:.1f} s, {result.ours_megabytes:.0f} MB;"
            f" DuckDB {result.duckdb_s:.1f} s, {result.duckdb_megabytes:.0f} MB)")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=LINES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    print(shown(measured(arguments.lines, arguments.rounds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
