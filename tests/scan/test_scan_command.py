"""`firstnan scan`: what it prints, its exit codes, and that no mistake of a user ends in a traceback."""

import json
import os
import pty
import re
import subprocess

import numpy as np
import pytest
from safetensors.numpy import save_file
from scan_files import FIRSTNAN, command, entry, safetensors_bytes

import firstnan
from firstnan import ContractError


@pytest.fixture
def checkpoint(tmp_path):
    given = {f"layer.{number}": np.full(3, number, np.float32) for number in range(50)}
    given["layer.7"][:] = np.nan, np.inf, -np.inf
    given["layer.49"][1] = np.nan
    save_file(given, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def test_the_worst_first_then_the_sum(checkpoint):
    done = command("scan", checkpoint)
    assert (done.returncode, done.stderr) == (1, b"")
    lines = done.stdout.decode().splitlines()
    assert lines[0].split("  ")[0] == "tensor"
    assert lines[1].split() == ["layer.7", "float32", "3", "3", "3", "1", "1", "1", "0", "0"]
    assert lines[2].split() == ["layer.49", "float32", "3", "3", "1", "1", "0", "0", "49", "1"]
    assert lines[41] == "and 10 more, all finite: --all lists them"
    assert lines[-1] == "50 tensors, 150 elements: 4 non-finite (2 NaN, 1 +Inf, 1 -Inf) in 2 tensors"
    assert len(command("scan", "--all", checkpoint).stdout.splitlines()) == 53


def test_one_json_document(checkpoint):
    document = json.loads(command("scan", "--json", checkpoint).stdout)
    assert {name: document[name] for name in ("checked", "nonfinite", "nan", "positive_infinity", "negative_infinity")} == {
        "checked": 150, "nonfinite": 4, "nan": 2, "positive_infinity": 1, "negative_infinity": 1,
    }  # fmt: skip
    assert (document["all_finite"], document["complete"], len(document["tensors"])) == (False, True, 50)
    assert document["tensors"][0] == {
        "file": "model.safetensors", "name": "layer.7", "dtype": "float32", "shape": [3], "checked": 3, "nonfinite": 3,
        "nan": 1, "positive_infinity": 1, "negative_infinity": 1, "maximum_absolute_finite": 0.0, "first_nonfinite": 0,
    }  # fmt: skip


def test_all_finite_exits_with_0(tmp_path):
    np.save(tmp_path / "w.npy", np.ones((2, 3)))
    done = command("scan", tmp_path / "w.npy")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().splitlines()[-1] == "1 tensor, 6 elements: all finite"


def test_damage_exits_with_1_and_names_the_tensor(tmp_path):
    path = tmp_path / "w.safetensors"
    path.write_bytes(safetensors_bytes({"bad\n": entry(4, 100), "good": entry(0, 4)}, bytes(4)))
    done = command("scan", path)
    assert done.returncode == 1
    lines = done.stdout.decode().splitlines()
    assert "w.safetensors: bad\\n: refused: data_offsets must end within the file's bytes of tensors [maximum: 4]" in lines
    assert lines[-1] == "1 tensor, 1 elements: all finite; 1 NOT COUNTED"


def test_what_else_a_folder_holds_is_named(tmp_path):
    np.save(tmp_path / "w.npy", np.ones(2))
    (tmp_path / "optimizer.pt").write_bytes(b"")
    (tmp_path / "logs").mkdir()
    done = command("scan", tmp_path)
    assert done.returncode == 0
    assert b"in the folder, not read: logs, optimizer.pt\n" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["scan"],
        ["scan", "no/such/file.safetensors"],
        ["scan", "no/such/folder", "--first-bad"],
        ["scan", ".", "--every"],
        ["scan", ".", "--threads", "0"],
        ["scan", ".", "--threads", "many"],
        ["scan", ".", "--raw-dtype", "float31"],
    ],
    ids=" ".join,
)
def test_misuse_exits_with_2(tmp_path, arguments):
    done = command(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["scan", "."], ["scan", "/dev/null"], ["scan", ".", "--first-bad"], ["scan", "pipe.npz"]])
def test_what_is_no_checkpoint_is_refused(tmp_path, arguments):
    os.mkfifo(tmp_path / "pipe.npz")
    done = command(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, b"")
    assert b"refused" in done.stdout
    assert json.loads(command(*arguments, "--json", cwd=tmp_path).stdout)["refused"]["kind"]


def test_a_file_that_cannot_be_read_costs_no_other_its_counts(tmp_path):
    for name in ("a.npy", "b.npy"):
        np.save(tmp_path / name, np.ones(2))
    (tmp_path / "a.npy").chmod(0)
    tmp_path.chmod(0o755)
    drop = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    done = subprocess.run([*drop, *FIRSTNAN, "scan", "."], cwd=tmp_path, capture_output=True, timeout=120, check=False)
    assert done.returncode == 2, done
    assert b"a.npy: unreadable: " in done.stdout
    assert done.stdout.endswith(b"1 tensor, 2 elements: all finite; 1 NOT COUNTED\n")


def test_a_bar_with_the_rate_on_a_terminal(tmp_path):
    path = tmp_path / "w.safetensors"
    with path.open("wb") as file:
        size = 2 << 30  # a hole
        file.write(safetensors_bytes({"w": entry(0, size)}))
        file.truncate(file.tell() + size)
    leader, follower = pty.openpty()
    process = subprocess.Popen([*FIRSTNAN, "scan", path], stdout=subprocess.PIPE, stderr=follower)
    os.close(follower)
    shown = b""
    while True:
        try:
            shown += os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
    out, _ = process.communicate(timeout=120)
    os.close(leader)
    assert process.returncode == 0
    assert re.search(rb"[0-9.]+ [MGT]B/s", shown)
    assert out.endswith(b"all finite\n")
    assert b"\x1b" not in out


def test_importing_firstnan_does_not_load_it():
    code = "import sys, firstnan; print('zipfile' in sys.modules, firstnan.scan.__name__, 'zipfile' in sys.modules)"
    assert subprocess.check_output([*FIRSTNAN[:1], "-c", code], text=True) == "False scan True\n"


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"threads": True}, {"threads": 1025}, {"raw_dtypes": ["no"]}])
def test_arguments_out_of_bounds(tmp_path, wrong):
    with pytest.raises(ContractError):
        firstnan.scan(tmp_path, **wrong)


@pytest.mark.parametrize("path", [3, b"x", "a\0b", None])
def test_a_path_that_is_none(path):
    with pytest.raises(ContractError, match="path"):
        firstnan.scan(path)
