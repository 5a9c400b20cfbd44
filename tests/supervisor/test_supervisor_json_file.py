"""atomic_json and digest: the bytes, the refusals, a full disk, a writer killed at any moment."""

from __future__ import annotations

import json
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import firstnan
from firstnan.supervisor import atomic_json, digest, worker

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_digest_is_what_the_worker_computes_by_itself(value: Any) -> None:
    assert digest(value) == worker.digest(value)


def test_digest_of_a_known_value() -> None:
    # sha256sum of the bytes {"a":1.0,"b":[true,null]}
    assert digest({"b": [True, None], "a": 1.0}) == "e7e6449090b8ae32df18bc1220a5c55d6d44fe573f47b27189a7f5b049a5d363"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [-float("inf")], {"a": {"b": float("nan")}}])
def test_non_finite_is_refused_and_the_old_file_stays(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "value.json"
    atomic_json(path, {"old": 1})
    with pytest.raises(firstnan.ContractError):
        digest(value)
    with pytest.raises(firstnan.ContractError):
        atomic_json(path, value)
    assert path.read_bytes() == b'{"old":1}\n'
    assert list(tmp_path.iterdir()) == [path]


def test_refused_value_makes_no_folder(tmp_path: Path) -> None:
    with pytest.raises((TypeError, ValueError)):
        atomic_json(tmp_path / "a" / "value.json", object())
    assert list(tmp_path.iterdir()) == []


def test_makes_parents_and_writes_canonical_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "value.json"
    atomic_json(str(path), {"z": [1, 1.0], "a": "\u00e9"})
    assert path.read_bytes() == b'{"a":"\\u00e9","z":[1,1.0]}\n'


def test_failure_leaves_no_temporary(tmp_path: Path) -> None:
    (tmp_path / "value.json" / "in-the-way").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        atomic_json(tmp_path / "value.json", {})
    assert [path.name for path in tmp_path.iterdir()] == ["value.json"]


WRITE_TOO_MUCH = """
import errno, resource, sys
from firstnan.supervisor import atomic_json
path, limit = sys.argv[1], int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
atomic_json(path, {"old": 1})
try:
    atomic_json(path, {"new": "x" * 300_000})
except OSError as error:
    print(errno.errorcode[error.errno])
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB, where this machine lets us mount one; else an ordinary folder."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], capture_output=True)
    yield disk
    if mount.returncode == 0:
        subprocess.run(["umount", disk], check=True)


def test_full_disk(small_disk: Path) -> None:
    on_real_disk = small_disk.is_mount()
    limit = resource.RLIM_INFINITY if on_real_disk else 65_536
    argv = [sys.executable, "-c", WRITE_TOO_MUCH, str(small_disk / "value.json"), str(limit)]
    said = subprocess.run(argv, capture_output=True, check=True, text=True).stdout.strip()
    assert said == ("ENOSPC" if on_real_disk else "EFBIG")
    assert (small_disk / "value.json").read_bytes() == b'{"old":1}\n'
    assert [path.name for path in small_disk.iterdir()] == ["value.json"]


WRITE_FOR_EVER = """
import itertools, sys
from firstnan.supervisor import atomic_json
for turn in itertools.count():
    atomic_json(sys.argv[1], {"fill": "ab"[turn % 2] * 200_000})
"""


def fill_of(path: Path) -> str:
    """The one letter that a whole file is filled with."""
    fill = json.loads(path.read_bytes())["fill"]
    assert fill in ("a" * 200_000, "b" * 200_000)
    return str(fill[0])


def test_reader_never_sees_a_mix_while_writers_are_killed(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    atomic_json(path, {"fill": "a" * 200_000})
    seen = set()
    for _ in range(8):
        reads = random.randint(1, 400)
        with subprocess.Popen([sys.executable, "-c", WRITE_FOR_EVER, str(path)]) as writer:
            try:
                before = path.stat().st_ino
                while path.stat().st_ino == before:  # until it writes
                    assert writer.poll() is None
                for _ in range(reads):
                    seen.add(fill_of(path))
            finally:
                writer.send_signal(signal.SIGKILL)
        fill_of(path)
    assert seen == {"a", "b"}
