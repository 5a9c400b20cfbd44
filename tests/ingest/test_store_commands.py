"""The commands on a store: what they print, their exit codes, and mistakes told without a traceback."""

from __future__ import annotations

import json
import os
import pty
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stored import listed_files
from telemetry_lines import line, lines

from firstnan import ContractError
from firstnan.ingest import Store, ingest

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def firstnan(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-W", "error", "-m", "firstnan", *map(str, arguments)]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=120, **options)  # type: ignore[call-overload]
    assert "Traceback" not in ended.stderr
    return ended  # type: ignore[no-any-return]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "a.jsonl").write_bytes(lines(0, 200, bad_every=40))
    ingest(tmp_path / "a.jsonl", store=tmp_path / "store")
    return tmp_path / "store"


def test_ingest_prints_counts_that_reconcile(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(0, 200, bad_every=40, blank_every=33))
    ended = firstnan("ingest", tmp_path / "a.jsonl", "--store", tmp_path / "store")
    assert (ended.returncode, ended.stderr) == (1, "")
    table = {words[0]: int(words[-1]) for row in ended.stdout.splitlines()[1:6] if (words := row.rsplit(None, 1))}
    assert table == {"stage-telemetry": 189, "(quarantined)": 5, "(blank)": 6, "(known)": 0, "all lines": 200}
    again = firstnan("ingest", tmp_path / "a.jsonl", "--store", tmp_path / "store", "--json")
    summary = json.loads(again.stdout)
    assert again.returncode == 0
    assert (summary["known"], summary["lines"], summary["records"]) == (200, 200, 0)


def test_progress_is_shown_to_a_person_only(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(0, 200))
    terminal, end = pty.openpty()
    argv = [sys.executable, "-m", "firstnan", "ingest", tmp_path / "a.jsonl", "--store", tmp_path / "store"]
    ended = subprocess.run(argv, stdout=subprocess.PIPE, stderr=end, env={**os.environ, "TERM": "xterm", "COLUMNS": "160"})
    os.close(end)
    shown = os.read(terminal, 1 << 16)
    os.close(terminal)
    assert b"lines/s" in shown
    assert b"a.jsonl" in shown
    assert b"\x1b" not in ended.stdout
    assert ended.returncode == 0


def test_interrupt_is_130_and_what_was_committed_stays(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    argv = [sys.executable, "-m", "firstnan", "ingest", "-", "--store", tmp_path / "store"]
    with subprocess.Popen(argv, stdin=reading, stderr=subprocess.PIPE) as process:
        os.close(reading)
        os.write(writing, line(1))
        while not (tmp_path / "store/manifest.sqlite").exists():
            assert process.poll() is None
        process.send_signal(2)
        assert process.stderr is not None
        assert process.stderr.read() == b"firstnan: interrupted\n"
    os.close(writing)
    assert process.returncode == 130


def test_missing_and_unreadable_sources(tmp_path: Path) -> None:
    ended = firstnan("ingest", tmp_path / "nothing", "--store", tmp_path / "store")
    assert (ended.returncode, ended.stderr) == (2, f"firstnan: {tmp_path}/nothing: No such file or directory\n")
    (tmp_path / "cut.jsonl").write_bytes(b"\x1f\x8b\x08\x00cut")
    ended = firstnan("ingest", tmp_path / "cut.jsonl", "--store", tmp_path / "store")
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"firstnan: {tmp_path}/cut.jsonl: ")
    ended = firstnan("ingest", tmp_path / "cut.jsonl", "--store", tmp_path / "store", "--kind", "nothing")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("firstnan: no such kind of record: nothing; the kinds are ")
    ended = firstnan("quarantine", tmp_path / "store", "retry", "--kind", "quarantine")
    assert (ended.returncode, ended.stdout) == (2, "")
    ended = firstnan("ingest", tmp_path / "cut.jsonl", "--store", tmp_path / "store", "--follow")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "cannot be followed" in ended.stderr
    (tmp_path / "empty").mkdir()
    for source, words in (("", "'': No such file or directory"), ("*.none", "*.none: no file fits this pattern"),
                          ("empty", "empty: no file in this folder is named")):
        ended = firstnan("ingest", source, "--store", tmp_path / "store", cwd=tmp_path)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith(f"firstnan: {words}")
    # By a shell: with a function before the program, this process would fork, which JAX, once imported, warns of.
    closed = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "firstnan", "ingest", "-", "--store", tmp_path / "store"]
    ended = subprocess.run(closed, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", "firstnan: standard input: it is closed\n")


def test_a_kind_is_one_of_records(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(0, 2))
    for kind in ("quarantine", "nothing", ""):
        with pytest.raises(ContractError) as refused:
            ingest(tmp_path / "a.jsonl", store=tmp_path / "store", kind=kind)
        assert refused.value.kind == "record_kind"
        assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("command", [
    ("quarantine", "export", "--to"), ("sql", "FROM quarantine", "--parquet"), ("sql", "FROM quarantine", "--arrow"),
])
def test_an_output_goes_where_a_link_or_a_device_says(store: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "file").write_text("before")
    (tmp_path / "link").symlink_to("file")
    assert firstnan(command[0], store, *command[1:], tmp_path / "link").returncode == 0
    assert (tmp_path / "link").is_symlink()
    assert len((tmp_path / "file").read_bytes()) >= 66
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        assert firstnan(command[0], store, *command[1:], pipe).returncode == 0
        assert len(reader.communicate(timeout=60)[0]) >= 66
    assert pipe.is_fifo()
    (tmp_path / "folder").mkdir()
    ended = firstnan(command[0], store, *command[1:], tmp_path / "folder")
    assert (ended.returncode, ended.stderr) == (2, f"firstnan: {tmp_path}/folder: Is a directory\n")
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


ON_A_STORE = [("sql", "SELECT 1"), ("quarantine",), ("compact",), ("quarantine", "retry"), ("quarantine", "export")]


def on(command: tuple[str, ...], store: Path) -> subprocess.CompletedProcess[str]:
    return firstnan(command[0], store, *command[1:])


@pytest.mark.parametrize("command", ON_A_STORE)
def test_what_is_no_store(tmp_path: Path, command: tuple[str, ...]) -> None:
    ended = on(command, tmp_path / "nothing")
    assert (ended.returncode, ended.stderr) == (2, f"firstnan: {tmp_path}/nothing: No such file or directory\n")
    ended = on(command, tmp_path)
    assert (ended.returncode, ended.stderr) == (1, "")
    assert ended.stdout == f"refused (not_a_store): {tmp_path}: not a store of firstnan: there is no manifest.sqlite\n"
    with sqlite3.connect(tmp_path / "manifest.sqlite") as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    assert "not the manifest of a store of firstnan" in on(command, tmp_path).stdout
    (tmp_path / "manifest.sqlite").write_bytes(b"no SQLite file at all, and long enough to have a header of its own" * 20)
    assert on(command, tmp_path).stdout.startswith(f"refused (corrupt): {tmp_path}/manifest.sqlite: the manifest is damaged")


@pytest.mark.parametrize("damage", [
    "DROP TABLE segments", "DROP TABLE meta", "ALTER TABLE meta RENAME COLUMN value TO worth",
    "UPDATE segments SET file = file || CAST(x'ff' AS TEXT)",
    "UPDATE sqlite_master SET sql = CAST(x'ff' AS TEXT) WHERE name = 'meta'",
    "UPDATE meta SET value = 1 WHERE name = 'duplicates'",
])  # fmt: skip
def test_a_manifest_with_other_tables_or_text_is_damaged(store: Path, damage: str) -> None:
    (store.parent / "b.jsonl").write_bytes(lines(100, 200))
    ingest(store.parent / "b.jsonl", store=store)
    with sqlite3.connect(store / "manifest.sqlite", isolation_level=None) as connection:
        connection.execute("PRAGMA writable_schema = 1")
        connection.execute("PRAGMA foreign_keys = 0")
        connection.execute(damage)
    connection.close()
    ended = firstnan("compact", store)
    assert (ended.returncode, ended.stderr) == (1, "")
    assert ended.stdout.startswith(f"refused (corrupt): {store}/manifest.sqlite: the ")


@pytest.mark.parametrize("command", [*ON_A_STORE, ("ingest",)])
def test_store_of_a_newer_version_is_refused_by_name(store: Path, command: tuple[str, ...]) -> None:
    with sqlite3.connect(store / "manifest.sqlite") as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    ingesting = ("ingest", store.parent / "a.jsonl", "--store", store)
    ended = firstnan(*ingesting) if command == ("ingest",) else on(command, store)
    assert (ended.returncode, ended.stderr) == (1, "")
    expected = f"refused (version): {store}/manifest.sqlite: a manifest of version 2; this firstnan knows version 1\n"
    assert ended.stdout == expected


@pytest.mark.parametrize("command", [("sql", "SELECT count(*) FROM stage_telemetry"), ("compact",)])
@pytest.mark.parametrize("damage", ["missing", "cut", "unreadable"])
def test_damaged_segment_is_named(store: Path, command: tuple[str, ...], damage: str) -> None:
    (file,) = (store / file for file in listed_files(store) if "stage-telemetry" in file)
    if damage == "missing":
        file.unlink()
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    else:
        data = bytearray(file.read_bytes())
        data[-200:-8] = b"\xff" * 192
        file.write_bytes(data)
    ended = on(command, store)
    assert (ended.returncode, ended.stderr) == (1, "")
    assert ended.stdout.startswith(f"refused ({damage}): {file}: a segment of the store ")
    refusal = json.loads(on((*command, "--json"), store).stdout)["refused"]
    assert refusal["kind"] == damage


def test_sql_as_table_json_arrow_and_parquet(tmp_path: Path, store: Path) -> None:
    columns = "stage, count(*) AS n, 'nan'::double AS x, record_sha256"
    question = f"SELECT {columns} FROM stage_telemetry GROUP BY ALL ORDER BY 4 LIMIT 3"
    shown = firstnan("sql", store, question)
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[0].split() == ["stage", "n", "x", "record_sha256"]
    assert shown.stdout.endswith("3 rows\n")
    answer = json.loads(firstnan("sql", store, question, "--json").stdout)
    assert answer["columns"] == ["stage", "n", "x", "record_sha256"]
    assert [row[1:3] for row in answer["rows"]] == [[1, "nan"]] * 3
    assert all(len(row[3]) == 64 for row in answer["rows"])
    done = firstnan("sql", store, question, "--arrow", tmp_path / "a.arrow")
    assert done.stdout == f"3 rows written to {tmp_path}/a.arrow\n"
    done = firstnan("sql", store, question, "--parquet", tmp_path / "a.parquet", "--json")
    assert json.loads(done.stdout) == {"file": f"{tmp_path}/a.parquet", "rows": 3}
    with pa.ipc.open_file(tmp_path / "a.arrow") as file:
        table = file.read_all()
    assert str(table.to_pylist()) == str(pq.read_table(tmp_path / "a.parquet").to_pylist())
    assert [digest.hex() for digest in table.column(3).to_pylist()] == [row[3] for row in answer["rows"]]


def test_every_kind_is_a_table(store: Path) -> None:
    (count,) = json.loads(firstnan("sql", store, "SELECT count(*) FROM training_run_evidence", "--json").stdout)["rows"][0]
    assert count == 0
    shown = firstnan("sql", store, "SHOW TABLES").stdout
    assert "quarantine" in shown
    assert "stage_telemetry" in shown


@pytest.mark.parametrize("question", [
    "SELEC 1", "SELECT * FROM nothing", "SELECT 1; SELECT 2", "", "COPY (SELECT 1) TO 'out.csv'", "CREATE TABLE t AS SELECT 1",
    "DROP VIEW stage_telemetry", "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM 'x.parquet'", "ATTACH 'x.db'",
    "SET enable_external_access = true", "INSTALL httpfs", "SELECT * FROM read_text('a.jsonl')", "PRAGMA database_list",
    "SELECT error('on purpose')",
])  # fmt: skip
def test_question_that_does_not_read_the_store_alone(store: Path, question: str) -> None:
    before = sorted(path.name for path in store.parent.iterdir())
    ended = firstnan("sql", store, question, cwd=store.parent)
    assert ended.returncode == 2
    assert ended.stderr.startswith("firstnan: ")
    assert ended.stderr.count("\n") == 1
    assert sorted(path.name for path in store.parent.iterdir()) == before


def test_quarantine_is_shown_escaped(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(line(1) + b'{"\x1b[31m": "\xff\xe2\x80\xae"}\n' + b'{"a": "' + b"y" * 500 + b"\n")
    ingest(tmp_path / "a.jsonl", store=tmp_path / "store")
    ended = firstnan("quarantine", tmp_path / "store")
    assert (ended.returncode, ended.stderr) == (1, "")
    first, raw, *_, last = ended.stdout.splitlines()
    assert first.startswith(f"{tmp_path}/a.jsonl:2:{len(line(1))}: refused (wire, ")
    assert raw == r'    {"\x1b[31m": "\xff\u202e"}'
    assert "(507 bytes)" in ended.stdout
    assert last == "2 in quarantine"
    assert firstnan("quarantine", tmp_path / "store", "--limit", 1).stdout.endswith("2 in quarantine, 1 shown\n")
    shown = json.loads(firstnan("quarantine", tmp_path / "store", "--json").stdout)
    assert shown["quarantined"] == 2
    assert [row["line_number"] for row in shown["lines"]] == [2, 3]


def test_quarantine_is_exported_as_it_was(tmp_path: Path, store: Path) -> None:
    expected = b"".join(part + b"\n" for part in (tmp_path / "a.jsonl").read_bytes().split(b"\n")
                        if b"junk" in part or b"not json" in part)  # fmt: skip
    argv = [sys.executable, "-m", "firstnan", "quarantine", store, "export"]
    assert subprocess.run(argv, capture_output=True, check=True).stdout == expected
    assert firstnan("quarantine", store, "export", "--to", tmp_path / "out").returncode == 0
    assert (tmp_path / "out").read_bytes() == expected
    assert firstnan("quarantine", store, "export", "--to", tmp_path / "out.parquet").returncode == 0
    with Store.open(store) as opened, opened.snapshot() as snapshot:
        assert pq.read_table(tmp_path / "out.parquet").equals(snapshot.table("quarantine"))


def test_quarantine_is_retried_with_a_kind(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(0, 20))
    firstnan("ingest", tmp_path / "a.jsonl", "--store", tmp_path / "store", "--kind", "stage-message")
    ended = firstnan("quarantine", tmp_path / "store", "retry", "--kind", "stage-telemetry")
    assert (ended.returncode, ended.stdout) == (0, "stage-telemetry: 20 moved\n20 lines retried: 20 passed, 0 left\n")
    assert firstnan("quarantine", tmp_path / "store").stdout == "0 in quarantine\n"
    assert firstnan("quarantine", tmp_path / "store", "--kind", "stage-telemetry").returncode == 2
    assert firstnan("quarantine", tmp_path / "store", "--to", "x").returncode == 2
    assert firstnan("quarantine", tmp_path / "store", "throw").returncode == 2


def test_compact_says_what_it_did(tmp_path: Path, store: Path) -> None:
    (tmp_path / "b.jsonl").write_bytes(lines(100, 200))
    ingest(tmp_path / "b.jsonl", store=store)
    ended = firstnan("compact", store)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "3 segments are 2 now; 98 records came twice\n2 files deleted, 0 kept for readers\n"
    counts = json.loads(firstnan("compact", store, "--json").stdout)["counts"]
    assert counts == {"lines": 400, "records": 297, "quarantined": 5, "blank": 0, "duplicates": 98}


def test_extra_that_is_missing_is_named(tmp_path: Path, store: Path) -> None:
    (tmp_path / "blocked").mkdir()
    for library in ("pyarrow", "duckdb"):
        code = f'raise ModuleNotFoundError("No module named {library!r}", name="{library}")\n'
        (tmp_path / "blocked" / f"{library}.py").write_text(code)
        path = {**os.environ, "PYTHONPATH": os.fspath(tmp_path / "blocked")}
        ended = firstnan("sql", store, "SELECT 1", env=path)
        assert ended.returncode == 2
        assert "pip install 'firstnan[ingest]'" in ended.stderr
    shutil.rmtree(tmp_path / "blocked")


def test_an_answer_has_values_that_python_lacks(store: Path) -> None:
    question = "SELECT 'infinity'::DATE AS a, TIMESTAMP '290000-01-01' AS b, make_timestamp_ns(1) AS c, DATE '2020-01-01' AS d"
    ended = firstnan("sql", store, question, "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    ((*far, near),) = json.loads(ended.stdout)["rows"]
    assert near == "2020-01-01"
    assert len(far) == 3
    assert far[1] == "<value out of range: 9089348860800000000>"  # microseconds
    assert far[2].endswith("00:00:00.000000001")
    assert far[1] in firstnan("sql", store, question).stdout


@pytest.mark.parametrize(("command", "code"), [(("sql", "SELECT '\udcff'"), 2), (("timeline", "\udcff"), 1)])
def test_a_question_that_is_no_text(store: Path, command: tuple[str, str], code: int) -> None:
    ended = on(command, store)
    assert ended.returncode == code
    assert "holds what is no Unicode text" in ended.stdout + ended.stderr
