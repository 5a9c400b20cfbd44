"""The same text again, grown, under other names, compressed: what is known adds nothing, what is new is added."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from stored import digests, listed_files, refused, tables
from telemetry_lines import line, lines

from firstnan import ContractError
from firstnan.ingest import Store, StoreError, Summary, ingest, read

SHARD = 60_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store that cuts small shards."""
    Store.create(tmp_path / "store", shard_bytes=SHARD).close()
    return tmp_path / "store"


def taken(source: Path, store: Path, **options: object) -> Summary:
    summary = ingest(source, store=store, **options)  # type: ignore[arg-type]
    assert summary.reconcile
    assert not summary.failed
    return summary


def test_every_line_is_in_one_place(tmp_path: Path, store: Path) -> None:
    text = lines(0, 500, bad_every=50, blank_every=33)
    (tmp_path / "a.jsonl").write_bytes(text)
    summary = taken(tmp_path / "a.jsonl", store)
    whole = read(tmp_path / "a.jsonl")
    assert (summary.lines, summary.records, summary.quarantined, summary.blank, summary.known) == (
        500, whole.total.records, whole.total.quarantined, whole.total.blank, 0,
    )  # fmt: skip
    assert summary.bytes == len(text)
    found = tables(store)
    assert found["stage-telemetry"].equals(whole.table("stage-telemetry"))
    assert found["quarantine"].equals(whole.quarantine)
    assert summary.kinds == {"stage-telemetry": summary.records}


def test_same_file_twice_adds_nothing(tmp_path: Path, store: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(0, 500, bad_every=50))
    taken(tmp_path / "a.jsonl", store)
    before = listed_files(store)
    again = taken(tmp_path / "a.jsonl", store)
    assert (again.known, again.records, again.shards) == (500, 0, 0)
    assert listed_files(store) == before


def packed(text: bytes, form: str) -> bytes:
    if form == "gzip":
        return gzip.compress(text[: len(text) // 2]) + gzip.compress(text[len(text) // 2 :])
    if form == "zstd":
        return zstandard.compress(text[: len(text) // 2]) + zstandard.compress(text[len(text) // 2 :])
    return text


@pytest.mark.parametrize("form", ["plain", "gzip", "zstd"])
@pytest.mark.parametrize("first", ["plain", "gzip", "zstd"])
def test_same_text_under_another_name_and_form_adds_nothing(tmp_path: Path, store: Path, first: str, form: str) -> None:
    text = lines(0, 300, bad_every=50) + b'{"no": "end"}'
    (tmp_path / "a").write_bytes(packed(text, first))
    (tmp_path / "b").write_bytes(packed(text, form))
    taken(tmp_path / "a", store)
    before = listed_files(store)
    again = taken(tmp_path / "b", store)
    assert (again.known, again.lines) == (301, 301)
    assert listed_files(store) == before


def test_same_rows_twice_add_nothing(tmp_path: Path, store: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(0, 300))
    table = read(tmp_path / "a.jsonl").table("stage-telemetry")
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=100)
    assert taken(tmp_path / "a.parquet", store).records == 300
    before = listed_files(store)
    with pa.ipc.new_file(tmp_path / "b.arrow", table.schema) as sink:
        sink.write_table(table, max_chunksize=7)
    for again in (tmp_path / "a.parquet", tmp_path / "b.arrow"):
        assert (taken(again, store).known, listed_files(store)) == (300, before)
    assert set(digests(store)) == set(table.column("record_sha256").to_pylist())


@pytest.mark.parametrize("form", ["plain", "gzip", "zstd"])
def test_grown_file_goes_on_and_its_last_line_becomes_what_it_is(tmp_path: Path, store: Path, form: str) -> None:
    text = lines(0, 400, bad_every=70)
    source = tmp_path / "a.jsonl"
    for end in (10_000, 10_001, 155_555, 155_555, len(text) - 1, len(text)):
        source.write_bytes(packed(text[:end], form))
        taken(source, store)
        whole = read(source)
        assert digests(store) == Counter(whole.table("stage-telemetry").column("record_sha256").to_pylist())
        assert refused(store) == Counter(whole.quarantine.column("raw").to_pylist())
    found = tables(store)["stage-telemetry"]
    assert found.column("line_number").to_pylist() == whole.table("stage-telemetry").column("line_number").to_pylist()
    assert found.column("line_offset").to_pylist() == whole.table("stage-telemetry").column("line_offset").to_pylist()
    # Its whole text under another name, which was never cut like this, is known all the same.
    (tmp_path / "b.jsonl").write_bytes(text)
    assert taken(tmp_path / "b.jsonl", store).known == 400


def test_last_line_without_end_is_forgotten_where_the_rest_is_known_from_elsewhere(tmp_path: Path, store: Path) -> None:
    text = lines(0, 100)
    (tmp_path / "whole.jsonl").write_bytes(text)
    taken(tmp_path / "whole.jsonl", store)
    (tmp_path / "part.jsonl").write_bytes(text[:5_100])
    taken(tmp_path / "part.jsonl", store)
    assert sum(refused(store).values()) == 1
    (tmp_path / "part.jsonl").write_bytes(text)
    assert taken(tmp_path / "part.jsonl", store).known == 100
    assert not refused(store)


def test_last_line_without_end_stays_while_another_file_still_ends_so(tmp_path: Path, store: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(lines(0, 3) + b'{"half": ')
        taken(tmp_path / name, store)
    assert sum(refused(store).values()) == 1
    (tmp_path / "a").write_bytes(lines(0, 3) + b'{"half": 1}\n')
    taken(tmp_path / "a", store)
    assert set(refused(store)) == {b'{"half": ', b'{"half": 1}'}
    (tmp_path / "b").write_bytes(lines(0, 3) + b'{"half": 2}\n')
    taken(tmp_path / "b", store)
    assert set(refused(store)) == {b'{"half": 1}', b'{"half": 2}'}


def test_file_that_was_written_anew_loses_nothing(tmp_path: Path, store: Path) -> None:
    source = tmp_path / "one.json"
    for number in range(3):
        source.write_bytes(line(number).rstrip(b"\n"))
        assert taken(source, store).records == 1
    assert sum(digests(store).values()) == 3


def test_given_kind_is_part_of_what_is_known(tmp_path: Path, store: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(0, 10))
    assert taken(tmp_path / "a.jsonl", store, kind="stage-message").quarantined == 10
    assert taken(tmp_path / "a.jsonl", store).records == 10
    assert taken(tmp_path / "a.jsonl", store).known == 10
    with pytest.raises(ContractError, match="kind"):
        ingest(tmp_path / "a.jsonl", store=store, kind="no-such-kind")


def test_standard_input(tmp_path: Path, store: Path) -> None:
    argv = [sys.executable, "-m", "firstnan", "ingest", "-", "--store", os.fspath(store)]
    for expected in ("100", "0"):
        ended = subprocess.run(argv, input=lines(0, 100) + b"{}", capture_output=True)
        assert ended.returncode == (1 if expected == "100" else 0)
        assert ended.stderr == b""
    assert sum(digests(store).values()) == 100
    assert sum(refused(store).values()) == 1


def test_unreadable_source_is_told_and_the_others_are_taken(tmp_path: Path, store: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines(0, 200))[:-400])
    (tmp_path / "b.jsonl").write_bytes(lines(1000, 10))
    summary = ingest([tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl"], store=store)
    assert summary.reconcile
    ((name, words),) = summary.failed
    assert name.endswith("a.jsonl.gz")
    assert "a.jsonl.gz" in words
    assert summary.records > 10
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines(0, 200)))
    assert not ingest([tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl"], store=store).failed
    assert digests(store) == Counter(
        read([tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl"]).table("stage-telemetry").column("record_sha256").to_pylist()
    )


def test_long_lines_go_to_the_quarantine_with_their_beginning(tmp_path: Path) -> None:
    Store.create(tmp_path / "store", shard_bytes=SHARD, max_line_bytes=1000).close()
    (tmp_path / "a.jsonl").write_bytes(line(1) + b'{"a": "' + b"x" * 50_000 + b'"}\n' + line(2))
    summary = taken(tmp_path / "a.jsonl", tmp_path / "store")
    assert (summary.records, summary.quarantined) == (2, 1)
    (row,) = tables(tmp_path / "store")["quarantine"].to_pylist()
    assert (len(row["raw"]), row["raw_bytes"]) == (1000, 50_009)
    assert taken(tmp_path / "a.jsonl", tmp_path / "store").known == 3


def test_new_store_needs_an_empty_place(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(line(1))
    with pytest.raises(StoreError, match="not a store of firstnan, and not empty") as caught:
        ingest(tmp_path / "a.jsonl", store=tmp_path)
    assert caught.value.kind == "not_a_store"
    (tmp_path / "empty").mkdir()
    taken(tmp_path / "a.jsonl", tmp_path / "empty")
    taken(tmp_path / "a.jsonl", tmp_path / "some" / "where" / "new")


def test_store_may_be_moved(tmp_path: Path, store: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(0, 100))
    taken(tmp_path / "a.jsonl", store)
    odd = tmp_path / "a store [of] 'odd' * name? %20"
    shutil.move(store, odd)
    assert taken(tmp_path / "a.jsonl", odd).known == 100
    with Store.open(odd) as opened, opened.snapshot() as snapshot, snapshot.connect() as connection:
        assert connection.sql("SELECT count(*) FROM stage_telemetry").fetchall() == [(100,)]


def test_text_from_an_open_file(tmp_path: Path, store: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(0, 100))
    with open(tmp_path / "a.jsonl", "rb") as file:
        assert isinstance(file, io.BufferedReader)
        file.readline()
        assert ingest(file, store=store).records == 99
