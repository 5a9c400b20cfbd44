"""The quarantine as files: the lines as they were, or the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firstnan.durable import write_output
from firstnan.ingest.missing import needed
from firstnan.ingest.segments import QUARANTINE, schema_of
from firstnan.ingest.snapshot import Snapshot


def export_lines(snapshot: Snapshot, path: str | None, say_bytes: Callable[[bytes], object]) -> tuple[int, int]:
    """Writes the bytes of the refused lines, each with a line feed; how many, and how many of them are not whole.

    Args:
        snapshot: the state of the store.
        path: the file, written whole or not at all; None where the bytes go to `say_bytes`.
        say_bytes: takes bytes.

    Raises:
        OSError: the file cannot be written.
        StoreError: a segment is `missing`, `cut` or `unreadable`.
    """
    lines = cut = 0

    def write(put: Callable[[bytes], object]) -> None:
        nonlocal lines, cut
        for batch in snapshot.batches(QUARANTINE, ["raw", "raw_bytes"]):
            raws = batch.column("raw").to_pylist()
            lines += len(raws)
            cut += sum(len(raw) < size for raw, size in zip(raws, batch.column("raw_bytes").to_pylist(), strict=True))
            put(b"".join(raw + b"\n" for raw in raws))

    if path is None:
        write(say_bytes)
    else:
        write_output(path, lambda file: write(file.write))
    return lines, cut


def export_table(snapshot: Snapshot, path: str) -> int:
    """Writes the quarantine with all its columns as one Parquet file, whole or not at all; how many rows.

    Raises: as `export_lines`.
    """
    parquet = needed("pyarrow.parquet")
    rows = 0

    def write(file: Any) -> None:
        nonlocal rows
        with parquet.ParquetWriter(file, schema_of(QUARANTINE), compression="zstd") as writer:
            for batch in snapshot.batches(QUARANTINE):
                writer.write_batch(batch)
                rows += len(batch)

    write_output(path, write)
    return rows
