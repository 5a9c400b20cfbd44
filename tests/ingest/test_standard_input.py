"""Standard input of real processes: lines and Arrow streams through pipes, whole tables from files; no byte is lost."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from stored import digests, listed_files, refused
from telemetry_lines import line, lines, record

import firstnan
from firstnan.ingest import Source, read
from firstnan.ingest.form import opened

TABLE = pa.Table.from_pylist([record(number) for number in range(100)])


def packed(form: str) -> bytes:
    sink = io.BytesIO()
    if form == "parquet":
        pq.write_table(TABLE, sink)
    else:
        make = pa.ipc.new_stream if form == "stream" else pa.ipc.new_file
        with make(sink, TABLE.schema) as writer:
            writer.write_table(TABLE, max_chunksize=10)
    return sink.getvalue()


def ingested(store: Path, parts: Iterable[bytes], *, source: str = "-", pause: float = 0.0) -> tuple[int, dict[str, Any], str]:
    """`firstnan ingest -` with these bytes coming through a pipe: exit code, summary and errors."""
    argv = [sys.executable, "-m", "firstnan", "ingest", source, "--store", store, "--json"]
    with subprocess.Popen(argv, stdin=-1, stdout=-1, stderr=-1) as process:
        assert process.stdin is not None
        try:
            for part in parts:
                process.stdin.write(part)
                process.stdin.flush()
                time.sleep(pause)
        except BrokenPipeError:
            pass  # refused by its first bytes
        out, err = process.communicate(timeout=60)
    return process.returncode, json.loads(out), err.decode()


def from_file(store: Path, data: bytes, folder: Path) -> dict[str, Any]:
    (folder / "input").write_bytes(data)
    argv = [sys.executable, "-m", "firstnan", "ingest", "-", "--store", store, "--json"]
    with open(folder / "input", "rb") as file:
        done = subprocess.run(argv, stdin=file, capture_output=True, timeout=60, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.fixture
def expected(tmp_path: Path) -> Any:
    (tmp_path / "lines").write_bytes(lines(0, 100))
    return read(tmp_path / "lines").table("stage-telemetry")


def test_an_arrow_stream_comes_through_a_pipe_in_any_pieces(tmp_path: Path, expected: Any) -> None:
    stream, store = packed("stream"), tmp_path / "store"
    cuts = [0, 1, 3, 4, 7, 9, 500, len(stream) - 5, len(stream)]
    code, summary, err = ingested(store, [stream[a:b] for a, b in pairwise(cuts)], pause=0.02)
    assert (code, err) == (0, "")
    assert (summary["lines"], summary["records"], summary["quarantined"]) == (100, 100, 0)
    assert set(digests(store)) == set(expected["record_sha256"].to_pylist())
    before = listed_files(store)
    for again in (ingested(store, [stream])[1], from_file(store, stream, tmp_path), from_file(store, packed("file"), tmp_path)):
        assert (again["known"], again["records"]) == (100, 0)
    assert listed_files(store) == before


@pytest.mark.parametrize("form", ["stream", "file", "parquet"])
def test_standard_input_that_is_a_file_is_read_in_every_form(tmp_path: Path, form: str, expected: Any) -> None:
    summary = from_file(tmp_path / "store", packed(form), tmp_path)
    assert (summary["records"], summary["quarantined"]) == (100, 0)
    assert set(digests(tmp_path / "store")) == set(expected["record_sha256"].to_pylist())


@pytest.mark.parametrize(("form", "known"), [("file", "an Arrow IPC file"), ("parquet", "a Parquet file")])
def test_what_is_read_from_its_end_is_refused_through_a_pipe(tmp_path: Path, form: str, known: str) -> None:
    data = packed(form)
    for parts in ([data], [data[:3], data[3:]]):
        code, summary, err = ingested(tmp_path / "store", parts, pause=0.02)
        assert (code, summary["lines"], summary["shards"]) == (2, 0, 0)
        assert err.startswith(f"firstnan: -: begins as {known}, which can only be read where it can be seeked")
        assert "name the file" in err
        assert len(summary["failed"]) == 1
    assert listed_files(tmp_path / "store") == {}


@pytest.mark.parametrize("cut", [6, 700, 3000])
def test_a_stream_that_breaks_off_gives_its_whole_batches(tmp_path: Path, cut: int) -> None:
    code, summary, err = ingested(tmp_path / "store", [packed("stream")[:-cut] if cut > 700 else packed("stream")[:cut]])
    assert (code, err) == (2, "firstnan: -: is not a whole table of records: ArrowInvalid\n")
    whole = summary["records"]
    assert summary["lines"] == whole == sum(digests(tmp_path / "store").values()) == (90 if cut > 700 else 0)


def test_a_length_that_lies_takes_no_memory(tmp_path: Path) -> None:
    lies = b"\xff\xff\xff\xff\xf8\xff\xff\x7f" + packed("stream")[8:]
    program = """
import resource
import pyarrow.parquet
from firstnan.ingest import read
most = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + (1 << 30)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
print(read("-", partial=True).counts[0].error)
"""
    done = subprocess.run([sys.executable, "-c", program], input=lies, capture_output=True, text=False, check=True)
    assert done.stdout == b"-: is not a whole table of records: ArrowInvalid\n"


@pytest.mark.parametrize("first", [b"", b"P", b"PAR", b"ARROW", b"\xff", b"\xff\xff\xff", b"\n", b"P\n", b"(\xb5", b"\x1f"])
@pytest.mark.parametrize("rest", [b"", b"\n" + line(3), b"x" * 20 + b"\n"])
def test_no_byte_of_lines_is_lost_whatever_they_begin_with(first: bytes, rest: bytes) -> None:
    text = first + rest
    reading, writing = os.pipe()
    os.write(writing, text[:1])
    late = threading.Timer(0.02, lambda: (os.write(writing, text[1:]), os.close(writing)))
    late.start()
    with os.fdopen(reading, "rb") as pipe:
        found = read(pipe)
    late.join()
    expected = text.split(b"\n")[:-1] if text.endswith(b"\n") else text.split(b"\n") if text else []
    assert found.total.lines == len(expected)
    assert found.quarantine["raw"].to_pylist() == [one for one in expected if one and not one.startswith(b"{")]
    assert found.total.records == sum(one.startswith(b"{") for one in expected)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_lines_trickle_in_and_may_be_compressed(tmp_path: Path, pack: Any) -> None:
    text = pack(lines(0, 30, bad_every=7, blank_every=11))
    code, summary, _ = ingested(tmp_path / "pipe", (text[at : at + 97] for at in range(0, len(text), 97)), pause=0.002)
    assert (code, summary["lines"], summary["quarantined"]) == (1, 30, 5)
    (tmp_path / "lines").write_bytes(lines(0, 30, bad_every=7, blank_every=11))
    whole = read(tmp_path / "lines")
    assert refused(tmp_path / "pipe") == dict.fromkeys(whole.quarantine["raw"].to_pylist(), 1)
    assert set(digests(tmp_path / "pipe")) == set(whole.table("stage-telemetry")["record_sha256"].to_pylist())


@pytest.mark.parametrize(("sent", "form"), [(b"{", "lines"), (b"PA{", "lines"), (b"\xff" * 4, "arrow"), (b"\x1f", "lines")])
def test_looking_waits_for_no_more_than_it_takes_to_tell(sent: bytes, form: str) -> None:
    reading, writing = os.pipe()
    os.write(writing, sent)  # and nothing more, with the pipe left open
    found = []

    def look() -> None:
        with opened("-", reading, "lines") as source:
            found.append((source.form, source.head))

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(20)
    assert found == [(form, sent)]
    os.close(writing)
    os.close(reading)


@pytest.mark.parametrize("form", ["lines", "stream"])
def test_a_named_pipe_is_read_once_and_whole_into_a_store_that_knows_its_text(tmp_path: Path, form: str) -> None:
    data = lines(0, 100) if form == "lines" else packed("stream")
    os.mkfifo(tmp_path / "pipe.jsonl")
    for known in (0, 100):
        writer = threading.Thread(target=(tmp_path / "pipe.jsonl").write_bytes, args=[data])
        writer.start()
        code, summary, err = ingested(tmp_path / "store", [], source=os.fspath(tmp_path / "pipe.jsonl"))
        writer.join()
        assert (code, err, summary["lines"], summary["known"]) == (0, "", 100, known)


def test_streams_are_known_by_their_name_and_their_first_bytes(tmp_path: Path) -> None:
    for name in ("rows.arrows", "rows.arrow", "rows.jsonl"):
        (tmp_path / name).write_bytes(packed("stream"))
    found = read(tmp_path)
    assert [(os.path.basename(one.source), one.records) for one in found.counts] == [
        ("rows.arrow", 100), ("rows.arrows", 100), ("rows.jsonl", 100)]  # fmt: skip
    assert found.quarantine.num_rows == 0


def test_an_open_file_is_read_from_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "behind"
    path.write_bytes(line(1) + packed("stream"))
    with open(path, "rb") as file:
        file.readline()
        assert read(file).total.records == 100
    path.write_bytes(line(1) + packed("parquet"))
    with open(path, "rb") as file:
        file.readline()
        assert read(file).total.records == 0  # a Parquet file is a whole file only
    assert read(Source("x", os.fspath(path)).file).total.records == 1  # type: ignore[arg-type]


def test_head_is_of_a_descriptor() -> None:
    with pytest.raises(TypeError, match="head"):
        firstnan._core.LineReader(b"{}", name="x", head=b" ")
