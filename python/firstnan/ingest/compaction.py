"""Many small segments to few large ones, each record once. docs/store.md"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firstnan import _core
from firstnan.ingest.locks import locked
from firstnan.ingest.missing import needed
from firstnan.ingest.segments import QUARANTINE, ROW_GROUP_ROWS, Segment, batches_of, is_older, name_of, schema_of, write_segment
from firstnan.ingest.snapshot import Snapshot
from firstnan.ingest.store import Listed, Store
from firstnan.ingest.sweep import LEFTOVER_AGE_S, Swept, sweep

if TYPE_CHECKING:
    import pyarrow as pa

REWRITING = "rewriting.lock"
"""Held by whoever puts segments in the place of others: one at a time."""
TARGET_BYTES = 128 << 20
GROUP_BYTES = 32 << 20
DEDUPLICATION_MEMORY = "256MiB"
IDENTITY = ("record_sha256", "envelope_rank", "envelope_world_size", "envelope_attempt", "envelope_sequence", "envelope_source")
"""What makes two rows one record: what was said, and who said it when; not the file it came by."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did.

    Attributes:
        before, after: segments of the store.
        duplicates: rows that were dropped, since an earlier row is the same record of the same sender.
        swept: what was deleted then.
    """

    before: int
    after: int
    duplicates: int
    swept: Swept


def compact(
    store: Store, *, target_bytes: int = TARGET_BYTES, leftover_age_s: float = LEFTOVER_AGE_S, patience_s: float = 10.0
) -> Compacted:
    """Merges segments up to about `target_bytes`, drops what came twice, and deletes files that nobody needs.

    The same segments give the same bytes. All of it counts at once, when it is done. Readers that are open keep what they
    see; writers go on. A line without an end is left alone, since it may still become another.

    Raises:
        StoreError: a segment is `missing`, `cut` or `unreadable`; the store is as it was then.
        OSError: a file cannot be written, as on a full disk; likewise.
    """
    old: list[str] = []
    new: list[Segment] = []
    before = duplicates = 0
    with locked(os.path.join(store.folder, REWRITING), shared=False):
        with store.snapshot() as snapshot:
            snapshot.check(rows=False)  # what is missing, cut or lacks a column is named before anything is done
            lock = store.writing()
            try:
                for kind in (*_core.kinds(), QUARANTINE):
                    listed = store.listed(kind)
                    before += len(listed)
                    movable = [each for each in listed if each.ended]
                    twice = {} if kind == QUARANTINE else repeated_rows(snapshot, [each.segment for each in movable])
                    duplicates += sum(len(rows) for rows in twice.values())
                    for group in grouped(movable, target_bytes):
                        if len(group) > 1 or group[0].segment.file in twice:
                            old += [each.segment.file for each in group]
                            new.append(_merged(store, kind, [each.segment for each in group], twice))
                new = [segment for segment in new if segment.rows]
                if old:
                    store.replace(old, [(segment, None) for segment in new], duplicates)
            finally:
                lock.release()
        swept = sweep(store, leftover_age_s=leftover_age_s, patience_s=patience_s)
    return Compacted(before, before + len(new) - len(old), duplicates, swept)


def grouped(segments: Sequence[Listed], target_bytes: int) -> Iterator[list[Listed]]:
    """Neighbours that together reach `target_bytes`; the last group may be smaller."""
    group: list[Listed] = []
    size = 0
    for each in segments:
        group.append(each)
        size += each.segment.bytes
        if size >= target_bytes:
            yield group
            group, size = [], 0
    if group:
        yield group


def repeated_rows(snapshot: Snapshot, segments: Sequence[Segment]) -> dict[str, list[int]]:
    """By file the rows, counted from 0, that an earlier row repeats.

    Raises:
        StoreError: a segment is `unreadable`.
    """
    if not segments:
        return {}
    duckdb, pa = needed("duckdb"), needed("pyarrow")
    from firstnan.ingest.questions import quoted_files

    files = [os.path.join(snapshot.folder, segment.file) for segment in segments]
    order = pa.table({"file": files, "place": range(len(files))})
    columns = schema_of(segments[0].kind).empty_table().select(IDENTITY)
    # Of segments that an older firstnan wrote, a part of the identity that it did not write is null.
    older = any(map(is_older, segments))
    identity = ", ".join(IDENTITY)
    # Digests that occur once are passed over first: that is an aggregate, which needs less memory than an order.
    question = f"""
        WITH rows AS (
            SELECT place, file_row_number AS row, {identity} FROM (
                FROM columns UNION ALL BY NAME
                FROM read_parquet({quoted_files(files)}, filename = true, file_row_number = true, union_by_name = {older}))
            JOIN order_of_files ON order_of_files.file = filename),
        twice AS (SELECT record_sha256 FROM rows GROUP BY record_sha256 HAVING count(*) > 1)
        SELECT place, row FROM (
            SELECT place, row, row_number() OVER (PARTITION BY {identity} ORDER BY place, row) AS nth
            FROM rows SEMI JOIN twice USING (record_sha256))
        WHERE nth > 1 ORDER BY place, row"""
    found: dict[str, list[int]] = {}
    try:
        with tempfile.TemporaryDirectory(prefix="firstnan-") as spill, duckdb.connect(":memory:") as connection:
            connection.execute(f"SET memory_limit = '{DEDUPLICATION_MEMORY}'")
            connection.execute("SET temp_directory = ?", [spill])
            connection.register("order_of_files", order)
            connection.register("columns", columns)
            answer = connection.execute(question)
            while rows := answer.fetchmany(10_000):
                for place, row in rows:
                    found.setdefault(segments[place].file, []).append(row)
    except duckdb.Error:
        snapshot.check()
        raise
    return found


def _merged(store: Store, kind: str, segments: list[Segment], twice: dict[str, list[int]]) -> Segment:
    inputs = [[segment.file, twice.get(segment.file, [])] for segment in segments]
    place = (segments[0].path, segments[0].start)
    tables = whole_groups(_kept(store, segments, twice))
    return write_segment(store.folder, kind, name_of("merged", inputs), place, tables)


def _kept(store: Store, segments: list[Segment], twice: dict[str, list[int]]) -> Iterator[pa.Table]:
    pa = needed("pyarrow")
    for segment in segments:
        dropped = set(twice.get(segment.file, ()))
        first = 0
        for table in tables_of(store.folder, segment):
            keep = [row not in dropped for row in range(first, first + len(table))] if dropped else None
            first += len(table)
            yield table if keep is None else table.filter(pa.array(keep, pa.bool_()))


def tables_of(folder: str, segment: Segment) -> Iterator[Any]:
    """A segment in small pieces, in the columns of this version.

    Raises:
        StoreError: it cannot be read.
    """
    pa = needed("pyarrow")
    for batch in batches_of(folder, segment):
        yield pa.Table.from_batches([batch])


def whole_groups(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of ROW_GROUP_ROWS, or of fewer where these would be more than GROUP_BYTES."""
    pa = needed("pyarrow")
    waiting: list[Any] = []
    count = size = 0
    for table in tables:
        waiting.append(table)
        count += len(table)
        size += table.nbytes
        while count >= ROW_GROUP_ROWS or size >= GROUP_BYTES:
            together = pa.concat_tables(waiting)
            yield together.slice(0, ROW_GROUP_ROWS).combine_chunks()
            waiting = [together.slice(ROW_GROUP_ROWS)]
            count, size = len(waiting[0]), waiting[0].nbytes
    if count:
        yield pa.concat_tables(waiting).combine_chunks()
