"""A full disk, for real: a small file system that fills up at one place or another, and more room afterwards."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from stored import digests, listed_files, refused
from telemetry_lines import lines

from firstnan.ingest import Store, ingest

SHARD = 60_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB, where this machine lets us mount one; else an ordinary folder and a limit of file sizes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", folder], capture_output=True)
    yield folder
    if mount.returncode == 0:
        subprocess.run(["umount", "--lazy", folder], check=True)


def resize(disk: Path, size: int) -> None:
    if disk.is_mount():
        subprocess.run(["mount", "-o", f"remount,size={size}", disk], check=True)


# A limit of file sizes is what a machine without mounts has to say no with; it sends SIGXFSZ, which Python ignores.
LIMITED = """
import resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from firstnan.cli import main
sys.exit(main(sys.argv[2:]))
"""


def firstnan(disk: Path, limit: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", LIMITED, str(-1 if disk.is_mount() else limit), *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("size", [60, 104, 132, 160, 192])
def test_ingest_on_a_full_disk_says_so_and_is_completed_later(tmp_path: Path, disk: Path, size: int) -> None:
    source = tmp_path / "a.jsonl"
    source.write_bytes(lines(0, 500, bad_every=40))
    Store.create(tmp_path / "whole", shard_bytes=SHARD).close()
    ingest(source, store=tmp_path / "whole")
    resize(disk, size * 1024)
    store = disk / "store"
    made = False
    with contextlib.suppress(OSError):
        Store.create(store, shard_bytes=SHARD).close()
        made = True
    ended = firstnan(disk, 8 * 1024, "ingest", source, "--store", store)
    assert ended.returncode == 2, ended.stdout
    assert ended.stderr.startswith("firstnan: ")
    assert ended.stderr.count("\n") == 1
    assert ("No space left on device" in ended.stderr) or ("File too large" in ended.stderr)
    assert not list(disk.rglob("*.tmp"))
    resize(disk, 64 << 20)
    ended = firstnan(disk, -1, "ingest", source, "--store", store)
    assert (ended.returncode, ended.stderr) == (1, "")  # 1: some lines are in the quarantine
    assert digests(store) == digests(tmp_path / "whole")
    assert refused(store) == refused(tmp_path / "whole")
    if made:
        assert listed_files(store) == listed_files(tmp_path / "whole")


def test_compaction_on_a_full_disk_changes_nothing(tmp_path: Path, disk: Path) -> None:
    for name, first in (("a", 0), ("b", 250)):
        (tmp_path / name).write_bytes(lines(first, 500, bad_every=40))
    store = disk / "store"
    Store.create(store, shard_bytes=SHARD).close()
    ingest([tmp_path / "a", tmp_path / "b"], store=store)
    before, records = listed_files(store), digests(store)
    used = os.statvfs(disk)
    resize(disk, (used.f_blocks - used.f_bfree + 3) * used.f_frsize)
    ended = firstnan(disk, 8 * 1024, "compact", store)
    assert ended.returncode == 2
    assert "No space left on device" in ended.stderr or "File too large" in ended.stderr
    resize(disk, 64 << 20)
    assert listed_files(store) == before
    ended = firstnan(disk, -1, "compact", store)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert set(digests(store)) == set(records)
    assert max(digests(store).values()) == 1


@pytest.mark.parametrize("form", ["--arrow", "--parquet"])
def test_answer_that_does_not_fit_leaves_no_file(tmp_path: Path, disk: Path, form: str) -> None:
    (tmp_path / "a").write_bytes(lines(0, 5000))
    ingest(tmp_path / "a", store=tmp_path / "store")
    resize(disk, 64 * 1024)
    question = "SELECT record_sha256 FROM stage_telemetry"
    ended = firstnan(disk, 16 * 1024, "sql", tmp_path / "store", question, form, disk / "answer")
    assert ended.returncode == 2
    assert "No space left on device" in ended.stderr or "File too large" in ended.stderr
    assert list(disk.iterdir()) == []
