"""The quarantine once more: what now passes moves to the table of its kind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from firstnan import _core
from firstnan._core import LineReader
from firstnan.ingest.compaction import REWRITING, tables_of, whole_groups
from firstnan.ingest.locks import locked
from firstnan.ingest.missing import needed
from firstnan.ingest.segments import QUARANTINE, Segment, name_of, write_segment
from firstnan.ingest.store import Listed, Store

TEXT_BYTES = 16 << 20
WHOLE = 1 << 30


@dataclass
class Retried:
    """What a retry did.

    Attributes:
        lines: looked at.
        passed: of these are records now.
        left: are still in the quarantine; `cut` among them are longer than was kept, so they cannot be tried.
        kinds: `passed` by kind.
    """

    lines: int = 0
    passed: int = 0
    left: int = 0
    cut: int = 0
    kinds: dict[str, int] = field(default_factory=dict)


def retry(store: Store, *, kind: str | None = None) -> Retried:
    """Decodes every line of the quarantine again, and moves what passes, all in one transaction.

    A moved row keeps its source, line and offset. What does not pass stays as it is.

    Args:
        store: the store.
        kind: the kind of every record, where it is not to be told from each line.

    Raises:
        ContractError: `kind` is no kind.
        StoreError: a segment cannot be read, or another process changed the same ones (`changed`): nothing was done.
        OSError: a file cannot be written, as on a full disk: nothing was done.
    """
    if kind is not None:
        _core.table_of_kind(kind)
    outcome = Retried()
    old: list[str] = []
    new: list[tuple[Segment, int | None]] = []
    with locked(os.path.join(store.folder, REWRITING), shared=False), store.snapshot() as snapshot:
        snapshot.files(QUARANTINE)
        lock = store.writing()
        try:
            for listed in store.listed(QUARANTINE):
                made = _retried(store, listed, kind, outcome)
                if made is not None:
                    old.append(listed.segment.file)
                    new += [(segment, listed.shard) for segment in made]
            if old:
                store.replace(old, new)
        finally:
            lock.release()
    return outcome


def _retried(store: Store, listed: Listed, kind: str | None, outcome: Retried) -> list[Segment] | None:
    """The segments that a segment of the quarantine becomes; None where nothing in it passes.

    Its lines are decoded once to see what passes, then once for each segment that is written, so that none is held.
    """
    segment = listed.segment
    rows: dict[str, int] = {}
    for parts in _divided(store, segment, kind):
        for of, table in parts.items():
            rows[of] = rows.get(of, 0) + len(table)
        outcome.cut += len(parts[QUARANTINE]) - len(parts[QUARANTINE].filter(_whole(parts[QUARANTINE])))
    left = rows.pop(QUARANTINE, 0)
    passed = sum(rows.values())
    outcome.lines += passed + left
    outcome.passed += passed
    outcome.left += left
    for of, count in rows.items():
        outcome.kinds[of] = outcome.kinds.get(of, 0) + count
    if not passed:
        return None
    name, place = name_of("retried", segment.file, kind), (segment.path, segment.start)

    def written(of: str) -> Segment:
        tables = whole_groups(parts[of] for parts in _divided(store, segment, kind) if of in parts)
        return write_segment(store.folder, of, name, place, tables)

    return [written(of) for of in (*rows, *([QUARANTINE] if left else []))]


def _divided(store: Store, segment: Segment, kind: str | None) -> Iterator[dict[str, Any]]:
    """A segment of the quarantine, decoded again part by part: what passes by kind, and what does not under `quarantine`."""
    for table in tables_of(store.folder, segment):
        first = 0
        while first < len(table):
            rows = _some_rows(table, first)
            first += len(rows)
            yield _decoded(store, rows, kind)


def _some_rows(table: Any, first: int) -> Any:
    """Rows from `first` on, as many as fit into TEXT_BYTES, at least one."""
    size = count = 0
    lengths = needed("pyarrow.compute").binary_length(table.column("raw").slice(first))
    for length in lengths:
        size += length.as_py() + 1
        if count and size > TEXT_BYTES:
            break
        count += 1
    return table.slice(first, count)


def _whole(rows: Any) -> Any:
    """Which rows have all bytes of their line."""
    pa, pc = needed("pyarrow"), needed("pyarrow.compute")
    return pc.equal(pc.cast(pc.binary_length(rows.column("raw")), pa.int64()), rows.column("raw_bytes"))


def _decoded(store: Store, rows: Any, kind: str | None) -> dict[str, Any]:
    pa, pc = needed("pyarrow"), needed("pyarrow.compute")
    whole = _whole(rows)
    tried = rows.filter(whole)
    text = b"".join(line + b"\n" for line in tried.column("raw").to_pylist())
    parts: dict[str, Any] = {}
    passed: set[int] = set()
    reader = LineReader(text, name="", kind=kind, shard_bytes=WHOLE, max_line_bytes=store.max_line_bytes)
    shard = reader.next_shard()
    reader.close()
    if shard is not None:
        decoded = shard.decode()
        for of in decoded.kinds:
            table = pa.table(decoded.table(of))
            at = [number - 1 for number in table.column("line_number").to_pylist()]
            for name in ("line_source", "line_number", "line_offset"):
                column = pc.cast(tried.column(name).take(at), table.schema.field(name).type)
                table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)
            parts[of] = table
            passed.update(at)
    stays = [True] * len(rows)
    nth = 0
    for row, is_whole in enumerate(whole.to_pylist()):
        if is_whole:
            stays[row] = nth not in passed
            nth += 1
    parts[QUARANTINE] = rows.filter(pa.array(stays, pa.bool_()))
    return parts
