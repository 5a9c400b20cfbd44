"""Where lines may come from: files, folders, patterns, standard input, descriptors; gzip and zstd, whole and cut; tables."""

import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from lines import EXAMPLES, TELEMETRY

import firstnan
from firstnan._core import LineReader
from firstnan.ingest import read, sources_of

LINES = b"".join(json.dumps({**TELEMETRY, "step_id": index}).encode() + b"\n" for index in range(4)) + b"\nnot a record\n"


def zstd(text: bytes) -> bytes:
    """One frame with a block for each line, so that a part of it gives a part of the text."""
    packer = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    lines = [packer.compress(line) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for line in text.splitlines(keepends=True)]
    return b"".join(lines) + packer.flush()


CODES = {"gz": gzip.compress, "zst": zstd}


def steps(result):
    return result.table("stage-telemetry")["step_id"].to_pylist()


def test_folders_patterns_and_files_each_once(tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in/b.jsonl").write_bytes(LINES)
    (tmp_path / "in/deep/a.ndjson.gz").write_bytes(gzip.compress(LINES))
    (tmp_path / "in/c.json.zst").write_bytes(zstandard.compress(LINES))
    (tmp_path / "in/readme.txt").write_text("not lines")
    result = read([tmp_path / "in", str(tmp_path / "in/*.jsonl"), tmp_path / "in/b.jsonl"])
    names = [os.path.relpath(one.source, tmp_path / "in") for one in result.counts]
    assert names == ["b.jsonl", "c.json.zst", "deep/a.ndjson.gz"]
    assert steps(result) == [0, 1, 2, 3] * 3
    for one in result.counts:
        assert (one.lines, one.records, one.quarantined, one.blank, one.bytes) == (6, 4, 1, 1, len(LINES))
    assert (result.total.lines, result.quarantine.num_rows) == (18, 3)
    for source, words in ((tmp_path / "none", "none"), (str(tmp_path / "*.jsonl"), "no file fits"), (tmp_path / "in/d*", "none")):
        with pytest.raises(FileNotFoundError) as refused:
            sources_of(source)
        assert words in str(refused.value) or "d*" in str(refused.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no file in this folder"):
        sources_of(tmp_path / "empty")
    with pytest.raises(TypeError):
        sources_of([5])


def test_open_files_and_standard_input(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(LINES)
    with open(path, "rb") as file:
        file.readline()
        assert steps(read(file)) == [1, 2, 3]
    program = "import sys, firstnan.ingest as i; r = i.read('-'); print(r.counts[0].source, r.total.records, r.total.lines)"
    for text in (LINES, gzip.compress(LINES)):
        done = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, check=True)
        assert done.stdout.split() == [b"-", b"4", b"6"]


def test_members_and_frames_follow_one_another():
    for pack in CODES.values():
        text = pack(LINES[:100]) + pack(b"") + pack(LINES[100:])
        reader = LineReader(text, name="x")
        shard = reader.next_shard()
        assert (shard.bytes, shard.lines, reader.next_shard()) == (len(LINES), 6, None)


@pytest.mark.parametrize("code", CODES)
def test_a_stream_that_is_cut_anywhere_gives_its_whole_lines_then_refuses(tmp_path, code):
    packed = CODES[code](LINES)
    path = tmp_path / f"lines.{code}"
    ended = 0
    for end in range(5, len(packed)):
        path.write_bytes(packed[:end])
        with pytest.raises(firstnan.ContractError, match=path.name) as refused:
            read(path)
        assert (refused.value.kind, refused.value.layer) == ("compression", "wire")
        result = read(path, partial=True)
        assert "gzip or zstd" in result.counts[0].error
        total = result.total
        assert total.lines == total.records + total.quarantined + total.blank
        assert steps(result) == list(range(total.records))
        assert LINES[:total.bytes].endswith(b"\n") or total.bytes == 0
        ended = max(ended, total.records)
    assert ended == 4
    path.write_bytes(packed)
    assert read(path).total.records == 4


def test_what_decompresses_to_far_more_than_its_size_is_refused(tmp_path):
    path = tmp_path / "bomb.zst"
    path.write_bytes(zstandard.compress(b"\n" * (300 << 20), 19))
    with pytest.raises(firstnan.ContractError) as refused:
        read(path)
    assert refused.value.kind == "expansion"


def test_reading_starts_where_it_is_told(tmp_path):
    path = tmp_path / "lines"
    second = LINES.index(b"\n") + 1
    for text in (LINES, gzip.compress(LINES), zstandard.compress(LINES)):
        path.write_bytes(text)
        for file in (str(path), text):
            shard = LineReader(file, name="x", start=second, first_line=2).next_shard()
            assert (shard.start, shard.bytes, shard.first_line) == (second, len(LINES) - second, 2)
            assert pa.table(shard.decode().table("stage-telemetry"))["line_number"].to_pylist() == [2, 3, 4]
        assert LineReader(str(path), name="x", start=len(LINES)).next_shard() is None


def test_arguments_out_of_their_bounds_are_refused():
    beyond = {"shard_bytes": (1 << 30) + 1}
    for options in ({"shard_bytes": 0}, beyond, {"max_line_bytes": 0}, {"first_line": 0}, {"kind": "none"}):
        with pytest.raises(firstnan.ContractError) as refused:
            LineReader(b"", name="x", **options)
        assert refused.value.pointer == f"/{next(iter(options))}"
    with pytest.raises(firstnan.ContractError, match="threads"):
        LineReader(LINES, name="x").next_shard().decode(threads=0)
    with pytest.raises(IsADirectoryError):
        LineReader("/", name="x").next_shard()


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_tables_of_ours_are_read_back_to_the_same_identities(tmp_path, form):
    envelope = {"rank": 1, "world_size": 8, "attempt": 0, "sequence": 7, "source": "host-1"}
    texts = []
    for kind, examples in EXAMPLES.items():
        for example in examples:
            texts += [json.dumps(example), json.dumps({"envelope": {"kind": kind, **envelope}, "record": example})]
    numbers = [1, 1.0, 0, -0.0, 2**63, 10**300, 5e-324, 1024.0]
    texts += [json.dumps({**TELEMETRY, "maximum_absolute_finite": number}) for number in numbers]
    (tmp_path / "all.jsonl").write_text("\n".join(texts))
    first = read(tmp_path / "all.jsonl")
    assert first.total.records == len(texts)
    assert set(first.tables) == set(EXAMPLES)
    for kind, table in first.tables.items():
        path = tmp_path / f"{kind}.{form}"
        if form == "parquet":
            pq.write_table(table, path)
        else:
            with pa.ipc.new_file(path, table.schema) as sink:
                sink.write_table(table)
        again = read(path)
        assert again.quarantine.to_pylist() == []
        for name in ("record_sha256", "envelope_rank", "envelope_source"):
            assert again.tables[kind][name].to_pylist() == table[name].to_pylist()
        assert again.tables[kind].drop_columns(["line_source", "line_number", "line_offset"]).equals(
            table.drop_columns(["line_source", "line_number", "line_offset"]))


def test_rows_are_checked_as_lines_are(tmp_path):
    good = pa.Table.from_pylist([TELEMETRY, {**TELEMETRY, "step_id": -1}, {**TELEMETRY, "loss_scale": float("nan")}])
    pq.write_table(good, tmp_path / "fields.parquet")
    result = read(tmp_path / "fields.parquet")
    assert (result.total.records, result.quarantine["line_number"].to_pylist()) == (1, [2, 3])
    assert result.quarantine["layer"].to_pylist() == ["shape", "wire"]
    pq.write_table(pa.table({"text": [json.dumps(TELEMETRY, indent=1), None, "{"]}), tmp_path / "texts.parquet")
    result = read(tmp_path / "texts.parquet")
    assert (result.total.records, result.total.blank, result.total.quarantined) == (1, 1, 1)
    pq.write_table(pa.table({"run_id": [b"x"]}), tmp_path / "bytes.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    (tmp_path / "broken.arrow").write_bytes(b"nothing")
    for name, words in (("bytes.parquet", "/run_id holds a value"), ("broken.parquet", "is not a"), ("broken.arrow", "is not a")):
        with pytest.raises(firstnan.ContractError, match=f"{name}: {words}") as refused:
            read(tmp_path / name)
        assert refused.value.kind == "unsupported"


def test_files_of_rows_are_known_by_their_first_bytes_too(tmp_path):
    table = pa.Table.from_pylist([TELEMETRY])
    pq.write_table(table, tmp_path / "part-0")
    with pa.ipc.new_file(tmp_path / "rows.feather", table.schema) as sink:
        sink.write_table(table)
    (tmp_path / "lines").write_bytes(b"PAR")
    os.mkfifo(tmp_path / "pipe")  # looking at it would wait
    forms = {os.path.basename(one.name): one.form for one in sources_of(str(tmp_path / "*"))}
    assert forms == {"part-0": "parquet", "rows.feather": "arrow", "lines": "lines", "pipe": "lines"}
    for name in ("part-0", "rows.feather"):
        assert read(tmp_path / name).total.records == 1


def test_rows_without_columns_are_refused_not_passed_over(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({}), path)
    # The number of rows in the footer, Thrift's zigzag 3 for 0: Arrow itself writes none, other writers do.
    path.write_bytes(path.read_bytes().replace(b"schema\x15\x00\x00\x16\x00", b"schema\x15\x00\x00\x16\x06"))
    assert pq.ParquetFile(path).metadata.num_rows == 3
    with pytest.raises(firstnan.ContractError, match=r"rows\.parquet: is not a whole table of records"):
        read(path)


def test_a_folder_that_cannot_be_listed_costs_no_other_its_lines_and_is_told():
    with tempfile.TemporaryDirectory() as name:  # which another user can come to, unlike tmp_path
        folder = Path(name)
        for below in ("open", "shut", "listed", "store"):
            (folder / below).mkdir()
        for below in ("open", "shut", "listed"):
            (folder / below / "a.jsonl").write_bytes(LINES)
        for place, mode in ((folder, 0o755), (folder / "shut", 0), (folder / "listed", 0o744), (folder / "store", 0o777)):
            place.chmod(mode)
        drop = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        command = [*drop, sys.executable, "-m", "firstnan", "ingest", ".", "--store", "store/new"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        for below in ("shut", "listed"):
            (folder / below).chmod(0o755)
    assert done.returncode == 2, done
    for name in ("shut", "listed/a.jsonl"):
        assert f"{name}: Permission denied" in done.stderr
    assert "Traceback" not in done.stderr
    assert "all lines            6" in done.stdout


def test_a_file_that_lies_about_its_memory_is_refused(tmp_path):
    path = tmp_path / "rows.arrow"
    table = pa.table({"text": ["abcdefgh", json.dumps(TELEMETRY), "x"]})
    with pa.ipc.new_file(path, table.schema) as sink:
        sink.write_table(table)
    whole = path.read_bytes()
    ends = b"".join(end.to_bytes(4, "little") for end in (0, 8, 8 + len(json.dumps(TELEMETRY))))
    for before, after in ((b"abcdefgh", b"abc\xff\xfeghi"[:8]), (ends, ends[:4] + b"\xff\xff\xff\x7f" + ends[8:])):
        assert whole.count(before) == 1
        path.write_bytes(whole.replace(before, after))
        with pytest.raises(firstnan.ContractError, match=r"rows\.arrow: is not a whole table of records"):
            read(path)
    path.write_bytes(whole)
    assert (read(path).total.records, read(path).total.lines) == (1, 3)


def test_the_package_loads_no_arrow_and_names_the_extra_where_it_is_missing(tmp_path):
    (tmp_path / "pyarrow.py").write_text("raise ModuleNotFoundError(\"No module named 'pyarrow'\", name='pyarrow')")
    program = "import sys, firstnan, firstnan.ingest; assert 'pyarrow' not in sys.modules; firstnan.ingest.read(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", program, __file__], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert "pip install 'firstnan[ingest]'" in done.stderr
    assert done.returncode == 1
