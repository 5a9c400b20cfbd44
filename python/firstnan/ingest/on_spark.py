"""Ingestion by Spark, through `mapInArrow`: many workers write, the driver commits. docs/scale.md

PYSPARK_PYTHON must name a Python that has firstnan[ingest], or the workers start another one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from firstnan.ingest.on_ray import FleetSummary
from firstnan.ingest.receipts import Task, commit_receipts, descriptors, receipts_of, task_for
from firstnan.ingest.sources import SourceLike
from firstnan.ingest.store import Store


def ingest_on_spark(
    spark: Any, sources: SourceLike | Iterable[SourceLike], *, store: str | os.PathLike[str], kind: str | None = None
) -> FleetSummary:
    """As `firstnan.ingest.on_ray.ingest_on_ray`, on a SparkSession.

    Raises: likewise.
    """
    with Store.create(store) as opened:
        table = descriptors(opened, sources, kind)
        writing = opened.writing()
        try:
            dealt = spark.createDataFrame(table).repartition(max(1, len(table)))
            done = dealt.mapInArrow(partial(_receipts, task_for(opened, kind)), "source string, written string, error string")
            shards, failed = commit_receipts(opened, (row.asDict() for row in done.toLocalIterator()))
        finally:
            writing.release()
    return FleetSummary(len(table), shards, failed)


def _receipts(task: Task, batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield from receipts_of(task, batch).to_batches()
