"""What stands around a run: the process that launches it, and what lies in its folder already."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from observed import LIMIT_S, workers_of

import firstnan
from firstnan.supervisor import RunNotRecorded, atomic_json, default_config, drill, launch

COMPLETED = b"""
import os, sys
print('{"event":"completed","monotonic_s":2.5,"step":8,"state_hash":"%s"}' % ("0" * 64), flush=True)
"""

IN_A_PROCESS = """
import json, os, signal, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from firstnan.supervisor import launch
root, what = sys.argv[1:]
worker = sys.stdin.buffer.read()
def go(name):
    return launch(os.path.join(root, name), None, 60.0, _worker=worker)
if what == "ignored":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    records = [go("one")]
elif what == "inherited":
    records = [go("one")]
elif what == "threads":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with ThreadPoolExecutor(3) as pool:
        records = list(pool.map(go, ["one", "two", "three"]))
if os.fork() == 0:  # whether a child is reaped by the kernel again
    os._exit(0)
try:
    os.wait()
    ignored = False
except ChildProcessError:
    ignored = True
print(json.dumps([[[r["status"], r["returncode"]] for r in records], ignored]))
"""


HAND_ON_IGNORED = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("end", "outcome"),
    [(b"", ["completed", 0]), (b"sys.exit(7)", ["failed", 7]), (b"os.kill(os.getpid(), 11)", ["failed", -11])],
)
@pytest.mark.parametrize("what", ["ignored", "inherited", "threads"])
def test_exit_codes_are_kept_where_sigchld_is_ignored(tmp_path: Path, what: str, end: bytes, outcome: list[Any]) -> None:
    argv = [sys.executable, "-c", IN_A_PROCESS, str(tmp_path), what]
    if what == "inherited":
        argv = [sys.executable, "-c", HAND_ON_IGNORED, *argv]
    ended = subprocess.run(argv, input=COMPLETED + end, capture_output=True, check=True)
    records, ignored_after = json.loads(ended.stdout)
    assert records == [outcome] * len(records)
    assert ignored_after, "the process is as it was"
    assert json.loads((tmp_path / "one" / "run.json").read_bytes())["status"] == outcome[0]


# Some event loops reap every child, whosesoever it is.
REAPING = """
import os, signal, sys
from firstnan.supervisor import launch
def reap(*_):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
signal.signal(signal.SIGCHLD, reap)
try:
    launch(sys.argv[1], None, 60.0, _worker=b"pass")
except ChildProcessError as error:
    print(error.strerror)
"""


def test_an_unknown_exit_code_is_not_taken_for_success(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", REAPING, str(tmp_path)], capture_output=True, check=True, text=True)
    assert "exit code is unknown" in ended.stdout
    assert not (tmp_path / "run.json").exists()
    assert workers_of(tmp_path) == []


def test_what_looks_like_a_leftover_stays_unless_it_is_one(tmp_path: Path) -> None:
    leftover, link = f".firstnan-{'0' * 16}.tmp", f".firstnan-{'1' * 16}.tmp"
    (tmp_path / leftover).write_text("half")
    (tmp_path / link).symlink_to(tmp_path)
    (tmp_path / ".firstnan-a.tmp").mkdir()
    (tmp_path / f".firstnan-{'2' * 16}.tmp").mkdir()
    (tmp_path / ".firstnan-mine.tmp").write_text("mine")
    record = launch(tmp_path, None, LIMIT_S, _worker=COMPLETED)
    assert record["status"] == "completed"
    assert json.loads((tmp_path / "run.json").read_bytes()) == record
    stayed = {path.name for path in tmp_path.glob(".firstnan-*")}
    assert stayed == {link, ".firstnan-a.tmp", f".firstnan-{'2' * 16}.tmp", ".firstnan-mine.tmp"}


@pytest.mark.parametrize("name", ["run.json", "config.json", "worker.py"])
def test_a_folder_in_the_place_of_a_file_is_found_before_the_worker_starts(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        launch(tmp_path, None, LIMIT_S, _worker=b"open('ran', 'w')")
    assert not isinstance(caught.value, RunNotRecorded)
    assert name in str(caught.value)
    assert not (tmp_path / "ran").exists()
    assert not list(tmp_path.glob(".firstnan-*"))


@pytest.mark.parametrize("name", ["run.json", "config.json", "worker.py"])
def test_a_pipe_or_a_link_in_the_place_of_a_file_is_replaced(tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("not ours")
    for number, put in enumerate((os.mkfifo, lambda path: os.symlink(elsewhere, path), lambda path: os.symlink("none", path))):
        root = tmp_path / f"root{number}"
        root.mkdir()
        put(root / name)
        record = launch(root, None, LIMIT_S, _worker=COMPLETED)
        assert record["status"] == "completed"
        assert (root / name).is_file()
        assert not (root / name).is_symlink()
        assert json.loads((root / "run.json").read_bytes()) == record
    assert elsewhere.read_text() == "not ours"


MEDDLING = {
    "run.json made a folder": b"os.mkdir('run.json')",
    "a file in the place of root": b"root = os.getcwd(); os.rename(root, root + '-gone'); open(root, 'w').close()",
}


@pytest.mark.parametrize("how", MEDDLING)
def test_an_outcome_that_cannot_be_written_is_in_the_error(tmp_path: Path, how: str) -> None:
    root = tmp_path / "root"
    with pytest.raises(RunNotRecorded) as caught:
        launch(root, None, LIMIT_S, _worker=COMPLETED + MEDDLING[how])
    assert caught.value.filename == str(root / "run.json")
    assert "the run is completed" in str(caught.value)
    assert caught.value.record["events"][0]["event"] == "completed"
    firstnan.decode("run-record", json.dumps(caught.value.record).encode())


def test_a_root_that_the_worker_removed_is_made_again(tmp_path: Path) -> None:
    root = tmp_path / "root"
    record = launch(root, None, LIMIT_S, _worker=COMPLETED + b"import shutil; shutil.rmtree(os.getcwd())")
    assert json.loads((root / "run.json").read_bytes()) == record


# As root, mode bits bind nobody: without CAP_DAC_OVERRIDE (capset(2), version 3) they bind root too.
WITHOUT_OVERRIDE = """
import ctypes, sys
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
assert ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)()) == 0
from firstnan.supervisor import launch
try:
    launch(sys.argv[1], None, 60.0, _worker=b"pass")
except PermissionError:
    print("refused")
"""


def test_a_folder_that_takes_no_file_is_found_before_the_worker_starts(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir(mode=0o500)
    ended = subprocess.run([sys.executable, "-c", WITHOUT_OVERRIDE, str(root)], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("refused\n", "")
    assert list(root.iterdir()) == []


def test_a_loop_of_links_is_an_oserror(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for root in (tmp_path / "a", tmp_path / "a" / "below"):
        with pytest.raises(OSError, match="a"):
            launch(root, None, LIMIT_S, _worker=b"pass")
        with pytest.raises(OSError, match="a"):
            atomic_json(root / "x.json", {})


@pytest.mark.parametrize("call", [launch, drill, lambda path: atomic_json(path, {})], ids=["launch", "drill", "atomic_json"])
@pytest.mark.parametrize("path", ["a\0b", "\ud800", 5, None, b"root", ["root"]], ids=repr)
def test_what_is_no_path_is_refused_by_name(call: Any, path: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(firstnan.ContractError, match=r"^(root|path) ") as caught:
        call(path)
    assert caught.value.pointer in ("/root", "/path")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("config", [[], "", "steps", 0, False, {1: 2}, {None: 1}, {"steps": 2, 1: 2}, [("steps", 2)]], ids=repr)
def test_a_configuration_that_is_no_mapping_of_names_is_refused(tmp_path: Path, config: Any) -> None:
    with pytest.raises(firstnan.ContractError) as caught:
        launch(tmp_path / "root", config)
    assert caught.value.pointer in ("/config", "/?")
    assert not (tmp_path / "root").exists()


def test_an_unknown_name_is_shown_where_it_is_a_plain_word() -> None:
    for name, shown in (("step", "/step"), ("a" * 33, "/?"), ("no\nword", "/?"), ("é", "/?")):
        with pytest.raises(firstnan.ContractError) as caught:
            default_config(**{name: 1})
        assert (caught.value.pointer, caught.value.kind) == (shown, "unknown_name")


def test_a_pipe_as_the_checkpoint_is_refused_at_once(tmp_path: Path) -> None:
    for number, put in enumerate((os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path))):
        root = tmp_path / str(number)
        root.mkdir()
        put(root / "checkpoint.json")
        record = launch(root, {"resume": True}, LIMIT_S)
        assert (record["status"], record["returncode"]) == ("failed", 23)
        assert record["events"][-1]["kind"] == "CheckpointRefused"


def test_a_drill_over_a_pipe_ends(tmp_path: Path) -> None:
    (tmp_path / "interrupted").mkdir()
    os.mkfifo(tmp_path / "interrupted" / "checkpoint.json")
    # In so short a time no worker starts, so none replaces the pipe.
    assert drill(tmp_path, 0.001)["passed"] is False
