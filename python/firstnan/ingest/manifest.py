"""The manifest of a store: one SQLite file, which alone says what the store has. docs/store.md has its tables."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator

from firstnan.durable import make_folders, sync_folder
from firstnan.ingest.locks import locked
from firstnan.ingest.problems import StoreError, manifest_errors

NAME = "manifest.sqlite"
WRITERS = "writers.lock"
"""Held by whoever puts segments in place and commits them (shared), and by whoever makes the store or sweeps it (alone)."""
VERSION = 1
APPLICATION_ID = 0x464E414E
"""SQLite's mark of whose file it is: `FNAN`."""
BUSY_S = 60.0
TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE shards (
    id INTEGER PRIMARY KEY, sha256 TEXT NOT NULL, kind TEXT NOT NULL, bytes INTEGER NOT NULL, ended INTEGER NOT NULL,
    lines INTEGER NOT NULL, records INTEGER NOT NULL, quarantined INTEGER NOT NULL, blank INTEGER NOT NULL,
    UNIQUE (sha256, kind), CHECK (lines = records + quarantined + blank)) STRICT;
CREATE TABLE places (
    start INTEGER NOT NULL, path TEXT NOT NULL, shard INTEGER NOT NULL REFERENCES shards (id), name TEXT NOT NULL,
    first_line INTEGER NOT NULL, PRIMARY KEY (start, path, shard)) STRICT, WITHOUT ROWID;
CREATE INDEX places_of_shard ON places (shard);
CREATE INDEX places_of_path ON places (path);
CREATE TABLE segments (
    id INTEGER PRIMARY KEY, file TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, rows INTEGER NOT NULL, bytes INTEGER NOT NULL,
    shard INTEGER REFERENCES shards (id), path TEXT NOT NULL, start INTEGER NOT NULL) STRICT;
CREATE INDEX segments_of_shard ON segments (shard);
CREATE TABLE tombstones (file TEXT PRIMARY KEY, generation INTEGER NOT NULL) STRICT, WITHOUT ROWID;
"""


class Manifest:
    """A connection, for the thread that opened it."""

    def __init__(self, folder: str, connection: sqlite3.Connection) -> None:
        self.path = os.path.join(folder, NAME)
        self._connection = connection

    @classmethod
    def open(cls, folder: str) -> Manifest:
        """The manifest of an existing store.

        Raises:
            FileNotFoundError: there is nothing there.
            StoreError: `not_a_store`, `version` or `corrupt`.
            OSError: it cannot be read.
        """
        path = os.path.join(folder, NAME)
        os.stat(folder)
        if not os.path.isfile(path):
            raise StoreError("not_a_store", folder, f"not a store of firstnan: there is no {NAME}")
        return cls._opened(folder, path, None)

    @classmethod
    def create(cls, folder: str, meta: dict[str, int]) -> Manifest:
        """The manifest of a store, made where there is none yet; two may do so at once, and a crash leaves no half of it.

        Raises: as `open`.
        """
        path = os.path.join(folder, NAME)
        if os.path.lexists(folder) and not os.path.isfile(path) and set(os.listdir(folder)) - {WRITERS}:
            raise StoreError("not_a_store", folder, "not a store of firstnan, and not empty")
        make_folders(os.path.abspath(folder))
        with locked(os.path.join(folder, WRITERS), shared=False):
            manifest = cls._opened(folder, path, meta)
        sync_folder(folder)
        return manifest

    @classmethod
    def _opened(cls, folder: str, path: str, meta: dict[str, int] | None) -> Manifest:
        with manifest_errors(path):
            connection = _connected(path, create=meta is not None)
            manifest = cls(folder, connection)
            try:
                one = connection.execute
                application, version = (one(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
                if application == APPLICATION_ID and version != VERSION:
                    words = f"a manifest of version {version}; this firstnan knows version {VERSION}"
                    raise StoreError("version", path, words)
                if application != APPLICATION_ID:
                    if meta is None or version or one("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                        raise StoreError("not_a_store", path, "not the manifest of a store of firstnan")
                    manifest._make(meta)
            except BaseException:
                manifest.close()
                raise
            return manifest

    def _make(self, meta: dict[str, int]) -> None:
        self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
        with self.writing() as connection:
            for statement in filter(str.strip, TABLES.split(";")):
                connection.execute(statement)
            everything = {"generation": 0, "duplicates": 0, **meta}
            connection.executemany("INSERT INTO meta VALUES (?, ?)", everything.items())
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction that writes: on disk when the block ends, undone where it raises."""
        with manifest_errors(self.path), self._transaction("BEGIN IMMEDIATE"):
            yield self._connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One transaction that reads: one state of the store."""
        with manifest_errors(self.path), self._transaction("BEGIN"):
            yield self._connection

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        self._connection.execute(begin)
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            # A full disk may have ended the transaction already.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def meta(self, name: str) -> int:
        """A number of the store: `shard_bytes`, `max_line_bytes`, `generation`, `duplicates`."""
        with manifest_errors(self.path):
            row = self._connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise StoreError("corrupt", self.path, f"the manifest lacks {name}")
        return int(row[0])

    def close(self) -> None:
        self._connection.close()


def _connected(path: str, *, create: bool) -> sqlite3.Connection:
    # The path is quoted, since SQLite reads `?` and `%` of a URI.
    uri = "file:" + "".join(f"%{byte:02x}" for byte in os.fsencode(os.path.abspath(path))) + ("" if create else "?mode=rw")
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_S, check_same_thread=False)
    try:
        # FULL: a commit outlives a loss of power (sqlite.org/pragma.html#pragma_synchronous).
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection
