"""The first bad step of a folder: each possible place, by bisection and by looking at all."""

import json
import signal
import subprocess
import sys
import time
from math import ceil, log2

import numpy as np
import pytest
from safetensors.numpy import save_file
from scan_files import command

import firstnan
from firstnan import ContractError
from firstnan.checkpoints.steps import steps_of


def write(path, bad):
    array = np.ones(4, np.float32)
    if bad:
        array[1] = np.nan
    if path.suffix == ".npz":
        np.savez(path, w=array)
    elif path.suffix == ".npy":
        np.save(path, array)
    else:
        save_file({"w": array}, path)


def series(folder, bad, damaged=()):
    """Steps 100, 200, … of which those numbered in `bad` hold a NaN and those in `damaged` are cut off."""
    for index, is_bad in enumerate(bad):
        path = folder / f"step_{(index + 1) * 100:06}.safetensors"
        write(path, is_bad)
        if index in damaged:
            path.write_bytes(path.read_bytes()[:-3])


@pytest.mark.parametrize("count", range(1, 10))
def test_every_first_bad_step_is_found(tmp_path, count):
    for first in range(count + 1):
        folder = tmp_path / str(first)
        folder.mkdir()
        series(folder, [index >= first for index in range(count)])
        found = firstnan.first_bad(folder)
        assert (found.first_bad.step if found.first_bad else None) == (100 * (first + 1) if first < count else None)
        if first < count:
            assert (found.last_good.step if found.last_good else None) == (100 * first if first else None)
            assert (found.scan.nan, found.scan.tensors[0].counts.first_nonfinite) == (1, 1)
        else:
            assert (found.last_good.step, found.scan) == (100 * count, None)
        assert len(found.looked) <= 1 + ceil(log2(count + 1))
        assert found.looked[0].step == 100 * count
        assert firstnan.first_bad(folder, every=True).first_bad == found.first_bad


def test_many_steps_take_few_looks(tmp_path):
    series(tmp_path, [index >= 77 for index in range(200)])
    found = firstnan.first_bad(tmp_path)
    assert (found.last_good.step, found.first_bad.step, found.steps) == (7700, 7800, 200)
    assert len(found.looked) <= 9
    assert found.assumption


def test_a_step_that_is_good_again_needs_every(tmp_path):
    series(tmp_path, [False, True, False, False, False])
    assert firstnan.first_bad(tmp_path).first_bad is None
    found = firstnan.first_bad(tmp_path, every=True)
    assert (found.first_bad.step, found.last_good.step, found.assumption) == (200, 100, None)
    assert [look.state for look in found.looked] == ["finite", "nonfinite", "finite", "finite", "finite"]


@pytest.mark.parametrize("count", [1, 2, 5, 6])
def test_damaged_steps_are_stepped_over(tmp_path, count):
    for first in range(count + 1):
        for mask in range(2**count):
            damaged = {index for index in range(count) if mask >> index & 1}
            if len(damaged) > 2:
                continue
            folder = tmp_path / f"{first}-{mask}"
            folder.mkdir()
            series(folder, [index >= first for index in range(count)], damaged)
            whole = [index for index in range(count) if index not in damaged]
            found = firstnan.first_bad(folder)
            bad, good = [index for index in whole if index >= first], [index for index in whole if index < first]
            assert (found.first_bad.step if found.first_bad else None) == (100 * (bad[0] + 1) if bad else None)
            if bad:
                assert (found.last_good.step if found.last_good else None) == (100 * (good[-1] + 1) if good else None)
                between = set(range(good[-1] + 1 if good else 0, bad[0]))
                assert {look.step // 100 - 1 for look in found.looked if look.state == "unread"} >= between


def test_names_of_steps(tmp_path):
    for name in ("checkpoint_1000.npz", "w-20.npy", "step_000003.safetensors", "notes.txt", "model-00001-of-00002.safetensors",
                 "400.txt", "final.safetensors"):  # fmt: skip
        (tmp_path / name).write_bytes(b"")
    for name in ("500", "checkpoint-600", "30.orbax-checkpoint-tmp", "30.orbax-checkpoint-tmp-7", "logs"):
        (tmp_path / name).mkdir()
    assert list(steps_of(tmp_path)) == [3, 20, 500, 600, 1000]


def test_two_steps_of_one_number_are_refused(tmp_path):
    for name in ("step_7.npz", "step_07.npy"):
        write(tmp_path / name, False)
    with pytest.raises(ContractError, match="two steps of one number"):
        firstnan.first_bad(tmp_path)


def test_a_folder_without_steps_is_refused(tmp_path):
    with pytest.raises(ContractError, match="has no step"):
        firstnan.first_bad(tmp_path)


def test_steps_in_folders(tmp_path):
    for step in (1000, 2000, 3000):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        write(folder / "model.safetensors", False)
        write(folder / "optimizer.npz", step > 1000)
        (folder / "trainer_state.json").write_text("{}")
    found = firstnan.first_bad(tmp_path)
    assert (found.last_good.name, found.first_bad.name) == ("checkpoint-1000", "checkpoint-2000")
    assert [(entry.file, entry.kind) for entry in found.scan.not_counted] == [("trainer_state.json", "not_read")]
    assert [tensor.file for tensor in found.scan.worst_first()] == ["optimizer.npz", "model.safetensors"]


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"raw_dtypes": ["no"]}])
def test_wrong_options_are_no_unread_steps(tmp_path, wrong):
    series(tmp_path, [False])
    with pytest.raises(ContractError):
        firstnan.first_bad(tmp_path, **wrong)


def test_a_step_whose_writer_was_killed_is_stepped_over(tmp_path):
    series(tmp_path, [False, False])
    path = tmp_path / "step_000300.npz"
    code = f"import numpy as np; np.savez({str(path)!r}, **{{str(n): np.ones(1 << 20) for n in range(400)}})"
    writer = subprocess.Popen([sys.executable, "-c", code])
    while not (path.exists() and path.stat().st_size > 1 << 20):
        assert writer.poll() is None
        time.sleep(0.001)
    writer.kill()
    assert writer.wait() == -signal.SIGKILL
    found = firstnan.first_bad(tmp_path)
    assert [(look.step, look.state) for look in found.looked] == [(300, "unread"), (200, "finite")]
    assert found.first_bad is None
    path.unlink()


def test_the_command_says_what_it_looked_at(tmp_path):
    series(tmp_path, [False, False, True, True], damaged=[1])
    done = command("scan", "--first-bad", tmp_path)
    assert (done.returncode, done.stderr) == (1, b"")
    lines = done.stdout.decode().splitlines()
    assert [line.split() for line in lines[1:5]] == [
        ["400", "step_000400.safetensors", "NON-FINITE", "1"],
        ["200", "step_000200.safetensors", "not", "wholly", "readable", "-"],
        ["100", "step_000100.safetensors", "finite", "0"],
        ["300", "step_000300.safetensors", "NON-FINITE", "1"],
    ]
    text = done.stdout.decode()
    assert "looked at 4 of 4 steps; taken for granted: a checkpoint that is bad stays bad in every later step" in text
    assert "last good  step 100 (step_000100.safetensors)" in text
    assert "first bad  step 300 (step_000300.safetensors)" in text
    assert "1 step before it could not be read wholly: it may be earlier" in text
    document = json.loads(command("scan", "--first-bad", "--every", "--json", tmp_path).stdout)
    assert [look["step"] for look in document["looked"]] == [100, 200, 300, 400]
    assert (document["last_good"]["step"], document["first_bad"]["step"], document["assumption"]) == (100, 300, None)
    assert document["scan"]["nonfinite"] == 1


def test_a_good_folder_exits_with_0(tmp_path):
    series(tmp_path, [False, False])
    done = command("scan", "--first-bad", tmp_path)
    assert done.returncode == 0
    assert b"first bad  none of those looked at" in done.stdout
