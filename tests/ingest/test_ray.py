"""Workers of Ray write, the driver commits: the same store as of one machine, whatever a worker dies of."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3

import pytest
import ray
from telemetry_lines import lines

from firstnan import ContractError
from firstnan.ingest import Store, ingest
from firstnan.ingest.on_ray import ingest_on_ray


def disturb(marker):
    """What runs as each worker starts. Whoever has written a segment sweeps the store before it says so, and the first is
    killed there."""
    def hook():
        from firstnan.ingest import Store, receipts, sweep

        written = receipts.write_shard

        def write_and_die(*arguments):
            result = written(*arguments)
            with Store.open(arguments[0]) as store:
                assert sweep(store, leftover_age_s=0, patience_s=0).busy
            with contextlib.suppress(FileExistsError):
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        receipts.write_shard = write_and_die

    return hook


@pytest.fixture
def fleet(tmp_path):
    marker = tmp_path / "killed"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False,
             runtime_env={"worker_process_setup_hook": disturb(str(marker))})  # fmt: skip
    yield marker
    ray.shutdown()


def files(store):
    found = {}
    for folder, _, names in os.walk(os.path.join(store, "segments")):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, store)] = file.read()
    return found


def manifest(store):
    with sqlite3.connect(os.path.join(store, "manifest.sqlite")) as connection:
        return sorted(connection.execute("SELECT file, kind, rows, bytes, path, start FROM segments"))


@pytest.mark.filterwarnings("ignore")  # of Ray's own, which differ from release to release
def test_a_killed_worker_costs_nothing_and_the_store_is_that_of_one_machine(fleet, tmp_path):
    folder = tmp_path / "lines"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.jsonl").write_bytes(lines(number * 1000, 1000, bad_every=97, blank_every=101))
    done = ingest_on_ray(folder, store=tmp_path / "ray")
    assert fleet.exists(), "no worker was killed"
    assert (done.sources, done.shards, done.failed) == (6, 6, [])

    alone = ingest(folder, store=tmp_path / "alone")
    assert alone.lines == 6000
    assert files(tmp_path / "ray") == files(tmp_path / "alone")
    assert manifest(tmp_path / "ray") == manifest(tmp_path / "alone")
    with Store.open(tmp_path / "ray") as one, Store.open(tmp_path / "alone") as other:
        assert one.counts() == other.counts()
        assert one.counts().reconcile

    again = ingest_on_ray(folder, store=tmp_path / "ray")
    assert again.shards == 0
    assert files(tmp_path / "ray") == files(tmp_path / "alone")

    with (folder / "0.jsonl").open("ab") as file:
        file.write(lines(70_000, 500))
    assert ingest_on_ray(folder, store=tmp_path / "ray").shards == 1
    assert ingest(folder, store=tmp_path / "alone").records == 500
    assert manifest(tmp_path / "ray") == manifest(tmp_path / "alone")

    (folder / "6.jsonl.gz").write_bytes(b"\x1f\x8b\x08cut")
    broken = ingest_on_ray(folder, store=tmp_path / "ray")
    assert [name for name, _ in broken.failed] == [str(folder / "6.jsonl.gz")]


def test_workers_cannot_read_what_is_open_here(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_bytes(lines(0, 3))
    with path.open() as file, pytest.raises(ContractError, match="workers can only read files"):
        ingest_on_ray(file, store=tmp_path / "store")


def test_an_unknown_kind_is_refused_before_a_worker_starts(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_bytes(lines(0, 3))
    with pytest.raises(ContractError, match="kind"):
        ingest_on_ray(path, store=tmp_path / "store", kind="nothing")
