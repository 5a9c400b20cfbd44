"""How quick asking is: a store of a million records of telemetry, and DuckDB on the raw JSON lines that it was made from.

    python benches/questions.py [--lines 1000000] [--rounds 5] [--json FILE]

Five runs of eight ranks, with the contract of each step; in one step of each run a loss is not finite. Each round asks all
questions in turn; a ratio is peer / ours, the median over rounds. `incidents` and `timeline` judge every step by its contract,
which the peer's SQL does not: it finds the first non-finite stage of a run, by step, stage and rank, in the telemetry alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
import orjson

from firstnan import STAGES
from firstnan.ingest import Snapshot, Store, ingest
from firstnan.ingest.fleet import incidents, timeline
from firstnan.ingest.questions import answer

ROOT = Path(__file__).resolve().parent.parent
LINES = 1_000_000
ROUNDS = 5
RUNS, RANKS = 5, 8
AGGREGATE = "SELECT stage, count(*), sum(nonfinite_elements), max(maximum_absolute_finite) FROM {} GROUP BY stage ORDER BY stage"


@dataclass(frozen=True)
class Asked:
    """Median milliseconds of ours and of the peer, where it has the question; `ratio` is the median of peer / ours."""

    question: str
    ours_ms: float
    peer_ms: float | None = None
    ratio: float | None = None


def bad_step(run: int, steps: int) -> int:
    return steps * (run + 1) // (RUNS + 1)


def lines(count: int) -> Iterator[bytes]:
    """`count` lines of telemetry in envelopes, five stages for each rank and step, and the contracts of the steps."""
    examples = [json.loads((ROOT / f"schemas/v1/{kind}.json").read_text(encoding="utf-8"))["examples"][0]
                for kind in ("training-incident-contract", "training-run-evidence")]  # fmt: skip
    contract, stages = examples[0], examples[1]["stages"]
    finite = {"state": "OBSERVED", "checked_elements": 4096, "finite_elements": 4096, "nonfinite_elements": 0}
    steps = count // (RUNS * RANKS * len(STAGES))
    for run in range(RUNS):
        for step in range(steps):
            scope = {"run_id": f"run-{run}", "step_id": step, "batch_id": f"batch-{step}"}
            yield orjson.dumps(contract | scope) + b"\n"
            for rank in range(RANKS):
                envelope = {"kind": "stage-telemetry", "rank": rank, "world_size": RANKS, "attempt": 0, "sequence": step,
                            "source": f"host-{rank}"}  # fmt: skip
                for order, stage in enumerate(stages):
                    bad = step == bad_step(run, steps) and order >= (2 if rank == 3 else 3)
                    counts = {"finite_elements": 4093, "nonfinite_elements": 3} if bad else {}
                    record = stage | scope | finite | {"maximum_absolute_finite": 1.0 + step % 7 + order} | counts
                    yield orjson.dumps({"envelope": envelope, "record": record}) + b"\n"


def first_nonfinite(connection: duckdb.DuckDBPyConnection, path: Path) -> list[Any]:
    """By hand: the first of each run by step, then stage, then rank."""
    return connection.sql(f"""
        SELECT record.run_id, min((record.step_id, record.stage_order, envelope.rank)) AS first
        FROM read_json('{path}', format = 'newline_delimited')
        WHERE record.nonfinite_elements > 0 GROUP BY ALL ORDER BY ALL""").fetchall()


def aggregate(connection: duckdb.DuckDBPyConnection, path: Path) -> list[Any]:
    raw = f"(SELECT unnest(record) FROM read_json('{path}', format = 'newline_delimited') WHERE record IS NOT NULL)"
    return connection.sql(AGGREGATE.format(raw)).fetchall()


def our_aggregate(snapshot: Snapshot) -> list[Any]:
    with answer(snapshot, AGGREGATE.format("stage_telemetry")) as rows:
        return [tuple(row.values()) for row in rows.read_all().to_pylist()]


def measured(count: int = LINES, rounds: int = ROUNDS) -> list[Asked]:
    """Every question, each of a new snapshot.

    Raises:
        AssertionError: the answers of both differ.
    """
    with tempfile.TemporaryDirectory(prefix="firstnan-bench-") as name:
        path, folder = Path(name) / "telemetry.jsonl", Path(name) / "store"
        with open(path, "wb") as file:
            file.writelines(lines(count))
        summary = ingest(path, store=folder)
        assert summary.quarantined == 0, "a line was refused"

        def ours(ask: Callable[[Snapshot], Any]) -> Callable[[], Any]:
            def asked() -> Any:
                with Store.open(folder) as store, store.snapshot() as snapshot:
                    return ask(snapshot)

            return asked

        def peer(ask: Callable[[duckdb.DuckDBPyConnection, Path], Any]) -> Callable[[], Any]:
            def asked() -> Any:
                with duckdb.connect(":memory:") as connection:
                    return ask(connection, path)

            return asked

        questions: dict[str, tuple[Callable[[], Any], Callable[[], Any] | None]] = {
            "incidents": (ours(incidents), peer(first_nonfinite)),
            "incidents of a run": (ours(lambda snapshot: incidents(snapshot, run="run-2")), None),
            "timeline of a run": (ours(lambda snapshot: timeline(snapshot, "run-2")), None),
            "SQL aggregate": (ours(our_aggregate), peer(aggregate)),
        }
        same(questions)
        return [compared(question, *both, rounds) for question, both in questions.items()]


def same(questions: dict[str, tuple[Callable[[], Any], Callable[[], Any] | None]]) -> None:
    (found, by_hand), (summed, raw) = (questions[name] for name in ("incidents", "SQL aggregate"))
    assert by_hand is not None
    assert raw is not None
    firsts = [(row["run_id"], (row["step_id"], STAGES.index(row["stage"]), row["rank"])) for row in found().to_pylist()]
    assert firsts == by_hand(), "the first non-finite stages differ"
    assert len(firsts) == RUNS
    assert summed() == raw(), "the aggregates differ"


def compared(question: str, ours: Callable[[], Any], peer: Callable[[], Any] | None, rounds: int) -> Asked:
    times = [(milliseconds(ours), None if peer is None else milliseconds(peer)) for _ in range(rounds)]
    both = [(mine, theirs) for mine, theirs in times if theirs is not None]
    median = statistics.median(mine for mine, _ in times)
    if not both:
        return Asked(question, median)
    return Asked(question, median, statistics.median(theirs for _, theirs in both),
                 statistics.median(theirs / mine for mine, theirs in both))  # fmt: skip


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def show(results: list[Asked], count: int) -> None:
    print(f"a store of {count:,} records of telemetry, and DuckDB on its JSON lines, {os.cpu_count()} cores")
    for one in results:
        than = "" if one.peer_ms is None else f"   peer {one.peer_ms:8.0f} ms   ratio {one.ratio:6.1f}"
        print(f"{one.question:20} ours {one.ours_ms:8.0f} ms{than}", flush=True)


def main(argv: list[str] | None = None) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=LINES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args(argv)
    results = measured(arguments.lines, arguments.rounds)
    show(results, arguments.lines)
    found = [asdict(one) for one in results]
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return found


if __name__ == "__main__":
    main()
