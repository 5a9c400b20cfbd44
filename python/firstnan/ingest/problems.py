"""What is wrong with a store, told by name: one error type, and SQLite's errors as what they are."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from collections.abc import Iterator

from firstnan.errors import ContractError

LEAST_ROOM = 1 << 16
"""Bytes below which a disk is full: SQLite's index of the log grows by 32 KiB."""


class StoreError(ContractError):
    """A store cannot be used as it is. `kind` says why, and the message names the file:

    `not_a_store`, `version` (made by a newer firstnan), `corrupt` (the manifest), `missing` or `cut` or `unreadable`
    (a segment that the manifest lists), `busy` (another process held the manifest for too long), `changed` (another
    process has rewritten what this one was rewriting; nothing was done).
    """

    def __init__(self, kind: str, path: str | os.PathLike[str], words: str) -> None:
        super().__init__(f"{os.fspath(path)}: {words}", kind=kind)
        self.path = os.fspath(path)

    def __reduce__(self) -> tuple[object, ...]:
        return _store_error, (self.args, self.__dict__)


def _store_error(arguments: tuple[object, ...], attributes: dict[str, object]) -> StoreError:
    error = StoreError.__new__(StoreError)
    error.args = arguments
    error.__dict__.update(attributes)
    return error


@contextlib.contextmanager
def manifest_errors(path: str) -> Iterator[None]:
    """SQLite's errors about the manifest at `path` as an OSError (a full disk, no permission) or a StoreError."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        # Where there is no room for its index of the log, SQLite says no more than that it cannot write.
        room = code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and os.statvfs(os.path.dirname(path) or ".")
        if code == sqlite3.SQLITE_FULL or (room and room.f_bavail * room.f_frsize < LEAST_ROOM):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path) from None
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StoreError("busy", path, "another process has held the manifest for too long") from None
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), path) from None
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
            raise OSError(errno.EIO, f"the manifest cannot be read or written ({error})", path) from None
        if isinstance(error, sqlite3.ProgrammingError):
            raise  # ours
        # Whatever else SQLite finds: our statements fit the tables that we make.
        raise StoreError("corrupt", path, f"the manifest is damaged ({error})") from None
    except UnicodeDecodeError:
        raise StoreError("corrupt", path, "the manifest is damaged (its schema holds what is no text)") from None
