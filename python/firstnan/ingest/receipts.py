"""The work of a fleet of workers: files of lines in, content-named segments on a shared disk, receipts out.

A worker never opens the manifest: SQLite wants one host and a local disk. It writes the segments of a source, whose names
are made of their input, and answers with receipts; the driver commits them. A worker that dies between the two costs a
second try, which writes the same bytes under the same names. `receipts_of` is what an engine calls on a batch of sources,
from Arrow to Arrow, so that Ray Data (`map_batches`) and Spark (`mapInArrow`) run the very same function.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from firstnan.errors import ContractError
from firstnan.ingest.intake import path_of
from firstnan.ingest.known import beginning_of
from firstnan.ingest.missing import needed
from firstnan.ingest.read import shards_of
from firstnan.ingest.segments import Place, Receipt, Segment, Written, decoded_shard, schema_of, write_shard
from firstnan.ingest.sources import Source, SourceLike, sources_of
from firstnan.ingest.store import Store

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Task:
    """What the driver tells every worker of the store that they fill.

    Attributes:
        store: its folder, which all workers see under this path.
        kind: the kind of every record, or None.
        shard_bytes, max_line_bytes: as the store cuts.
    """

    store: str
    kind: str | None
    shard_bytes: int
    max_line_bytes: int

    def write_source(self, source: Source, start: int, first_line: int, replaces: str | None) -> Iterator[Written]:
        """Puts the segments of a source on disk, shard by shard, from a byte of its text on.

        Raises:
            OSError: the source cannot be read, or a segment cannot be written.
            ContractError: the source is not a whole gzip or zstd stream.
        """
        shards = shards_of(source, kind=self.kind, start=start, first_line=first_line, shard_bytes=self.shard_bytes,
                           max_line_bytes=self.max_line_bytes)  # fmt: skip
        for shard in shards:
            # One thread: the engine gives a worker one core.
            yield write_shard(self.store, *decoded_shard(shard, path_of(source), self.kind, replaces, threads=1))
            replaces = None


def task_for(store: Store, kind: str | None = None) -> Task:
    """The task of filling this store."""
    return Task(store.folder, kind, store.shard_bytes, store.max_line_bytes)


def descriptors(store: Store, sources: SourceLike | Iterable[SourceLike], kind: str | None = None) -> pa.Table:
    """A row for each file, and from where on the store lacks it: what is dealt out to the workers.

    Args:
        store: the store.
        sources: files and folders that all workers see under the same paths.
        kind: the kind of every record, or None.

    Raises:
        ContractError: a source is no file that can be opened again elsewhere, such as standard input; no such kind.
        FileNotFoundError: there is none of that name.
    """
    if kind is not None:
        schema_of(kind)  # refused here, not once by each worker
    rows = []
    for source in sources_of(sources):
        if not isinstance(source.file, str):
            raise ContractError(f"{source.name}: workers can only read files, by their paths", kind="source")
        begun = beginning_of(store, source, path_of(source), kind)
        rows.append(asdict(source) | {"start": begun.bytes, "first_line": begun.lines + 1, "replaces": begun.open_line})
    pa = needed("pyarrow")
    types = {"start": pa.int64(), "first_line": pa.int64()}
    names = ("name", "file", "form", "start", "first_line", "replaces")
    return pa.Table.from_pylist(rows, pa.schema([(name, types.get(name, pa.string())) for name in names]))


def receipts_of(task: Task, sources: pa.RecordBatch | pa.Table) -> pa.Table:
    """Does the work that a batch of descriptors describes; a row for each shard, or for a source that failed.

    Returns:
        `source`; `written`, the receipt and its segments as JSON text, null where it failed; `error`, why.
    """
    rows: list[dict[str, str | None]] = []
    for row in sources.to_pylist():
        place = {name: row.pop(name) for name in ("start", "first_line", "replaces")}
        source = Source(**row)
        try:
            for written in task.write_source(source, **place):
                rows.append({"source": source.name, "written": json.dumps(asdict(written)), "error": None})
        except ContractError as error:
            # Of the source itself, which no second try would mend; a full disk is the engine's to try again.
            rows.append({"source": source.name, "written": None, "error": str(error)})
    pa = needed("pyarrow")
    return pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in ("source", "written", "error")]))


def commit_receipts(store: Store, receipts: Iterable[dict[str, Any]]) -> tuple[int, list[tuple[str, str]]]:
    """Makes what workers wrote part of the store; how many shards it did not have, and which sources failed, with why.

    Args:
        store: the store.
        receipts: rows of `receipts_of`, in any order, any of them more than once.
    """
    new, failed = 0, []
    for row in receipts:
        if row["written"] is None:
            failed.append((row["source"], row["error"]))
        else:
            new += store.commit([_written(json.loads(row["written"]))])
    return new, failed


def _written(value: dict[str, Any]) -> Written:
    receipt = dict(value["receipt"])
    return Written(
        Receipt(**receipt | {"place": Place(**receipt["place"])}), tuple(Segment(**one) for one in value["segments"])
    )
