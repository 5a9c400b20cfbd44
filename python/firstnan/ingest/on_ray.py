"""Ingestion by Ray Data: many workers write, the driver commits. Needs the extra `firstnan[ray]`. docs/scale.md"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from firstnan.ingest.missing import needed
from firstnan.ingest.receipts import commit_receipts, descriptors, receipts_of, task_for
from firstnan.ingest.sources import SourceLike
from firstnan.ingest.store import Store


@dataclass(frozen=True, slots=True)
class FleetSummary:
    """What a fleet of workers did.

    Attributes:
        sources: files that were dealt out.
        shards: parts of them that the store did not have.
        failed: files that could not be read to their end, each with why; what came before that is in the store.
    """

    sources: int
    shards: int
    failed: list[tuple[str, str]]


def ingest_on_ray(
    sources: SourceLike | Iterable[SourceLike],
    *,
    store: str | os.PathLike[str],
    kind: str | None = None,
) -> FleetSummary:
    """Takes every line of the files into a store, as `firstnan.ingest.ingest` does on one machine: the same segments, byte
    for byte.

    A file is one task, so give many of 64 to 256 MB. Ray tries a task again whose worker died; what it had written is
    written again under the same names. `ray.init` is the caller's, else Ray begins a cluster of this machine.

    Args:
        sources: files and folders, on a disk that all workers see under the same paths.
        store: the folder, likewise; its manifest is opened here alone, and must be on a local disk of this host.
        kind: the kind of every record, where it is not to be told from each line.

    Raises:
        ContractError: a source is no file; `kind` is no kind.
        OSError: a source cannot be found, or the store cannot be written.
        ModuleNotFoundError: Ray is not installed.
    """
    data = needed("ray.data")
    with Store.create(store) as opened:
        table = descriptors(opened, sources, kind)
        # Held until all is committed, so that no sweep takes what workers wrote for a leftover.
        writing = opened.writing()
        try:
            dealt = data.from_arrow([table.slice(row, 1) for row in range(len(table))])
            done = dealt.map_batches(partial(receipts_of, task_for(opened, kind)), batch_format="pyarrow", batch_size=1)
            shards, failed = commit_receipts(opened, done.iter_rows())
        finally:
            writing.release()
    return FleetSummary(len(table), shards, failed)
