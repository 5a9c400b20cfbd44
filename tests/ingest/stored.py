"""What a store has, looked at from outside: its listed files and their bytes, its rows, its counts."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from firstnan.ingest import Store

LIMIT_S = 120.0


def listed_files(store: Path) -> dict[str, str]:
    """The segments of the manifest, read without our code, each with the SHA-256 of its bytes."""
    with sqlite3.connect(store / "manifest.sqlite") as connection:
        files = [file for (file,) in connection.execute("SELECT file FROM segments ORDER BY file")]
    connection.close()
    return {file: hashlib.sha256((store / file).read_bytes()).hexdigest() for file in files}


def all_files(store: Path) -> set[str]:
    return {os.fspath(path.relative_to(store)) for path in (store / "segments").rglob("*") if path.is_file()}


def contents(store: Path) -> dict[str, bytes]:
    """The bytes of every file below `segments`."""
    return {file: (store / file).read_bytes() for file in all_files(store)}


def segments(store: Path) -> list[tuple[object, ...]]:
    """What the manifest says of its segments, read without our code."""
    with sqlite3.connect(store / "manifest.sqlite") as connection:
        found = sorted(connection.execute("SELECT file, kind, rows, bytes, path, start FROM segments"))
    connection.close()
    return found


def tables(store: Path) -> dict[str, pa.Table]:
    """Every row of a store by kind; the counts of the manifest must be theirs, and reconcile."""
    with Store.open(store) as opened, opened.snapshot() as snapshot:
        found = {kind: snapshot.table(kind) for kind in snapshot.segments}
        counts = opened.counts()
    assert counts.reconcile
    assert counts.quarantined == len(found.get("quarantine", ()))
    assert counts.records == sum(len(table) for kind, table in found.items() if kind != "quarantine")
    return found


def digests(store: Path) -> Counter[bytes]:
    """How often each record is there, by its digest."""
    found: Counter[bytes] = Counter()
    for kind, table in tables(store).items():
        if kind != "quarantine":
            found.update(table.column("record_sha256").to_pylist())
    return found


def refused(store: Path) -> Counter[bytes]:
    """How often each line is in the quarantine."""
    found = tables(store).get("quarantine")
    return Counter() if found is None else Counter(found.column("raw").to_pylist())


def wait_for(what: Callable[[], Any]) -> Any:
    """The first true value of `what()`; the test fails when none comes."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if value := what():
            return value
        time.sleep(0.005)
    raise AssertionError("what was waited for never came")
