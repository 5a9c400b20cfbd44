"""Segments: Parquet files named by the identity of their input, written so that a crash leaves a whole one or none."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firstnan import _core
from firstnan._core import Shard
from firstnan.durable import write_durably
from firstnan.ingest.missing import needed
from firstnan.ingest.problems import StoreError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as parquet

FOLDER = "segments"
QUARANTINE = "quarantine"
ROW_GROUP_ROWS = 1 << 17
BATCH_ROWS = 1 << 13
SAMPLE_ROWS = 512
# Level 1: on telemetry level 3 is slower and no smaller (measured, docs/store.md).
WRITTEN = {"compression": "zstd", "compression_level": 1, "row_group_size": ROW_GROUP_ROWS, "write_page_checksum": True}


@dataclass(frozen=True, slots=True)
class Segment:
    """A Parquet file of a store.

    Attributes:
        file: its path below the store.
        kind: the kind of its records, or `quarantine`.
        rows, bytes: how many.
        path, start: where its first line came from: the real path of the source, and the byte of its text.
    """

    file: str
    kind: str
    rows: int
    bytes: int
    path: str
    start: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where a shard was seen.

    Attributes:
        source: what its rows call the source.
        path: the real path of the source, by which it is found again; as `source` where it has none.
        start: the byte of the text, after decompression, at which it begins.
        first_line: the number of its first line, from 1.
    """

    source: str
    path: str
    start: int
    first_line: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """A shard that was decoded: where it was, which it is, and what became of its lines.

    Attributes:
        place: where.
        bytes, lines: how many it has.
        sha256: of its bytes, lower-case hex.
        kind: the kind that was given for all of its records, or None.
        ended: whether its last line has its end.
        records, quarantined, blank: `lines` is their sum.
        replaces: the SHA-256 of the shard that its first line was at this very place while it had no end, or None.
    """

    place: Place
    bytes: int
    lines: int
    sha256: str
    kind: str | None
    ended: bool
    records: int
    quarantined: int
    blank: int
    replaces: str | None = None

    def __post_init__(self) -> None:
        if self.lines != self.records + self.quarantined + self.blank:
            raise ValueError("the counts of a receipt do not reconcile")


@dataclass(frozen=True, slots=True)
class Written:
    """A receipt and the segments that hold its rows, on disk but not yet of the store."""

    receipt: Receipt
    segments: tuple[Segment, ...]


def schema_of(kind: str) -> pa.Schema:
    """The columns of a kind of record, or of `quarantine`, as the record schemas say.

    Raises:
        ContractError: no such kind.
    """
    pa = needed("pyarrow")
    return pa.table(_core.table_of_quarantine() if kind == QUARANTINE else _core.table_of_kind(kind)).schema


@functools.cache
def pipeline() -> str:
    """The name of what makes a segment of a shard: the columns of every kind, this version, and that of pyarrow.

    Equal names of segments have equal bytes only where all of these are equal, so another of them writes beside.
    """
    pa = needed("pyarrow")
    layouts = {kind: str(schema_of(kind)) for kind in (*_core.kinds(), QUARANTINE)}
    return name_of("pipeline", _core.__version__, pa.__version__, layouts)[:16]


def is_older(segment: Segment) -> bool:
    """Whether another pipeline wrote it: it may lack columns."""
    return not segment.file.startswith(f"{FOLDER}/{pipeline()}/")


def name_of(*parts: Any) -> str:
    """SHA-256 (lower-case hex) of JSON values: the identity of an input."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def place_of(shard: Shard, path: str) -> Place:
    """Where a shard was seen; `path` is the real path of its source."""
    return Place(shard.source, path, shard.start, shard.first_line)


def decoded_shard(
    shard: Shard, path: str, kind: str | None, replaces: str | None, *, threads: int | None = None
) -> tuple[Receipt, dict[str, pa.Table]]:
    """Decodes a shard: its receipt, and its rows for `write_shard`.

    Args:
        shard: of a source.
        path: the real path of that.
        kind: the kind that was given, or None.
        replaces: as in a `Receipt`.
        threads: as of `Shard.decode`.
    """
    pa = needed("pyarrow")
    decoded = shard.decode(threads=threads)
    receipt = Receipt(
        place_of(shard, path), shard.bytes, shard.lines, shard.sha256, kind, shard.ended,
        decoded.records, decoded.quarantined, decoded.blank, replaces,
    )  # fmt: skip
    tables = {of: pa.table(decoded.table(of)) for of in decoded.kinds}
    if decoded.quarantined:
        tables[QUARANTINE] = pa.table(decoded.quarantine())
    return receipt, tables


def write_shard(store: str | os.PathLike[str], receipt: Receipt, tables: Mapping[str, pa.Table]) -> Written:
    """Puts the rows of a shard on disk, for `Store.commit` of this process or another.

    The files are named by the shard and by what its rows repeat of where it came from (source, start, first line), so
    whoever writes them again writes the same bytes.

    Args:
        store: the folder.
        receipt: the shard.
        tables: its rows by kind, and under `quarantine` what was refused; tables of no rows are passed over.

    Raises:
        OSError: a file cannot be written, as on a full disk; no part of it stays.
        ValueError: the rows are not as many as the receipt says.
    """
    rows = {kind: len(table) for kind, table in tables.items()}
    quarantined = rows.pop(QUARANTINE, 0)
    if (sum(rows.values()), quarantined) != (receipt.records, receipt.quarantined):
        raise ValueError("the tables do not have the rows that the receipt counts")
    place = receipt.place
    name = name_of("shard", receipt.sha256, receipt.kind, place.source, place.start, place.first_line)
    origin = (place.path, place.start)
    segments = tuple(write_segment(store, kind, name, origin, [table]) for kind, table in tables.items() if len(table))
    return Written(receipt, segments)


def write_segment(
    store: str | os.PathLike[str], kind: str, name: str, place: tuple[str, int], tables: Iterable[pa.Table]
) -> Segment:
    """Writes one segment: a temporary file, synced, renamed, its folder synced.

    Raises:
        OSError: it cannot be written; no part of it stays.
    """
    parquet = needed("pyarrow.parquet")
    file = f"{FOLDER}/{pipeline()}/{kind}/{name}.parquet"
    rows = 0

    def write(sink: Any) -> None:
        nonlocal rows
        writer = None
        for table in tables:
            if writer is None:
                options = {name: value for name, value in WRITTEN.items() if name != "row_group_size"}
                writer = parquet.ParquetWriter(sink, table.schema, use_dictionary=_repeating(table), **options)
            writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
            rows += len(table)
        if writer is not None:
            writer.close()

    size = write_durably(os.path.join(store, file), write)
    return Segment(file, kind, rows, size, *place)


def path_of_segment(store: str | os.PathLike[str], segment: Segment) -> str:
    """Where a segment is.

    Raises:
        StoreError: it is not there (`missing`), or not as long as the manifest says (`cut`).
    """
    path = os.path.join(store, segment.file)
    try:
        size = os.stat(path).st_size
    except FileNotFoundError:
        raise StoreError("missing", path, "a segment of the store is not there") from None
    if size != segment.bytes:
        words = f"a segment of the store has {size:,} bytes; the manifest says {segment.bytes:,}"
        raise StoreError("cut", path, words)
    return path


@contextlib.contextmanager
def opened_segment(store: str | os.PathLike[str], segment: Segment) -> Iterator[parquet.ParquetFile]:
    """A segment whose footer is in order: its rows are as many as the manifest says, and the columns are those of its kind.

    A column that may be null may lack, since an older firstnan did not write it.

    Raises:
        StoreError: as `path_of_segment`; it cannot be read, then or while the block lasts, or lacks what it must have
            (`unreadable`).
    """
    pa = needed("pyarrow")
    path = path_of_segment(store, segment)
    try:
        with needed("pyarrow.parquet").ParquetFile(path, pre_buffer=False, page_checksum_verification=True) as file:
            if file.metadata.num_rows != segment.rows:
                words = f"a segment of the store has {file.metadata.num_rows:,} rows; the manifest says {segment.rows:,}"
                raise StoreError("unreadable", path, words)
            there = file.schema_arrow
            for field in schema_of(segment.kind):
                if field.name in there.names:
                    pa.nulls(0, there.field(field.name).type).cast(field.type)
                elif not field.nullable:
                    raise StoreError("unreadable", path, f"a segment of the store lacks the column {field.name}")
            yield file
    except (pa.ArrowException, OSError) as error:
        raise StoreError("unreadable", path, f"a segment of the store cannot be read ({error})") from None


def batches_of(
    store: str | os.PathLike[str], segment: Segment, *, columns: list[str] | None = None, rows: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """The rows of a segment in pieces of at most so many rows; what this needs does not follow the segment.

    The columns are those of this version: what an older one did not write is null. Not by a dataset, which would hold all
    that it has decoded of a file.

    Raises:
        StoreError: as `opened_segment`.
    """
    pa = needed("pyarrow")
    wanted = schema_of(segment.kind)
    if columns is not None:
        wanted = pa.schema([wanted.field(name) for name in columns])
    with opened_segment(store, segment) as file:
        there = [name for name in wanted.names if name in file.schema_arrow.names]
        for group in range(file.num_row_groups):
            for batch in file.iter_batches(batch_size=rows, row_groups=[group], columns=there, use_threads=False):
                arrays = [
                    batch.column(field.name).cast(field.type) if field.name in there else pa.nulls(len(batch), field.type)
                    for field in wanted
                ]
                for field, array in zip(wanted, arrays, strict=True):
                    if array.null_count and not field.nullable:
                        words = f"a segment of the store has a row without a value in the column {field.name}"
                        raise StoreError("unreadable", os.path.join(store, segment.file), words)
                yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _repeating(table: pa.Table) -> list[str]:
    """The columns whose values repeat, by a sample: of an identity the writer would build a dictionary for nothing.

    On telemetry that takes a fifth off the time to write, and 6 % off the bytes.
    """
    pa, pc = needed("pyarrow"), needed("pyarrow.compute")
    sample = table.slice(0, SAMPLE_ROWS)

    def repeats(field: Any) -> bool:
        if pa.types.is_dictionary(field.type) or pa.types.is_nested(field.type):
            return True
        return bool(2 * pc.count_distinct(sample.column(field.name)).as_py() <= len(sample))

    return [field.name for field in table.schema if repeats(field)]
