"""Sources to Arrow tables by record kind, and the quarantine; nothing is kept but in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from firstnan._core import LineReader, Shard, kinds, table_of_kind, table_of_quarantine
from firstnan.errors import ContractError
from firstnan.ingest.form import opened
from firstnan.ingest.missing import needed
from firstnan.ingest.rows import RowPipe
from firstnan.ingest.sources import Source, SourceLike, sources_of

if TYPE_CHECKING:
    import pyarrow as pa

SHARD_BYTES = 16 << 20
MAX_LINE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """What became of the lines of a source: `lines == records + quarantined + blank`, always.

    Attributes:
        source: its name.
        bytes: of its text, after decompression.
        lines, records, quarantined, blank: how many.
        error: why it could not be read to its end, else None.
    """

    source: str
    bytes: int = 0
    lines: int = 0
    records: int = 0
    quarantined: int = 0
    blank: int = 0
    error: str | None = None


@dataclass(frozen=True)
class Records:
    """Every record of the sources, and every line that is none.

    Attributes:
        tables: the rows by kind of record, for each kind that has any, in the order of the sources and their lines.
        quarantine: what was refused, with where and why and its bytes.
        counts: one for each source.
    """

    tables: dict[str, pa.Table]
    quarantine: pa.Table
    counts: tuple[SourceCounts, ...] = field(repr=False)

    def table(self, kind: str) -> pa.Table:
        """The rows of a kind, none where it has none.

        Raises:
            ContractError: not a kind.
        """
        return self.tables[kind] if kind in self.tables else needed("pyarrow").table(table_of_kind(kind))

    @property
    def total(self) -> SourceCounts:
        """The counts of all sources together, under the name `total`; `error` is the first there is."""
        return total_of(self.counts)


def total_of(counts: Iterable[SourceCounts]) -> SourceCounts:
    """The sum, under the name `total`."""
    counts = list(counts)
    sums = {name: sum(getattr(one, name) for one in counts) for name in ("bytes", "lines", "records", "quarantined", "blank")}
    return SourceCounts("total", **sums, error=next((one.error for one in counts if one.error), None))


def read(
    sources: SourceLike | Iterable[SourceLike],
    *,
    kind: str | None = None,
    shard_bytes: int = SHARD_BYTES,
    max_line_bytes: int = MAX_LINE_BYTES,
    threads: int | None = None,
    partial: bool = False,
    on_shard: Callable[[Shard], object] | None = None,
) -> Records:
    """Reads, checks, identifies and tabulates every line of the sources.

    Args:
        sources: see `firstnan.ingest.sources_of`; plain, gzip or zstd, told by the first bytes; Arrow and Parquet files
            by their names or first bytes. Through a pipe, of rows an Arrow stream only.
        kind: the kind of every record, where it is not to be told from each line.
        shard_bytes: how much text is decoded at once, 1 to 2^30.
        max_line_bytes: the most bytes of a line, 1 to 2^28; a longer one is quarantined.
        threads: how many decode, 1 to 1,024; as many as there are cores where it is None. The result is the same.
        partial: keeps what was read of a source that cannot be read to its end, and says so in its counts.
        on_shard: called with each shard before it is decoded, for progress.

    Returns:
        The tables, whose memory is that of the result; the work itself needs a bounded amount besides.

    Raises:
        OSError: a source cannot be opened or read.
        ContractError: a source is not a whole gzip or zstd stream or is no table of records; `kind` is not a kind; a
            number is out of its bounds.
        ModuleNotFoundError: pyarrow is not installed.
    """
    arrow = needed("pyarrow")
    tables: dict[str, list[pa.Table]] = {}
    refused = []
    counts = []
    for source in sources_of(sources):
        sums = dict.fromkeys(("bytes", "lines", "records", "quarantined", "blank"), 0)
        failure = None
        try:
            for shard in shards_of(source, kind=kind, shard_bytes=shard_bytes, max_line_bytes=max_line_bytes,
                                   hash_ahead=False):
                if on_shard is not None:
                    on_shard(shard)
                decoded = shard.decode(threads=threads)
                sums["bytes"] += shard.bytes
                for name in ("lines", "records", "quarantined", "blank"):
                    sums[name] += getattr(decoded, name)
                for of in decoded.kinds:
                    tables.setdefault(of, []).append(arrow.table(decoded.table(of)))
                if decoded.quarantined:
                    refused.append(arrow.table(decoded.quarantine()))
        except (OSError, ContractError) as error:
            if not partial:
                raise
            failure = str(error)
        counts.append(SourceCounts(source.name, **sums, error=failure))
    return Records(
        tables={of: arrow.concat_tables(tables[of]) for of in kinds() if of in tables},
        quarantine=arrow.concat_tables(refused) if refused else arrow.table(table_of_quarantine()),
        counts=tuple(counts),
    )


def shards_of(source: Source, *, kind: str | None, shard_bytes: int, max_line_bytes: int, start: int = 0,
              first_line: int = 1, hash_ahead: bool = True) -> Iterator[Shard]:
    """The shards of a source, read ahead.

    Raises:
        OSError, ContractError: as `read`. A refusal of the source itself names it.
    """
    with contextlib.ExitStack() as open_until_end:
        file = open_until_end.enter_context(opened(source.name, source.file, source.form))
        rows = None if file.form == "lines" else RowPipe(file, source.name, kind)
        if rows is not None:
            open_until_end.callback(rows.close)
        text, head = (file.file, file.head) if rows is None else (rows.descriptor, None)
        reader = LineReader(text, name=source.name, head=head, kind=kind, start=start, first_line=first_line,
                            shard_bytes=shard_bytes, max_line_bytes=max_line_bytes, hash_ahead=hash_ahead)
        open_until_end.callback(reader.close)
        if rows is not None:
            rows.close()  # the reader has its own
        while True:
            try:
                shard = reader.next_shard()
            except ContractError as error:
                error.args = (f"{source.name}: {error}",)
                raise
            if shard is None:
                break
            yield shard
            del shard  # its text, before the next one comes
        if rows is not None:
            rows.check()
