"""Sources into a store: read ahead, decoded, written and committed at the same time, each shard once."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from firstnan import _core
from firstnan._core import Shard
from firstnan.errors import ContractError
from firstnan.ingest.known import beginning_of
from firstnan.ingest.locks import FileLock
from firstnan.ingest.missing import needed
from firstnan.ingest.read import shards_of
from firstnan.ingest.segments import QUARANTINE, Receipt, Written, decoded_shard, place_of, write_shard
from firstnan.ingest.sources import Source, SourceLike, sources_of, utf8_name
from firstnan.ingest.store import Store

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa

WRITERS = 2


@dataclass
class Summary:
    """What an ingestion did; `lines == records + quarantined + blank + known`, always.

    Attributes:
        sources: how many were read.
        bytes: of their text, after decompression.
        lines: of it.
        records, quarantined, blank: lines that are in the store since.
        known: lines that the store had.
        shards: parts of the text that were added.
        kinds: `records` by kind.
        waiting: bytes that are not taken in at the end of `follow`: last lines that have no end yet.
        seconds: it took.
        failed: the sources that could not be read to their end, each with why; what came before that is in the store.
        notes: what happened to followed files: rotated, truncated.
    """

    sources: int = 0
    bytes: int = 0
    lines: int = 0
    records: int = 0
    quarantined: int = 0
    blank: int = 0
    known: int = 0
    shards: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    waiting: int = 0
    seconds: float = 0.0
    failed: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def reconcile(self) -> bool:
        return self.lines == self.records + self.quarantined + self.blank + self.known


def ingest(
    sources: SourceLike | Iterable[SourceLike],
    *,
    store: str | os.PathLike[str],
    kind: str | None = None,
    follow: bool = False,
    stop: threading.Event | None = None,
    on_progress: Callable[[Summary], object] | None = None,
) -> Summary:
    """Takes every line of the sources into a store, which is made where there is none.

    Every line ends in the table of its kind or in the quarantine, or is blank, or the store has it already: the same text
    again, under whatever name, adds nothing, and one that has grown goes on where it ended. Killed at any moment, a second
    run completes it. docs/store.md says how.

    Args:
        sources: see `firstnan.ingest.sources_of`.
        store: the folder.
        kind: the kind of every record, where it is not to be told from each line.
        follow: goes on with what is added to the files, and with files that are added to the folders, until `stop` is set;
            a last line without an end waits for it. For plain files only.
        stop: ends it after the shard that is being written.
        on_progress: called with the summary so far, from this thread, after each shard.

    Returns:
        What was done. A source that cannot be read to its end is in its `failed`.

    Raises:
        OSError: a source cannot be found, or the store cannot be written, as on a full disk: what was committed stays.
        ContractError: `kind` is no kind; `follow` of something that is no plain file.
        StoreError: the store cannot be used.
        ModuleNotFoundError: pyarrow is not installed.
    """
    from firstnan.ingest.follow import follow_files

    needed("pyarrow.parquet")
    ready = sources_of(sources)
    with Intake(store, kind, stop or threading.Event(), on_progress) as intake:
        if follow:
            follow_files(intake, sources, ready)
        else:
            for source in ready:
                if intake.stop.is_set():
                    break
                intake.take_source(source)
    return intake.summary


class Intake:
    """Decodes in this thread; two others write the shards before, since they mostly wait for the disk, and one commits.

    The next shard is read ahead by the reader itself.
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        kind: str | None,
        stop: threading.Event,
        on_progress: Callable[[Summary], object] | None = None,
    ) -> None:
        self.summary = Summary()
        self.kind = kind
        self.stop = stop
        self._on_progress = on_progress
        self._begun = time.monotonic()
        if kind is not None:
            _core.table_of_kind(kind)  # refused here, not once for each source
        self.store = Store.create(store)
        self._committers_store = Store.open(store)
        self._writers = ThreadPoolExecutor(WRITERS, "firstnan-writer")
        self._committer = ThreadPoolExecutor(1, "firstnan-committer")
        self._under_way: deque[Future[tuple[Receipt, dict[str, int], bool]]] = deque()

    def __enter__(self) -> Intake:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self.wait()
        finally:
            self._writers.shutdown(wait=True)
            self._committer.shutdown(wait=True)
            self._committers_store.close()
            self.store.close()
            self.summary.seconds = time.monotonic() - self._begun

    def take_source(self, source: Source) -> None:
        """All of a source; where it cannot be read to its end, the summary says so."""
        self.summary.sources += 1
        beginning = beginning_of(self.store, source, path_of(source), self.kind)
        self.pass_over(beginning.bytes, beginning.lines)
        replaces = beginning.open_line
        shards = self.shards(source, beginning.bytes, beginning.lines + 1)
        while not self.stop.is_set():
            try:
                shard = next(shards, None)
            except (OSError, ContractError) as error:
                self.failed(source, error)
                break
            if shard is None:
                break
            self.take(shard, path_of(source), replaces)
            replaces = None
        shards.close()

    def failed(self, source: Source, error: OSError | ContractError) -> None:
        """Notes that a source could not be read to its end."""
        words = f"{source.name}: {error.strerror or error}" if isinstance(error, OSError) else str(error)
        self.summary.failed.append((source.name, words))

    def shards(self, source: Source, start: int, first_line: int) -> Generator[Shard]:
        """The shards of a source from a byte of its text on, cut as this store cuts."""
        yield from shards_of(
            source,
            kind=self.kind,
            start=start,
            first_line=first_line,
            shard_bytes=self.store.shard_bytes,
            max_line_bytes=self.store.max_line_bytes,
        )

    def pass_over(self, size: int, lines: int) -> None:
        """Counts lines that the store has."""
        self.summary.bytes += size
        self.summary.lines += lines
        self.summary.known += lines

    def take(self, shard: Shard, path: str, replaces: str | None = None) -> None:
        """Decodes a shard, unless the store has it, and hands it to a writer once one of them is free."""
        if self.store.note(shard.sha256, self.kind, place_of(shard, path), replaces):
            self.pass_over(shard.bytes, shard.lines)
            self._tell()
            return
        receipt, tables = decoded_shard(shard, path, self.kind, replaces)
        self.wait(WRITERS - 1)
        written = self._writers.submit(self._write, receipt, tables)
        rows = {kind: len(table) for kind, table in tables.items() if kind != QUARANTINE}
        self._under_way.append(self._committer.submit(self._commit, receipt, rows, written))

    def _write(self, receipt: Receipt, tables: dict[str, pa.Table]) -> tuple[Written, FileLock]:
        lock = self.store.writing()
        try:
            return write_shard(self.store.folder, receipt, tables), lock
        except BaseException:
            lock.release()
            raise

    def _commit(
        self, receipt: Receipt, rows: dict[str, int], written: Future[tuple[Written, FileLock]]
    ) -> tuple[Receipt, dict[str, int], bool]:
        on_disk, lock = written.result()
        try:
            return receipt, rows, self._committers_store.commit([on_disk]) == 1
        finally:
            lock.release()

    def wait(self, left: int = 0) -> None:
        """Until all but `left` of what was handed to the writers is in the store, and counts it.

        Raises:
            OSError: it cannot be written.
            StoreError: the store cannot be used.
        """
        while len(self._under_way) > left:
            self._count(*self._under_way.popleft().result())

    def _count(self, receipt: Receipt, rows: dict[str, int], new: bool) -> None:
        summary = self.summary
        if new:
            summary.shards += 1
            summary.bytes += receipt.bytes
            summary.lines += receipt.lines
            summary.records += receipt.records
            summary.quarantined += receipt.quarantined
            summary.blank += receipt.blank
            for kind, count in rows.items():
                summary.kinds[kind] = summary.kinds.get(kind, 0) + count
        else:
            self.pass_over(receipt.bytes, receipt.lines)
        self._tell()

    def _tell(self) -> None:
        self.summary.seconds = time.monotonic() - self._begun
        if self._on_progress is not None:
            self._on_progress(self.summary)


def path_of(source: Source) -> str:
    """By what a source is found again: its real path; its name where it is no path."""
    return utf8_name(os.path.realpath(source.file)) if isinstance(source.file, str) else source.name
