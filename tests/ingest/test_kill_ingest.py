"""kill -9 at any moment of an ingestion, a compaction, a retry: a second run completes it, with the same bytes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stored import all_files, digests, listed_files, refused, tables
from telemetry_lines import lines

from firstnan.ingest import Store, compact, ingest, sweep

SHARD = 60_000
ROUNDS = 12

# One process that is warm, and a child for each try; the child kills itself before the nth step that something durable takes.
KILL_AT_EACH_STEP = """
import json, os, signal, sqlite3, sys
from firstnan.ingest import Store, compact, ingest, retry
import pyarrow.parquet, pyarrow.dataset
from firstnan.ingest.manifest import Manifest

what, source, folder, tries = sys.argv[1:4] + [int(sys.argv[4])]

def count_steps(stop_at):
    steps = 0
    def counted(function):
        def call(*arguments, **options):
            nonlocal steps
            steps += 1
            if steps == stop_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)
        return call
    for name in ("fsync", "replace", "unlink", "mkdir", "open"):
        setattr(os, name, counted(getattr(os, name)))
    class Counted(sqlite3.Connection):
        def execute(self, *arguments):
            if arguments[0].split()[0] not in ("SELECT", "PRAGMA"):
                counted(int)()
            result = super().execute(*arguments)
            if arguments[0] == "COMMIT":
                counted(int)()
            return result
    connect = sqlite3.connect
    sqlite3.connect = lambda *a, **o: connect(*a, **o, factory=Counted)

def work(place):
    if what == "ingest":
        ingest(source, store=place)
    elif what == "compact":
        with Store.open(place) as store:
            compact(store)
    else:
        with Store.open(place) as store:
            retry(store)

step, survived = 0, False
while not survived:
    step += 1 + step // tries
    child = os.fork()
    if child == 0:
        count_steps(step)
        work(os.path.join(folder, str(step)) if what == "ingest" else folder)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), status
    survived = status == 0
    print(step, flush=True)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    source = tmp_path / "a.jsonl"
    source.write_bytes(lines(0, 230, bad_every=40, blank_every=33) + b'{"no": "end')
    return source


def undisturbed(source: Path, folder: Path) -> Path:
    Store.create(folder, shard_bytes=SHARD).close()
    ingest(source, store=folder)
    return folder


def run_killed(*arguments: object) -> list[int]:
    argv = [sys.executable, "-c", KILL_AT_EACH_STEP, *map(str, arguments)]
    return [int(word) for word in subprocess.run(argv, check=True, stdout=subprocess.PIPE, timeout=250).stdout.split()]


def test_ingest_killed_before_each_durable_step(tmp_path: Path, source: Path) -> None:
    whole = undisturbed(source, tmp_path / "whole")
    folder = tmp_path / "killed"
    folder.mkdir()
    steps = run_killed("ingest", source, folder, 40)
    assert len(steps) > 20
    for step in steps[:-1]:
        store = folder / str(step)
        # A store that was never made has the usual cut; one shard holds all of this text then.
        summary = ingest(source, store=store)
        assert summary.reconcile
        assert summary.lines == 231
        assert digests(store) == digests(whole)
        assert refused(store) == refused(whole)
        with Store.open(store) as opened:
            sweep(opened, leftover_age_s=0)
        assert all_files(store) == set(listed_files(store))


@pytest.mark.parametrize("seed", range(3))
def test_ingest_killed_at_random_moments(tmp_path: Path, seed: int) -> None:
    source = tmp_path / "a.jsonl"
    source.write_bytes(lines(0, 2000, bad_every=40, blank_every=33) + b'{"no": "end')
    began = time.monotonic()
    whole = undisturbed(source, tmp_path / "whole")
    took = time.monotonic() - began
    store = tmp_path / "killed"
    Store.create(store, shard_bytes=SHARD).close()
    moments = random.Random(seed)
    killed = 0
    child = "import sys; from firstnan.ingest import ingest; print(flush=True); ingest(sys.argv[1], store=sys.argv[2])"
    for _ in range(ROUNDS):
        with subprocess.Popen([sys.executable, "-c", child, source, store], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(moments.uniform(0, took / ROUNDS * 3))
            process.send_signal(signal.SIGKILL)
        killed += process.returncode == -signal.SIGKILL
        assert tables(store) is not None  # a reader finds a whole state at any time
    assert killed > 0
    summary = ingest(source, store=store)
    assert summary.reconcile
    assert listed_files(store) == listed_files(whole)
    assert digests(store) == digests(whole)
    assert max(digests(store).values()) == 1
    again = ingest(source, store=store)
    assert again.known == again.lines == 2001


@pytest.mark.parametrize("what", ["compact", "retry"])
def test_rewriting_killed_before_each_durable_step(tmp_path: Path, source: Path, what: str) -> None:
    (tmp_path / "b.jsonl").write_bytes(lines(100, 300))
    kind = "stage-message" if what == "retry" else None
    store = tmp_path / "store"
    Store.create(store, shard_bytes=SHARD).close()
    ingest(source, store=store)
    ingest(tmp_path / "b.jsonl", store=store, kind=kind)
    records, lines_refused = set(digests(store)), refused(store)
    steps = run_killed(what, source, store, 40)
    assert len(steps) > 20
    after = digests(store)
    if what == "compact":
        assert set(after) == records
        assert refused(store) == lines_refused
        assert max(after.values()) == 1
    else:
        assert set(after) > records
        assert sum(refused(store).values()) == sum(lines_refused.values()) - 300
    with Store.open(store) as opened:
        compact(opened, leftover_age_s=0)
    assert all_files(store) == set(listed_files(store))
    assert not os.listdir(store / "leases") or all(name.isdecimal() for name in os.listdir(store / "leases"))
