"""Files whose names are no UTF-8: as sources they are read, as a store they are refused."""

import gzip
import os
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from telemetry_lines import lines

from firstnan import ContractError
from firstnan.ingest import Store, ingest, read


def files(folder):
    """A file of each form; the name of each begins with the byte ff."""
    text = lines(0, 9, bad_every=4)
    table = pa.table({"line": text.decode().splitlines()})
    pq.write_table(table, folder / "parquet")
    with pa.ipc.new_file(folder / "arrow", table.schema) as file:
        file.write(table)
    (folder / "jsonl").write_bytes(text)
    (folder / "json.gz").write_bytes(gzip.compress(text))
    for form in ("parquet", "arrow", "jsonl", "json.gz"):
        os.rename(folder / form, os.fsencode(folder) + b"/\xff." + form.encode())


def test_a_source_may_have_any_name(tmp_path):
    (tmp_path / "in").mkdir()
    files(tmp_path / "in")
    result = read(tmp_path / "in")
    names = [rf"{tmp_path}/in/\xff.{form}" for form in ("arrow", "json.gz", "jsonl", "parquet")]
    assert [one.source for one in result.counts] == names
    assert {one.lines for one in result.counts} == {9}
    assert set(result.tables["stage-telemetry"]["line_source"].to_pylist()) == set(names)
    summary = ingest(tmp_path / "in", store=tmp_path / "store")
    assert (summary.failed, summary.lines, summary.reconcile) == ([], 36, True)
    again = ingest(tmp_path / "in", store=tmp_path / "store")
    assert (again.failed, again.lines, again.known) == ([], 36, 36)


def test_a_file_of_any_name_is_followed(tmp_path):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl")
    with open(name, "wb") as file:
        file.write(lines(0, 9))
    stop, seen = threading.Event(), []

    def told(summary):
        seen.append(summary.lines)
        if summary.lines == 9:
            with open(name, "ab") as file:
                file.write(lines(9, 5))
        else:
            stop.set()

    timer = threading.Timer(60, stop.set)
    timer.start()
    summary = ingest(name, store=tmp_path / "store", follow=True, stop=stop, on_progress=told)
    timer.cancel()
    assert (seen, summary.lines, summary.records) == ([9, 14], 14, 14)


def test_a_store_has_a_name_that_is_text(tmp_path, monkeypatch):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    for make in (Store.open, Store.create):
        with pytest.raises(ContractError) as refused:
            make(folder)
        assert (refused.value.pointer, refused.value.bound) == ("/store", "UTF-8")
    assert not os.path.exists(folder)
    os.mkdir(folder)
    monkeypatch.chdir(folder)
    with pytest.raises(ContractError):
        Store.create("store")
