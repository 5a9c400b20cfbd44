"""Workers of Spark write, the driver commits: the same store as of one machine, whatever a worker dies of.

Run by `make spark`, which brings PySpark; not named as pytest looks for tests, since PySpark is no part of the test tools.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from stored import contents, segments
from telemetry_lines import lines

from firstnan import ContractError
from firstnan.ingest import Store, ingest, read
from firstnan.ingest.on_spark import ingest_on_spark

HERE = Path(__file__).resolve().parent


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    """A session of two workers, in which each task may fail three times, and where a file says that one was killed."""
    marker, start = tmp_path / "killed", tmp_path / "start"
    start.mkdir()
    (start / "sitecustomize.py").write_text(f"import dying_worker\ndying_worker.dying_once({str(marker)!r})()\n")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(start), str(HERE), *sys.path]))
    spark = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false").getOrCreate()
    yield spark, marker
    spark.stop()


@pytest.mark.filterwarnings("ignore")  # of PySpark's own, which differ from release to release
def test_a_killed_worker_costs_nothing_and_the_store_is_that_of_one_machine(fleet, tmp_path):
    spark, marker = fleet
    folder = tmp_path / "lines"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.jsonl").write_bytes(lines(number * 1000, 1000, bad_every=97, blank_every=101))
    (folder / "rows.jsonl").write_bytes(lines(50_000, 1000))
    pq.write_table(read(folder / "rows.jsonl").tables["stage-telemetry"], folder / "rows.parquet")
    done = ingest_on_spark(spark, folder, store=tmp_path / "spark")
    assert marker.exists(), "no worker was killed"
    assert (done.sources, done.shards, done.failed) == (6, 6, [])

    alone = ingest(folder, store=tmp_path / "alone")
    assert alone.lines == 6000
    assert contents(tmp_path / "spark") == contents(tmp_path / "alone")
    assert segments(tmp_path / "spark") == segments(tmp_path / "alone")
    with Store.open(tmp_path / "spark") as one, Store.open(tmp_path / "alone") as other:
        assert one.counts() == other.counts()
        assert one.counts().reconcile

    with (folder / "0.jsonl").open("ab") as file:
        file.write(lines(70_000, 500))
    (folder / "6.jsonl.gz").write_bytes(b"\x1f\x8b\x08cut")
    again = ingest_on_spark(spark, folder, store=tmp_path / "spark")
    assert (again.shards, [name for name, _ in again.failed]) == (1, [str(folder / "6.jsonl.gz")])
    with pytest.raises(ContractError, match="kind"):
        ingest_on_spark(spark, folder, store=tmp_path / "spark", kind="nothing")
