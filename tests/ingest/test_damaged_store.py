"""Damaged segments: whoever reads one says which and what is wrong, and nothing of the store is changed."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fleets import fleet
from stored import digests, listed_files
from telemetry_lines import lines

from firstnan.cli.command_line import main
from firstnan.ingest import Snapshot, Store, StoreError, compact, ingest, retry
from firstnan.ingest.export import export_lines, export_table
from firstnan.ingest.fleet import incidents, timeline, verdicts
from firstnan.ingest.questions import answer, write_answer

Change = Callable[[pa.Table], pa.Table]
TELEMETRY, REFUSED = "stage-telemetry", "quarantine"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of several segments of telemetry, of contracts, and of refused lines."""
    folder = tmp_path_factory.mktemp("whole")
    Store.create(folder / "store", shard_bytes=60_000).close()
    of_fleet = b"".join(json.dumps(one).encode() + b"\n" for one in fleet(1, 6, 2))
    for name, first in (("a", 0), ("b", 300)):
        (folder / f"{name}.jsonl").write_bytes(lines(first, 300, bad_every=40) + of_fleet)
    ingest([folder / "a.jsonl", folder / "b.jsonl"], store=folder / "store")
    return folder / "store"


@pytest.fixture
def store(tmp_path: Path, whole: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "store"))


def segment_of(store: Path, kind: str, place: int) -> Path:
    with Store.open(store) as opened:
        return store / opened.listed(kind)[place].segment.file


def rewritten(store: Path, file: Path, change: Change, *, older: bool = False) -> Path:
    """The segment with other contents, which the manifest lists; of an older firstnan where that is said."""
    new = file.parents[2] / "0123456789abcdef" / file.parent.name / file.name if older else file
    table = change(pq.read_table(file))
    file.unlink()
    new.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, new)
    with sqlite3.connect(store / "manifest.sqlite") as connection:
        names = [os.fspath(path.relative_to(store)) for path in (new, file)]
        connection.execute("UPDATE segments SET file = ?, bytes = ? WHERE file = ?", (names[0], new.stat().st_size, names[1]))
    connection.close()
    return new


def without(*names: str) -> Change:
    return lambda table: table.drop_columns([name for name in names if name in table.column_names])


def with_other_type(name: str) -> Change:
    def change(table: pa.Table) -> pa.Table:
        return table.set_column(table.column_names.index(name), name, pa.array([[1]] * len(table)))

    return change


def flipped(store: Path, file: Path) -> Path:
    """One bit of a page differs; its length does not."""
    data = bytearray(file.read_bytes())
    page = pq.ParquetFile(file).metadata.row_group(0).column(3)
    data[page.data_page_offset + page.total_compressed_size - 3] ^= 1
    file.write_bytes(data)
    return file


def removed(_: Path, file: Path) -> Path:
    file.unlink()
    return file


def cut(_: Path, file: Path) -> Path:
    file.write_bytes(file.read_bytes()[:-100])
    return file


DAMAGES: dict[str, tuple[Callable[[Path, Path], Path], str, str]] = {
    "missing": (removed, "missing", "is not there"),
    "cut": (cut, "cut", "the manifest says"),
    "flipped": (flipped, "unreadable", "cannot be read"),
    "identity": (lambda *at: rewritten(*at, without("record_sha256", "raw")), "unreadable", "lacks the column"),
    "older identity": (lambda *at: rewritten(*at, without("record_sha256", "raw"), older=True), "unreadable", "lacks the column"),
    "older type": (lambda *at: rewritten(*at, with_other_type("line_number"), older=True), "unreadable", "cannot be read"),
    "rows": (lambda *at: rewritten(*at, lambda table: table.slice(1)), "unreadable", "rows; the manifest says"),
}  # fmt: skip


def asked(snapshot: Snapshot, question: str, folder: Path) -> None:
    with answer(snapshot, question) as rows:
        write_answer(rows, os.fspath(folder / "answer"), "parquet")


# What reads every column and row of telemetry, or of the quarantine.
READS: dict[str, dict[str, Callable[[Snapshot, Path], Any]]] = {
    TELEMETRY: {
        "table": lambda snapshot, _: snapshot.table(TELEMETRY),
        "batches": lambda snapshot, _: list(snapshot.batches(TELEMETRY)),
        "sql": lambda snapshot, folder: asked(snapshot, "FROM stage_telemetry", folder),
        "incidents": lambda snapshot, _: incidents(snapshot),
        "timeline": lambda snapshot, _: timeline(snapshot, "run-1"),
        "verdicts": lambda snapshot, _: list(verdicts(snapshot)),
    },
    REFUSED: {
        "sql": lambda snapshot, folder: asked(snapshot, "FROM quarantine", folder),
        "lines": lambda snapshot, _: export_lines(snapshot, None, lambda _: None),
        "export": lambda snapshot, folder: export_table(snapshot, os.fspath(folder / "export.parquet")),
    },
}
# Of every column, or of the rows of one run: a question is right where it does not touch what is damaged; DuckDB does not
# look at the checksums of pages, nor a question at the number of rows.
PARTLY = {(name, damage) for damage in ("flipped", "rows") for name in ("sql", "table", "incidents", "timeline", "verdicts")}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("kind", READS)
def test_whoever_reads_a_damaged_segment_names_it(tmp_path: Path, store: Path, kind: str, place: int, damage: str) -> None:
    harm, of, words = DAMAGES[damage]
    file = harm(store, segment_of(store, kind, place))
    before = sorted(os.listdir(tmp_path))
    for name, read in READS[kind].items():
        if (name, damage) in PARTLY:
            continue
        with Store.open(store) as opened, opened.snapshot() as snapshot, pytest.raises(StoreError) as refused:
            read(snapshot, tmp_path)
        assert (refused.value.kind, refused.value.path) == (of, os.fspath(file)), name
        assert words in str(refused.value), name
    assert sorted(os.listdir(tmp_path)) == before


def manifest(store: Path) -> list[str]:
    with sqlite3.connect(store / "manifest.sqlite") as connection:
        dump = list(connection.iterdump())
    connection.close()
    return dump


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", READS)
def test_what_rewrites_segments_refuses_a_damaged_one_and_changes_nothing(store: Path, kind: str, damage: str) -> None:
    harm, of, words = DAMAGES[damage]
    file = harm(store, segment_of(store, kind, -1))
    before = manifest(store), {path: path.read_bytes() for path in (store / "segments").rglob("*.parquet")}
    for rewrite in (compact, lambda opened: retry(opened, kind="stage-message")) if kind == REFUSED else (compact,):
        with Store.open(store) as opened, pytest.raises(StoreError) as refused:
            rewrite(opened)
        assert (refused.value.kind, refused.value.path) == (of, os.fspath(file))
        assert words in str(refused.value)
        assert manifest(store) == before[0]
        assert all(path.read_bytes() == data for path, data in before[1].items())


def test_a_part_of_the_identity_that_an_older_version_did_not_write_is_null(store: Path) -> None:
    found = set(digests(store))
    with Store.open(store) as opened:
        rows = opened.counts().records
    rewritten(store, segment_of(store, TELEMETRY, 0), without("envelope_source"), older=True)
    with Store.open(store) as opened:
        done = compact(opened)
        counts = opened.counts()
    assert set(digests(store)) == found
    assert counts.records == rows - done.duplicates
    assert done.duplicates > 0
    assert all("0123456789abcdef" not in file for file in listed_files(store))


@pytest.mark.parametrize("command", [
    ["incidents"], ["timeline", "run-1"], ["compact"], ["sql", "SELECT max(record_sha256) FROM stage_telemetry"],
])  # fmt: skip
@pytest.mark.parametrize("place", [0, -1])
def test_commands_end_with_the_name_of_the_segment(
    store: Path, command: list[str], place: int, capsys: pytest.CaptureFixture[str]
) -> None:
    file = rewritten(store, segment_of(store, TELEMETRY, place), without("record_sha256"))
    assert main([command[0], os.fspath(store), *command[1:]]) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (
        f"refused (unreadable): {file}: a segment of the store lacks the column record_sha256\n", ""
    )  # fmt: skip


def test_a_question_that_is_mistaken_does_not_read_the_store(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstnan.ingest.snapshot.batches_of", lambda *_, **__: pytest.fail("rows were read"))
    with Store.open(store) as opened, opened.snapshot() as snapshot:
        for question in ("SELEC 1", "FROM nothing", "SELECT nothing FROM stage_telemetry"):
            with pytest.raises(ValueError, match=r"nothing|SELEC"), answer(snapshot, question):
                pass
