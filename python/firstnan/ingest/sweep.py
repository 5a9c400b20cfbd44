"""Deletes what a store no longer needs: segments that were replaced, and what crashes left."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from firstnan.ingest.locks import FileLock
from firstnan.ingest.manifest import WRITERS
from firstnan.ingest.segments import FOLDER
from firstnan.ingest.snapshot import LEASES
from firstnan.ingest.store import Store

LEFTOVER_AGE_S = 3600.0
PATIENCE_S = 10.0
PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep did.

    Attributes:
        replaced: files deleted that compaction, a retry or a longer line had replaced.
        leftovers: files deleted that no manifest lists.
        kept: replaced files that a reader may still need; a later sweep takes them.
        busy: whether nothing was done, since writers were at work all the time.
    """

    replaced: int = 0
    leftovers: int = 0
    kept: int = 0
    busy: bool = False


def sweep(store: Store, *, leftover_age_s: float = LEFTOVER_AGE_S, patience_s: float = PATIENCE_S) -> Swept:
    """Deletes files that are not of the store and that nobody reads.

    It works while no writer is between a file and its commit. Segments written elsewhere for a later commit hold no lock,
    hence the age.

    Args:
        store: the store.
        leftover_age_s: how long ago a file that no manifest lists was last written, at least.
        patience_s: how long to wait for writers.

    Raises:
        OSError: a file cannot be deleted.
    """
    alone = _alone(os.path.join(store.folder, WRITERS), patience_s)
    if alone is None:
        return Swept(busy=True)
    try:
        with store.manifest.reading() as connection:
            graves = connection.execute("SELECT file, generation FROM tombstones ORDER BY file").fetchall()
            listed = {file for (file,) in connection.execute("SELECT file FROM segments")}
        # Only now: whoever takes a lease from here on reads a list without these files.
        oldest = _oldest_lease(store.folder)
        free = [file for file, generation in graves if oldest is None or generation <= oldest]
        for file in free:
            _delete(os.path.join(store.folder, file))
        with store.manifest.writing() as connection:
            connection.executemany("DELETE FROM tombstones WHERE file = ?", [(file,) for file in free])
        leftovers = 0
        named = listed | {file for file, _ in graves}
        for path in _segment_files(store.folder):
            if os.path.relpath(path, store.folder) not in named and _age(path) >= leftover_age_s:
                leftovers += _delete(path)
        return Swept(len(free), leftovers, len(graves) - len(free))
    finally:
        alone.release()


def _alone(path: str, patience_s: float) -> FileLock | None:
    end = time.monotonic() + patience_s
    while True:
        try:
            return FileLock(path, shared=False, wait=False)
        except BlockingIOError:
            if time.monotonic() >= end:
                return None
            time.sleep(PAUSE_S)


def _oldest_lease(folder: str) -> int | None:
    """The oldest generation that somebody reads; the files of the leases that nobody holds are removed."""
    leases = os.path.join(folder, LEASES)
    held = []
    for name in os.listdir(leases) if os.path.isdir(leases) else ():
        if not name.isdecimal():
            continue
        path = os.path.join(leases, name)
        try:
            lease = FileLock(path, shared=False, wait=False)
        except BlockingIOError:
            held.append(int(name))
            continue
        os.unlink(path)
        lease.release()
    return min(held, default=None)


def _segment_files(folder: str) -> Iterator[str]:
    for above, _, names in os.walk(os.path.join(folder, FOLDER)):
        yield from (os.path.join(above, name) for name in sorted(names))


def _age(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime
    except FileNotFoundError:
        return 0.0


def _delete(path: str) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True
