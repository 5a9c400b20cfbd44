"""Compaction: few segments, each record once, while readers, writers and sweeps of other processes go on."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stored import all_files, digests, listed_files, refused, tables
from telemetry_lines import line, lines, record

from firstnan.ingest import Store, StoreError, compact, ingest, retry, sweep

SHARD = 60_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two files that overlap, in small shards, with a last line that has no end."""
    Store.create(tmp_path / "store", shard_bytes=SHARD).close()
    (tmp_path / "a.jsonl").write_bytes(lines(0, 500, bad_every=40, blank_every=33))
    (tmp_path / "b.jsonl").write_bytes(lines(250, 500, bad_every=40) + line(7).rstrip())
    ingest([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], store=tmp_path / "store")
    return tmp_path / "store"


def compacted(store: Path, **options: int) -> object:
    with Store.open(store) as opened:
        return compact(opened, **options)


def test_each_record_is_once_in_few_segments(store: Path) -> None:
    records, lines_refused = digests(store), refused(store)
    counts = Store.open(store).counts()
    with Store.open(store) as opened:
        done = compact(opened)
        after = opened.counts()
    repeated = sum(records.values()) - len(records)
    # The last line of b.jsonl is left alone, though it is record 7 again.
    assert done.duplicates == repeated - 1 == after.duplicates
    assert (after.lines, after.blank, after.quarantined) == (counts.lines, counts.blank, counts.quarantined)
    assert after.reconcile
    assert set(digests(store)) == set(records)
    assert refused(store) == lines_refused
    assert done.after == 3 < done.before
    assert all_files(store) == set(listed_files(store))
    again = compacted(store)
    assert (again.before, again.after, again.duplicates) == (3, 3, 0)  # type: ignore[attr-defined]


def test_known_text_is_still_known(tmp_path: Path, store: Path) -> None:
    compacted(store)
    before = listed_files(store)
    assert ingest([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], store=store).known == 1001
    assert listed_files(store) == before
    with open(tmp_path / "b.jsonl", "ab") as file:
        file.write(b"\n" + line(9000))
    assert ingest(tmp_path / "b.jsonl", store=store).records == 2
    compacted(store)
    assert max(digests(store).values()) == 1


def test_same_segments_give_the_same_bytes(tmp_path: Path, store: Path) -> None:
    other = tmp_path / "other"
    Store.create(other, shard_bytes=SHARD).close()
    for name in ("b.jsonl", "a.jsonl"):  # committed in another order
        ingest(tmp_path / name, store=other)
    for each in (store, other):
        compacted(each)
    assert listed_files(store) == listed_files(other)


def test_rows_keep_the_order_of_their_lines(store: Path) -> None:
    compacted(store)
    found = tables(store)["stage-telemetry"]
    rows = list(zip(found.column("line_source").to_pylist(), found.column("line_number").to_pylist(), strict=True))
    assert rows == sorted(rows)


def test_target_bounds_what_is_merged(store: Path) -> None:
    sizes = {file: (store / file).stat().st_size for file in listed_files(store) if "stage-telemetry" in file}
    done = compacted(store, target_bytes=3 * max(sizes.values()))
    assert 3 < done.after < done.before  # type: ignore[attr-defined]
    assert max(digests(store).values()) <= 2


def test_same_record_of_two_senders_is_two(tmp_path: Path, store: Path) -> None:
    envelope = {"kind": "stage-telemetry", "rank": 0, "world_size": 2, "attempt": 0, "sequence": 1, "source": "h"}
    sent = [json.dumps({"envelope": envelope | {"rank": rank}, "record": record(1)}) for rank in (0, 1, 1)]
    (tmp_path / "sent.jsonl").write_text("\n".join(sent) + "\n")
    other = tmp_path / "other"
    ingest(tmp_path / "sent.jsonl", store=other)
    assert compacted(other).duplicates == 1  # type: ignore[attr-defined]
    assert sorted(tables(other)["stage-telemetry"].column("envelope_rank").to_pylist()) == [0, 1]


READER = """
import sys
from firstnan.ingest import Store
with Store.open(sys.argv[1]) as store, store.snapshot() as snapshot:
    print("open", flush=True)
    for _ in sys.stdin:
        digests = sorted(snapshot.table("stage-telemetry", ["record_sha256"]).column(0).to_pylist())
        with snapshot.connect() as connection:
            (count,), = connection.sql("SELECT count(*) FROM stage_telemetry").fetchall()
        assert count == len(digests)
        print(count, len(set(digests)), flush=True)
"""


def asked(reader: subprocess.Popen[str]) -> list[int]:
    assert reader.stdin is not None
    assert reader.stdout is not None
    reader.stdin.write("\n")
    reader.stdin.flush()
    return [int(word) for word in reader.stdout.readline().split()]


def test_open_reader_of_another_process_sees_one_state(tmp_path: Path, store: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", READER, store], stdin=-1, stdout=-1, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "open\n"
        before = asked(reader)
        old = set(listed_files(store))
        first = compacted(store)
        assert first.swept.kept > 0  # type: ignore[attr-defined]
        (tmp_path / "c.jsonl").write_bytes(lines(5000, 200))
        ingest(tmp_path / "c.jsonl", store=store)
        compacted(store)
        assert asked(reader) == before
        assert old <= all_files(store)
        assert reader.stdin is not None
        reader.stdin.close()
        assert reader.wait() == 0
    with Store.open(store) as opened:
        assert sweep(opened).kept == 0
    assert all_files(store) == set(listed_files(store))


def test_lease_of_a_killed_reader_ends_with_it(store: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", READER, store], stdin=-1, stdout=-1, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "open\n"
        assert compacted(store).swept.kept > 0  # type: ignore[attr-defined]
        reader.kill()
    with Store.open(store) as opened:
        swept = sweep(opened)
    assert (swept.kept, swept.replaced > 0) == (0, True)
    assert all_files(store) == set(listed_files(store))


READERS_LOOP = """
import os, sys
from firstnan.ingest import Store
turns = 0
while not os.path.exists(sys.argv[2]):
    with Store.open(sys.argv[1]) as store, store.snapshot() as snapshot:
        digests = snapshot.table("stage-telemetry", ["record_sha256"]).column(0).to_pylist()
        with snapshot.connect() as connection:
            (count,), = connection.sql("SELECT count(*) FROM stage_telemetry").fetchall()
        assert count == len(digests)
        assert set(digests) >= FIRST if turns else True
        FIRST = set(digests)
    turns += 1
assert turns > 1, turns
"""
WRITERS_LOOP = """
import sys
from firstnan.ingest import ingest
for name in sys.argv[2:]:
    ingest(name, store=sys.argv[1])
"""


def test_readers_two_writers_and_compaction_at_once(tmp_path: Path) -> None:
    store, stop = tmp_path / "store", tmp_path / "stop"
    Store.create(store, shard_bytes=SHARD).close()
    names = []
    for number in range(12):
        (tmp_path / f"{number}.jsonl").write_bytes(lines(number * 100, 200, bad_every=40))
        names.append(os.fspath(tmp_path / f"{number}.jsonl"))
    ingest(names[0], store=store)
    run = [sys.executable, "-c"]
    readers = [subprocess.Popen([*run, READERS_LOOP, store, stop]) for _ in range(2)]
    writers = [subprocess.Popen([*run, WRITERS_LOOP, store, *order]) for order in (names, names[::-1])]
    try:
        while any(writer.poll() is None for writer in writers):
            compacted(store, leftover_age_s=0)
        compacted(store, leftover_age_s=0)
        stop.touch()
        assert [process.wait(120) for process in writers + readers] == [0, 0, 0, 0]
    finally:
        for process in writers + readers:
            process.kill()
            process.wait()
    assert max(digests(store).values()) == 1
    whole = tmp_path / "whole"
    ingest(names, store=whole)
    assert set(digests(store)) == set(digests(whole))
    assert set(refused(store)) == set(refused(whole))
    with Store.open(store) as opened:
        sweep(opened, leftover_age_s=0)
    assert all_files(store) == set(listed_files(store))


def test_two_writers_of_the_same_file(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_bytes(lines(0, 2000, bad_every=40))
    for name in ("alone", "both"):
        Store.create(tmp_path / name, shard_bytes=SHARD).close()
    ingest(source, store=tmp_path / "alone")
    writers = [subprocess.Popen([sys.executable, "-c", WRITERS_LOOP, tmp_path / "both", source]) for _ in range(3)]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0]
    assert listed_files(tmp_path / "both") == listed_files(tmp_path / "alone")
    assert all_files(tmp_path / "both") == all_files(tmp_path / "alone")


def test_sweep_spares_what_a_writer_has_not_committed(tmp_path: Path, store: Path) -> None:
    with Store.open(store) as writer, Store.open(store) as other:
        lock = writer.writing()
        leftover = store / next(iter(listed_files(store))).replace(".parquet", "0.parquet")
        leftover.write_bytes(b"")
        assert sweep(other, leftover_age_s=0, patience_s=0.1).busy
        lock.release()
        assert leftover.exists()
        assert sweep(other, leftover_age_s=3600).leftovers == 0
        assert sweep(other, leftover_age_s=0).leftovers == 1
    assert not leftover.exists()


def test_what_another_process_has_rewritten_is_not_rewritten_again(store: Path) -> None:
    with Store.open(store) as opened:
        with pytest.raises(StoreError) as caught:
            opened.replace(["segments/gone.parquet"], [])
        assert caught.value.kind == "changed"
        assert opened.counts().reconcile


def test_retry_moves_what_passes(tmp_path: Path) -> None:
    store = tmp_path / "store"
    Store.create(store, shard_bytes=SHARD, max_line_bytes=2000).close()
    (tmp_path / "a.jsonl").write_bytes(lines(0, 300, bad_every=40) + b'"' + b"x" * 5000 + b'"\n')
    (tmp_path / "bare.jsonl").write_bytes(lines(0, 300, bad_every=40) + b'"' + b"x" * 5000 + b'"\n')
    summary = ingest(tmp_path / "a.jsonl", store=store, kind="stage-message")
    assert (summary.records, summary.quarantined) == (0, 301)
    ingest(tmp_path / "a.jsonl", store=tmp_path / "right")
    with Store.open(store) as opened:
        assert retry(opened, kind="stage-message").passed == 0
        done = retry(opened)
        assert (done.lines, done.passed, done.left, done.cut) == (301, 292, 9, 1)
        assert done.kinds == {"stage-telemetry": 292}
        assert retry(opened).passed == 0
        assert opened.counts().records == 292
    expected = tables(tmp_path / "right")["stage-telemetry"]
    assert tables(store)["stage-telemetry"].combine_chunks().equals(expected.combine_chunks())
    assert sum(refused(store).values()) == 9
    compacted(store)
    assert tables(store)["stage-telemetry"].combine_chunks().equals(expected.combine_chunks())


def test_retried_line_without_end_is_still_replaced(tmp_path: Path) -> None:
    store, source = tmp_path / "store", tmp_path / "a.jsonl"
    source.write_bytes(line(1) + line(2).rstrip())
    ingest(source, store=store, kind="stage-message")
    with Store.open(store) as opened:
        assert retry(opened).passed == 2
    source.write_bytes(line(1) + line(2).rstrip() + b" \n" + line(3))
    ingest(source, store=store, kind="stage-message")
    assert sum(digests(store).values()) == 1
    with Store.open(store) as opened:
        assert retry(opened).passed == 2
    assert sorted(digests(store).values()) == [1, 1, 1]


def test_reader_of_the_same_process_holds_nobody_up(store: Path) -> None:
    with Store.open(store) as opened, opened.snapshot():
        compacted(store)
        assert ingest(store.parent / "a.jsonl", store=store).known == 500


def test_columns_that_an_older_version_did_not_write_are_null(store: Path) -> None:
    with Store.open(store) as opened, opened.snapshot() as snapshot:
        (segment, *_) = snapshot.segments["stage-telemetry"]
        whole = snapshot.table("stage-telemetry")
    path = store / segment.file
    older = pq.read_table(path).drop_columns(["loss_scale_integer"])
    pq.write_table(older.select(older.column_names[::-1]), path)
    with sqlite3.connect(store / "manifest.sqlite") as connection:
        connection.execute("UPDATE segments SET bytes = ? WHERE file = ?", (path.stat().st_size, segment.file))
    connection.close()
    with Store.open(store) as opened:
        with opened.snapshot() as snapshot:
            assert "loss_scale_integer" in whole.column_names
            assert snapshot.table("stage-telemetry").equals(whole)  # all are null: the example writes a fraction
            assert pa.Table.from_batches(snapshot.batches("stage-telemetry")).to_pylist() == whole.to_pylist()
        compact(opened)
    assert set(digests(store)) == set(whole.column("record_sha256").to_pylist())
