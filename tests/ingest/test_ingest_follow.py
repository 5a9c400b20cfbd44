"""--follow: a real process on files that a writer grows, rotates and truncates; its end by a signal."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from stored import digests, refused, wait_for
from telemetry_lines import line, lines

from firstnan import ContractError
from firstnan.ingest import Store, ingest

Following = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def following(tmp_path: Path) -> Iterator[Following]:
    """Starts `firstnan ingest --follow`; the store is tmp_path/store."""
    started = []

    def start(*arguments: object) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "firstnan", "ingest", *map(str, arguments), "--follow", "--store", tmp_path / "store"]
        started.append(subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def rows(store: Path) -> int:
    """How many records are in the store by now."""
    if not (store / "manifest.sqlite").exists():
        return 0
    try:
        with Store.open(store) as opened:
            return opened.counts().records
    except ContractError:
        return 0  # it is being made


def ended(process: subprocess.Popen[bytes], number: signal.Signals) -> tuple[int, dict[str, Any]]:
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert err == b""
    return process.returncode, json.loads(out)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_added_is_taken_in_and_an_open_line_waits(tmp_path: Path, following: Following, number: signal.Signals) -> None:
    source, store = tmp_path / "a.jsonl", tmp_path / "store"
    source.write_bytes(lines(0, 50))
    process = following(source, "--json")
    wait_for(lambda: rows(store) == 50)
    with open(source, "ab", buffering=0) as file:
        file.write(line(50)[:100])
        time.sleep(0.5)  # so that it is looked at
        file.write(line(50)[100:] + line(51)[:200])
        wait_for(lambda: rows(store) == 51)
        file.write(line(51)[200:])
        wait_for(lambda: rows(store) == 52)
        file.write(b"{half of a line")
    code, summary = ended(process, number)
    assert code == 0
    assert (summary["records"], summary["lines"], summary["known"], summary["waiting"]) == (52, 52, 0, 15)
    assert max(digests(store).values()) == 1
    assert not refused(store)
    # What is left is taken by an ordinary run, and a later one follows from there.
    assert ingest(source, store=store).known == 52
    assert sum(refused(store).values()) == 1
    process = following(source, "--json")
    with open(source, "ab") as file:
        file.write(b" is a line\n" + line(60))
    wait_for(lambda: rows(store) == 53)
    code, summary = ended(process, number)
    assert (code, summary["known"], summary["quarantined"]) == (1, 52, 1)
    assert list(refused(store)) == [b"{half of a line is a line"]


def test_rotated_file_is_read_to_its_end(tmp_path: Path, following: Following) -> None:
    source, store = tmp_path / "a.jsonl", tmp_path / "store"
    source.write_bytes(lines(0, 20))
    process = following(source, "--json")
    wait_for(lambda: rows(store) == 20)
    with open(source, "ab", buffering=0) as old:
        source.rename(tmp_path / "a.jsonl.1")
        old.write(lines(20, 5))
        source.write_bytes(lines(100, 3))
        wait_for(lambda: rows(store) >= 28)
        old.write(line(25).rstrip())  # its last words, without an end
    wait_for(lambda: rows(store) == 29)
    code, summary = ended(process, signal.SIGTERM)
    assert code == 0
    (note,) = summary["notes"]
    assert note.endswith("a.jsonl: rotated; the new file is read from its start")
    assert summary["lines"] == summary["records"] == 29
    assert max(digests(store).values()) == 1


@pytest.mark.parametrize("how", ["shorter", "as long or longer"])
def test_truncated_file_is_read_from_its_start(tmp_path: Path, following: Following, how: str) -> None:
    source, store = tmp_path / "a.jsonl", tmp_path / "store"
    source.write_bytes(lines(0, 20))
    process = following(source, "--json")
    wait_for(lambda: rows(store) == 20)
    source.write_bytes(lines(100, 3 if how == "shorter" else 30))
    count = 23 if how == "shorter" else 50
    wait_for(lambda: rows(store) == count)
    code, summary = ended(process, signal.SIGTERM)
    assert (code, summary["records"]) == (0, count)
    assert summary["notes"]
    assert all(note.endswith("a.jsonl: truncated; it is read from its start") for note in summary["notes"])


def test_new_file_in_a_folder_is_followed(tmp_path: Path, following: Following) -> None:
    folder, store = tmp_path / "logs", tmp_path / "store"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(lines(0, 10))
    process = following(folder, "--json")
    wait_for(lambda: rows(store) == 10)
    (folder / "b.jsonl").write_bytes(lines(50, 5))
    wait_for(lambda: rows(store) == 15)
    code, summary = ended(process, signal.SIGINT)
    assert (code, summary["sources"], summary["notes"]) == (0, 2, [])


def test_new_file_that_cannot_be_followed_holds_up_no_other(tmp_path: Path, following: Following) -> None:
    folder, store = tmp_path / "logs", tmp_path / "store"
    folder.mkdir()
    (folder / "b.jsonl").write_bytes(lines(0, 10))
    process = following(folder, "--json")
    wait_for(lambda: rows(store) == 10)
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(lines(20, 5)))  # as a rotation that compresses leaves it
    (folder / "c.jsonl").symlink_to(tmp_path / "nowhere")
    time.sleep(2.5)
    (folder / "d.jsonl").write_bytes(lines(50, 5))
    wait_for(lambda: rows(store) == 15)
    code, summary = ended(process, signal.SIGINT)
    assert (code, summary["sources"]) == (0, 2)
    assert summary["notes"] == [f"{folder}/a.jsonl.gz: passed over, since it cannot be followed; ingest it by itself"]


def test_killed_follower_goes_on_where_it_was(tmp_path: Path, following: Following) -> None:
    source, store = tmp_path / "a.jsonl", tmp_path / "store"
    source.write_bytes(lines(0, 10))
    for turn in range(1, 5):
        process = following(source)
        wait_for(lambda turn=turn: rows(store) == 10 * turn)
        with open(source, "ab", buffering=0) as file:
            file.write(lines(10 * turn, 10))
        process.kill()
    process = following(source)
    wait_for(lambda: rows(store) == 50)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert b"50" in out
    assert process.returncode == 0
    assert max(digests(store).values()) == 1
    assert sum(digests(store).values()) == 50


@pytest.mark.parametrize("what", ["gzip", "pipe", "standard input"])
def test_only_plain_files_can_be_followed(tmp_path: Path, following: Following, what: str) -> None:
    source = tmp_path / "a.jsonl"
    if what == "pipe":
        os.mkfifo(source)
    else:
        source.write_bytes(b"\x1f\x8b\x08\x00")
    process = following("-" if what == "standard input" else source)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, b"")
    assert b"sources hold something that cannot be followed [follow: plain files" in err


def test_stop_ends_an_ordinary_run_after_a_shard(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_bytes(lines(0, 1000))
    Store.create(tmp_path / "store", shard_bytes=50_000).close()
    stop = threading.Event()
    first = ingest(source, store=tmp_path / "store", stop=stop, on_progress=lambda _: stop.set())
    assert 0 < first.records < 1000
    assert first.reconcile
    assert ingest(source, store=tmp_path / "store").records == 1000 - first.records
