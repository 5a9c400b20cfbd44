"""Workers of Ray write, the driver commits: the same store as of one machine, whatever a worker dies of."""

from __future__ import annotations

import pytest
import ray
from dying_worker import dying_once
from stored import contents, segments
from telemetry_lines import lines

from firstnan import ContractError
from firstnan.ingest import Store, ingest
from firstnan.ingest.on_ray import ingest_on_ray


@pytest.fixture
def fleet(tmp_path):
    marker = tmp_path / "killed"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False,
             runtime_env={"worker_process_setup_hook": dying_once(str(marker))})  # fmt: skip
    yield marker
    ray.shutdown()


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
    assert contents(tmp_path / "ray") == contents(tmp_path / "alone")
    assert segments(tmp_path / "ray") == segments(tmp_path / "alone")
    with Store.open(tmp_path / "ray") as one, Store.open(tmp_path / "alone") as other:
        assert one.counts() == other.counts()
        assert one.counts().reconcile

    again = ingest_on_ray(folder, store=tmp_path / "ray")
    assert again.shards == 0
    assert contents(tmp_path / "ray") == contents(tmp_path / "alone")

    with (folder / "0.jsonl").open("ab") as file:
        file.write(lines(70_000, 500))
    assert ingest_on_ray(folder, store=tmp_path / "ray").shards == 1
    assert ingest(folder, store=tmp_path / "alone").records == 500
    assert segments(tmp_path / "ray") == segments(tmp_path / "alone")

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
