"""A snapshot: one consistent state of a store, which stays readable while writers, compaction and sweeps go on."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from firstnan import _core
from firstnan.durable import make_folders
from firstnan.ingest.locks import FileLock
from firstnan.ingest.missing import needed
from firstnan.ingest.segments import QUARANTINE, Segment, batches_of, is_older, opened_segment, path_of_segment, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import duckdb
    import pyarrow as pa
    import pyarrow.dataset as ds

    from firstnan.ingest.manifest import Manifest

LEASES = "leases"


@dataclass(frozen=True)
class Snapshot:
    """What a store had at one moment. Its files stay until it is closed, or its process ends in whatever way.

    Attributes:
        folder: of the store.
        segments: by kind (`quarantine` among them), in the order of where their lines came from; kinds without rows are
            left out. `os.path.join(folder, segment.file)` is a Parquet file.
    """

    folder: str
    segments: Mapping[str, tuple[Segment, ...]]
    _lease: FileLock = field(repr=False)

    def close(self) -> None:
        """Lets its files go."""
        self._lease.release()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rows(self, kind: str) -> int:
        """How many rows a kind has, or `quarantine`."""
        return sum(segment.rows for segment in self.segments.get(kind, ()))

    def files(self, kind: str) -> list[str]:
        """The Parquet files of a kind, or of `quarantine`.

        The first, which tells DuckDB the columns, and those of an older firstnan are opened to see that they have them.

        Raises:
            StoreError: one is not there (`missing`), or not as long as the manifest says (`cut`), or lacks a column
                (`unreadable`).
        """
        segments = self.segments.get(kind, ())
        for place, segment in enumerate(segments):
            if place == 0 or is_older(segment):
                with opened_segment(self.folder, segment):
                    pass
        return [path_of_segment(self.folder, segment) for segment in segments]

    def dataset(self, kind: str) -> ds.Dataset:
        """The rows of a kind, or of `quarantine`, read as they are asked for.

        The columns are those of this version: what an older one did not write is null.

        Raises:
            ContractError: no such kind.
            StoreError: as `files`.
        """
        dataset = needed("pyarrow.dataset")
        return dataset.dataset(self.files(kind), schema=schema_of(kind), format="parquet")

    def table(self, kind: str, columns: list[str] | None = None, filter: Any = None) -> pa.Table:
        """The rows of a kind, or of `quarantine`, in memory.

        Args:
            kind: which.
            columns: only these, in this order.
            filter: an expression of `pyarrow.dataset`.

        Raises:
            ContractError: no such kind.
            StoreError: as `files`; also where a segment cannot be read (`unreadable`).
        """
        pa = needed("pyarrow")
        if kind not in self.segments:
            empty = schema_of(kind).empty_table()
            return empty if columns is None else empty.select(columns)
        try:
            table = self.dataset(kind).to_table(columns=columns, filter=filter)
            # The dataset makes a column that a segment lacks null.
            if any(column.null_count for field, column in zip(table.schema, table.columns, strict=True) if not field.nullable):
                self.check()
            return table
        except (pa.ArrowException, OSError):
            self.check()
            raise

    def batches(self, kind: str, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a kind, or of `quarantine`, piece by piece in the order of where their lines came from.

        Raises: as `table`.
        """
        self.files(kind)
        return (
            batch for segment in self.segments.get(kind, ()) for batch in batches_of(self.folder, segment, columns=columns)
        )

    def connect(self) -> duckdb.DuckDBPyConnection:
        """DuckDB with a view for each kind, `-` in its name being `_` (`stage_telemetry`), and for `quarantine`.

        It sees these files only: no other file, no network, no extension; nothing is written outside its own memory, but
        to a temporary folder where a question needs more.

        Raises:
            StoreError: as `files`.
        """
        from firstnan.ingest.questions import connection_of

        return connection_of(self)

    def check(self, *, rows: bool = True) -> None:
        """Reads every segment whole, or only what each says of itself.

        Args:
            rows: whether their rows are read too.

        Raises:
            StoreError: one is `missing`, `cut` or `unreadable`; the message names it.
        """
        for segments in self.segments.values():
            for segment in segments:
                with opened_segment(self.folder, segment):
                    pass
        for segments in self.segments.values() if rows else ():
            for segment in segments:
                for _ in batches_of(self.folder, segment):
                    pass


def snapshot_of(folder: str, manifest: Manifest) -> Snapshot:
    """The state that the manifest has now, with a lease on its generation.

    What a later generation removes from the list is deleted only when nobody holds a lease on an earlier one. The list
    is read after the lease is taken and only counts where the generation is still that of the lease, so that a sweep
    which looked for leases before it was taken has removed nothing that is on the list.
    """
    make_folders(os.path.join(folder, LEASES))
    while True:
        generation = manifest.meta("generation")
        lease = FileLock(lease_file(folder, generation), shared=True)
        try:
            with manifest.reading() as connection:
                (now,) = connection.execute("SELECT value FROM meta WHERE name = 'generation'").fetchone()
                if now == generation:
                    rows = connection.execute(
                        "SELECT file, kind, rows, bytes, path, start FROM segments ORDER BY path, start, file"
                    ).fetchall()
                    break
        except BaseException:
            lease.release()
            raise
        lease.release()
    by_kind: dict[str, tuple[Segment, ...]] = {}
    segments = [Segment(*row) for row in rows]
    for kind in (*_core.kinds(), QUARANTINE):
        if of_kind := tuple(segment for segment in segments if segment.kind == kind):
            by_kind[kind] = of_kind
    return Snapshot(folder, MappingProxyType(by_kind), lease)


def lease_file(folder: str, generation: int) -> str:
    return os.path.join(folder, LEASES, str(generation))
