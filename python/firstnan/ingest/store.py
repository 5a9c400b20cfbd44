"""The store: Parquet segments, and a SQLite manifest that alone says which of them exist. docs/store.md"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firstnan.arguments import checked_integer, checked_path, refused_argument
from firstnan.ingest.locks import FileLock, locked
from firstnan.ingest.manifest import WRITERS, Manifest
from firstnan.ingest.problems import StoreError
from firstnan.ingest.segments import QUARANTINE, Place, Receipt, Segment, Written, write_shard
from firstnan.ingest.snapshot import Snapshot, snapshot_of
from firstnan.ingest.sources import utf8_name

if TYPE_CHECKING:
    import pyarrow as pa

SHARD_BYTES = 16 << 20
MAX_LINE_BYTES = 1 << 20
SEGMENT_COLUMNS = "file, segments.kind, rows, segments.bytes, path, start"


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of every line that a store has taken in: `lines == records + quarantined + blank + duplicates`, always.

    Attributes:
        lines: of all shards.
        records: rows of the tables of records.
        quarantined: rows of the quarantine.
        blank: lines of nothing but white space.
        duplicates: records that compaction has dropped, since another row has the same digest.
    """

    lines: int
    records: int
    quarantined: int
    blank: int
    duplicates: int

    @property
    def reconcile(self) -> bool:
        return self.lines == self.records + self.quarantined + self.blank + self.duplicates


@dataclass(frozen=True, slots=True)
class Known:
    """A shard that the store has, seen at some place of some text."""

    sha256: str
    bytes: int
    lines: int
    ended: bool


@dataclass(frozen=True, slots=True)
class OpenLine:
    """A line that had no end: where it began, and the SHA-256 and number of its bytes then."""

    start: int
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A segment of the store; the shard (its number in the manifest) where its rows are of one alone; whether the last line
    of that has its end."""

    segment: Segment
    shard: int | None
    ended: bool


class Store:
    """A folder of segments and their manifest.

    A Store is used by one thread at a time; any number of threads and processes of one host may have one each on the
    same folder. Readers need `snapshot()` only: one consistent state, whatever writers, compaction and sweeps do meanwhile.

    Attributes:
        folder: where it is.
        shard_bytes: the fewest bytes of a shard that is not the last of its text; fixed when the store is made, since a
            shard is known again only where it is cut again in the same way.
        max_line_bytes: the most bytes of a line, likewise.
    """

    def __init__(self, folder: str, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self.shard_bytes = manifest.meta("shard_bytes")
        self.max_line_bytes = manifest.meta("max_line_bytes")

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Store:
        """An existing store.

        Raises:
            FileNotFoundError: there is nothing there.
            StoreError: no store (`not_a_store`), one of a newer firstnan (`version`), or a damaged manifest (`corrupt`).
        """
        where = checked_folder(folder)
        return cls(where, Manifest.open(where))

    @classmethod
    def create(
        cls, folder: str | os.PathLike[str], *, shard_bytes: int = SHARD_BYTES, max_line_bytes: int = MAX_LINE_BYTES
    ) -> Store:
        """A store, made where there is none: nothing at `folder`, or an empty folder.

        Args:
            folder: where.
            shard_bytes: 1 to 2^30; an existing store keeps its own.
            max_line_bytes: 1 to 2^28; likewise.

        Raises:
            StoreError: as `open`; also where the folder holds something else.
            OSError: it cannot be made.
        """
        where = checked_folder(folder)
        meta = {
            "shard_bytes": checked_integer("shard_bytes", shard_bytes, 1, 1 << 30),
            "max_line_bytes": checked_integer("max_line_bytes", max_line_bytes, 1, 1 << 28),
        }
        return cls(where, Manifest.create(where, meta))

    def close(self) -> None:
        self.manifest.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def snapshot(self) -> Snapshot:
        """The store as it is now, for reading; close it, or use it as a context, so that old files can go."""
        return snapshot_of(self.folder, self.manifest)

    def writing(self) -> FileLock:
        """What is held from before a segment is written until it is committed, so that no sweep takes it for a leftover."""
        return FileLock(os.path.join(self.folder, WRITERS), shared=True)

    def add(self, receipt: Receipt, tables: Mapping[str, pa.Table]) -> bool:
        """Writes the rows of a shard and commits them; whether the store did not have it.

        Raises: as `firstnan.ingest.segments.write_shard` and `commit`.
        """
        with locked(os.path.join(self.folder, WRITERS), shared=True):
            return self.commit([write_shard(self.folder, receipt, tables)]) == 1

    def commit(self, written: Iterable[Written]) -> int:
        """Makes shards part of the store in one transaction, on disk when this returns; how many it did not have.

        A shard that it has is not taken again: only the place where it was seen is noted. What its line
        without an end had been (`Receipt.replaces`) goes, unless another source still has it.

        Raises:
            OSError: the manifest cannot be written, as on a full disk; nothing of this is in the store then.
            StoreError: `busy` or `corrupt`.
        """
        with self.manifest.writing() as connection:
            return sum(_take(connection, each) for each in written)

    def note(self, sha256: str, kind: str | None, place: Place, replaces: str | None = None) -> bool:
        """Notes one more place of a shard that the store has; False where the store does not have it.

        Args:
            sha256, kind, place, replaces: as in a `Receipt`.
        """
        with self.manifest.reading() as connection:
            if _shard(connection, sha256, kind) is None:
                return False
        with self.manifest.writing() as connection:
            shard = _shard(connection, sha256, kind)
            if shard is not None:
                _place(connection, place, shard, sha256, kind, replaces)
            return shard is not None

    def known_at(self, start: int, kind: str | None) -> list[Known]:
        """The shards that were seen at this byte of a text, of whatever source, the shortest first."""
        with self.manifest.reading() as connection:
            rows = connection.execute(
                "SELECT DISTINCT sha256, bytes, lines, ended FROM places JOIN shards ON shards.id = shard"
                " WHERE start = ? AND kind = ? ORDER BY bytes",
                (start, kind or ""),
            )
            return [Known(sha256, size, lines, bool(ended)) for sha256, size, lines, ended in rows]

    def open_lines(self, path: str, kind: str | None) -> list[OpenLine]:
        """The lines of a source that had no end when they were seen."""
        with self.manifest.reading() as connection:
            rows = connection.execute(
                "SELECT start, sha256, bytes FROM places JOIN shards ON shards.id = shard"
                " WHERE path = ? AND kind = ? AND NOT ended ORDER BY start",
                (path, kind or ""),
            )
            return [OpenLine(*row) for row in rows]

    def forget(self, line: OpenLine, path: str, kind: str | None) -> None:
        """A line that had no end is another by now, and the store has that one too."""
        with self.manifest.writing() as connection:
            _forget(connection, path, line.start, line.sha256, kind)

    def counts(self) -> Counts:
        """What became of every line, as the manifest has it."""
        with self.manifest.reading() as connection:
            return counts_of(connection)

    def listed(self, kind: str) -> list[Listed]:
        """The segments of a kind, or of `quarantine`, in the order of where their lines came from."""
        with self.manifest.reading() as connection:
            rows = connection.execute(
                f"SELECT {SEGMENT_COLUMNS}, shard, coalesce(ended, 1) FROM segments LEFT JOIN shards ON shards.id = shard"
                " WHERE segments.kind = ? ORDER BY path, start, file",
                (kind,),
            )
            return [Listed(Segment(*row[:6]), row[6], bool(row[7])) for row in rows]

    def replace(self, old: Iterable[str], new: Iterable[tuple[Segment, int | None]], duplicates: int = 0) -> None:
        """Puts segments in the place of others, in one transaction. The old files stay until `firstnan.ingest.sweep`.

        Args:
            old: the files that go; each must be of the store.
            new: what has their rows now, and the shard (its number in the manifest) where they are of one alone.
            duplicates: records that are dropped with this.

        Raises:
            StoreError: `changed`, where one of `old` is no longer of the store; then nothing was done.
        """
        with self.manifest.writing() as connection:
            remove_segments(connection, old, self.manifest.path)
            for segment, shard in new:
                insert_segment(connection, segment, shard)
            connection.execute("UPDATE meta SET value = value + ? WHERE name = 'duplicates'", (duplicates,))
            if not counts_of(connection).reconcile:
                raise StoreError("corrupt", self.manifest.path, "the counts of the manifest do not reconcile; nothing was done")


def checked_folder(folder: str | os.PathLike[str]) -> str:
    """The path of a store, which DuckDB and Arrow can be given.

    Raises:
        ContractError: it is no path, or not UTF-8.
    """
    where = os.fspath(checked_path("store", folder))
    whole = os.path.abspath(where)
    if utf8_name(whole) != whole:
        raise refused_argument("store", "pattern", "has bytes in its path that are no text", "UTF-8")
    return where


def counts_of(connection: sqlite3.Connection) -> Counts:
    lines, blank = connection.execute("SELECT coalesce(sum(lines), 0), coalesce(sum(blank), 0) FROM shards").fetchone()
    records, quarantined = connection.execute(
        "SELECT coalesce(sum(rows) FILTER (WHERE kind <> ?1), 0), coalesce(sum(rows) FILTER (WHERE kind = ?1), 0)"
        " FROM segments",
        (QUARANTINE,),
    ).fetchone()
    (duplicates,) = connection.execute("SELECT value FROM meta WHERE name = 'duplicates'").fetchone()
    return Counts(lines, records, quarantined, blank, duplicates)


def _shard(connection: sqlite3.Connection, sha256: str, kind: str | None) -> int | None:
    row = connection.execute("SELECT id FROM shards WHERE sha256 = ? AND kind = ?", (sha256, kind or "")).fetchone()
    return None if row is None else int(row[0])


def _take(connection: sqlite3.Connection, written: Written) -> bool:
    receipt = written.receipt
    inserted = connection.execute(
        "INSERT OR IGNORE INTO shards (sha256, kind, bytes, ended, lines, records, quarantined, blank)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (receipt.sha256, receipt.kind or "", receipt.bytes, receipt.ended, receipt.lines, receipt.records,
         receipt.quarantined, receipt.blank),
    )  # fmt: skip
    new = inserted.rowcount == 1
    shard = _shard(connection, receipt.sha256, receipt.kind)
    assert shard is not None
    _place(connection, receipt.place, shard, receipt.sha256, receipt.kind, receipt.replaces)
    if new:
        for segment in written.segments:
            insert_segment(connection, segment, shard)
    return new


def _place(
    connection: sqlite3.Connection, place: Place, shard: int, sha256: str, kind: str | None, replaces: str | None
) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO places (start, path, shard, name, first_line) VALUES (?, ?, ?, ?, ?)",
        (place.start, place.path, shard, place.source, place.first_line),
    )
    if replaces is not None and replaces != sha256:
        _forget(connection, place.path, place.start, replaces, kind)


def _forget(connection: sqlite3.Connection, path: str, start: int, sha256: str, kind: str | None) -> None:
    """A line without an end is something else by now: its shard goes with the last place where it was seen."""
    shard = _shard(connection, sha256, kind)
    gone = "DELETE FROM places WHERE start = ? AND path = ? AND shard = ?"
    if shard is None or connection.execute(gone, (start, path, shard)).rowcount != 1:
        return  # it was seen in another source
    if connection.execute("SELECT 1 FROM places WHERE shard = ?", (shard,)).fetchone() is None:
        files = [file for (file,) in connection.execute("SELECT file FROM segments WHERE shard = ?", (shard,))]
        remove_segments(connection, files, "")
        connection.execute("DELETE FROM shards WHERE id = ?", (shard,))


def insert_segment(connection: sqlite3.Connection, segment: Segment, shard: int | None) -> None:
    # A file of this name that waited for its removal is wanted again.
    connection.execute("DELETE FROM tombstones WHERE file = ?", (segment.file,))
    connection.execute(
        "INSERT INTO segments (file, kind, rows, bytes, path, start, shard) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (segment.file, segment.kind, segment.rows, segment.bytes, segment.path, segment.start, shard),
    )


def remove_segments(connection: sqlite3.Connection, files: Iterable[str], store: str) -> None:
    """Takes segments off the list and leaves their files to the sweep, under a new generation."""
    connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'generation'")
    for file in files:
        if connection.execute("DELETE FROM segments WHERE file = ?", (file,)).rowcount != 1:
            raise StoreError("changed", store, "another process has rewritten the same segments; run it again")
        connection.execute(
            "INSERT INTO tombstones SELECT ?, value FROM meta WHERE name = 'generation'", (file,)
        )
