"""Locks of files: held by a process, gone with it however it ends (flock(2))."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator


class FileLock:
    """One lock on one file, which is made where it is missing and which another may remove while nobody holds it."""

    def __init__(self, path: str, *, shared: bool, wait: bool = True) -> None:
        """Takes the lock.

        Raises:
            BlockingIOError: another holds it, and `wait` is false.
        """
        self.path = path
        self._descriptor: int | None = None
        how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(descriptor, how)
                if _is_at(descriptor, path):
                    break
            except BaseException:
                os.close(descriptor)
                raise
            # It was removed between the opening and the lock: a lock that nobody else would meet.
            os.close(descriptor)
        self._descriptor = descriptor

    def release(self) -> None:
        """Gives it back; more than once is fine."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.release()


def _is_at(descriptor: int, path: str) -> bool:
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


@contextlib.contextmanager
def locked(path: str, *, shared: bool, wait: bool = True) -> Iterator[None]:
    """Holds the lock for a block.

    Raises:
        BlockingIOError: another holds it, and `wait` is false.
    """
    lock = FileLock(path, shared=shared, wait=wait)
    try:
        yield
    finally:
        lock.release()
