"""Ingestion against its peers on one file of telemetry: columns in memory, as ratios, on all cores.

    python benches/ingest.py [--lines 1000000] [--rounds 3] [--scaling 100000 1000000] [--json FILE]

A ratio is peer / ours, the median over rounds that take turns. DuckDB's `read_json` does not validate; the Python peers
do what we do (decode, check the schema, canonical bytes, SHA-256) and are timed on a sample of lines, scaled.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import jsonschema_rs
import orjson

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import firstnan.ingest
from reference.decode import decode as plain_decode

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = {"orjson pipeline": 20_000, "plain Python": 2_000}
TARGETS = {"DuckDB read_json": 3.0, "orjson pipeline": 10.0, "plain Python": 80.0}
STAGES = ("input", "forward", "loss", "backward", "optimizer")


@dataclass(frozen=True)
class Ratio:
    """Median seconds over the whole file, ours and the peer's; `sample` lines of it were timed, where not all."""

    peer: str
    target: float
    ours_s: float
    peer_s: float
    ratio: float
    sample: int | None


def lines(count: int, first: int = 0) -> Iterator[bytes]:
    """Telemetry of about 600 bytes a line, five stages a step."""
    bundle = json.loads((ROOT / "schemas/v1/stage-telemetry.json").read_text(encoding="utf-8"))
    example, random_ = bundle["examples"][0], random.Random(1)
    for index in range(first, first + count):
        order, checked, bad = index % 5, 4096 * (1 + index % 7), 3 if index % 1000 == 3 else 0
        yield orjson.dumps(example | {
            "telemetry_id": f"telemetry-{index:08d}", "tensor_set_id": f"tensor-set-{index:08d}", "stage": STAGES[order],
            "stage_order": order, "state": "OBSERVED", "checked_elements": checked, "finite_elements": checked - bad,
            "nonfinite_elements": bad, "maximum_absolute_finite": random_.lognormvariate(0, 3), "step_id": index // 5,
            "batch_id": f"batch-{index // 5}", "evidence_source_id": f"probe-{STAGES[order]}-v1",
        }) + b"\n"


def write(path: Path, count: int, first: int = 0) -> None:
    with open(path, "wb") as file:
        file.writelines(lines(count, first))


def ours(path: Path) -> int:
    return firstnan.ingest.read(path).total.records


def duck(path: Path) -> int:
    """The same file to Arrow columns by DuckDB."""
    query = duckdb.sql(f"SELECT * FROM read_json('{path}', format='newline_delimited')")
    table = query.to_arrow_table() if hasattr(query, "to_arrow_table") else query.arrow()
    return int(table.num_rows)


def orjson_pipeline(sample: list[bytes]) -> Callable[[], object]:
    """The best of Python: parse, validate in Rust, sorted dump, hash; rows kept as columns would be made of them."""
    bundle = json.loads((ROOT / "schemas/bundle.json").read_text(encoding="utf-8"))
    registry = jsonschema_rs.Registry([(schema["$id"], schema) for schema in bundle["$defs"].values()])
    wanted = bundle["x-firstnan-kinds"]["stage-telemetry"]["schema"]
    schema = next(schema for schema in bundle["$defs"].values() if schema["$id"] == wanted)
    validate = jsonschema_rs.Draft202012Validator(schema, registry=registry).validate

    def run() -> object:
        rows = []
        for line in sample:
            record = orjson.loads(line)
            validate(record)
            rows.append((record, hashlib.sha256(orjson.dumps(record, option=orjson.OPT_SORT_KEYS)).digest()))
        return rows

    return run


def plain_python(sample: list[bytes]) -> Callable[[], object]:
    """The reference of the tests: the whole contract in Python alone."""

    def run() -> object:
        rows: list[Any] = []
        for line in sample:
            record = plain_decode("stage-telemetry", line)
            canonical = json.dumps(json.loads(line), sort_keys=True, separators=(",", ":")).encode()
            rows.append((record, hashlib.sha256(canonical).digest()))
        return rows

    return run


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def comparisons(path: Path, count: int, rounds: int) -> Iterator[Ratio]:
    """Each peer in turn with us."""
    with open(path, "rb") as file:
        sample = list(islice(file, max(SAMPLE.values())))
    peers: dict[str, tuple[Callable[[], object], int | None]] = {"DuckDB read_json": (lambda: duck(path), None)}
    for name, make in (("orjson pipeline", orjson_pipeline), ("plain Python", plain_python)):
        part = sample[:SAMPLE[name]]
        peers[name] = (make(part), len(part))
    assert ours(path) == count
    assert duck(path) == count
    for name, (peer, size) in peers.items():
        scale = count / size if size else 1.0
        timed = [(seconds(lambda: ours(path)), seconds(peer) * scale) for _ in range(rounds)]
        yield Ratio(name, TARGETS[name], statistics.median(a for a, _ in timed), statistics.median(b for _, b in timed),
                    statistics.median(b / a for a, b in timed), size)


@dataclass(frozen=True)
class Scaled:
    """The least microseconds a line, over the rounds, of a file of so many lines."""

    lines: int
    columns_us: float
    store_us: float


def scaled(folder: Path, counts: list[int], rounds: int) -> Iterator[Scaled]:
    """Files of these sizes take turns, so that a busy time of the machine does not fall on one of them alone."""
    paths = {count: folder / f"{count}.jsonl" for count in counts}
    for count, path in paths.items():
        write(path, count)
    store = folder / "store"
    times: dict[int, list[tuple[float, float]]] = {count: [] for count in counts}
    for _ in range(rounds):
        for count, path in paths.items():
            columns = seconds(lambda path=path: ours(path))
            times[count].append((columns, seconds(lambda path=path: firstnan.ingest.ingest(path, store=store))))
            shutil.rmtree(store)
    for count, found in times.items():
        columns, stored = (min(each) / count * 1e6 for each in zip(*found, strict=True))
        yield Scaled(count, columns, stored)


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scaling", type=int, nargs="*", default=[], metavar="LINES", help="also time files of so many lines")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args(argv)
    found: dict[str, Any] = {"lines": arguments.lines, "ratios": [], "us_a_line": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "telemetry.jsonl"
        write(path, arguments.lines)
        found["bytes"] = path.stat().st_size
        print(f"{arguments.lines:,} lines of telemetry, {found['bytes'] / 1e6:,.0f} MB, to columns in memory")
        for one in comparisons(path, arguments.lines, arguments.rounds):
            found["ratios"].append(asdict(one))
            of = f"   ({one.sample:,} lines timed, scaled)" if one.sample else ""
            print(f"{one.peer:20} ours {one.ours_s:7.2f} s   peer {one.peer_s:8.2f} s   ratio {one.ratio:6.1f}   "
                  f"target {one.target:3.0f}{'' if one.ratio >= one.target else '  MISSED'}{of}", flush=True)
        for one in scaled(Path(folder), arguments.scaling, arguments.rounds):
            found["us_a_line"].append(asdict(one))
            print(f"{one.lines:>12,} lines   us a line: {one.columns_us:6.2f} to columns, {one.store_us:6.2f} to a store")
    found["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return found


if __name__ == "__main__":
    main()
