"""Rows as lines of JSON by Python alone: what `firstnan._core.RowLines` is held to."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import types

from firstnan._core import kinds, table_of_kind
from firstnan.schema_files import bundle_text

PLACE = ("line_source", "line_number", "line_offset", "record_sha256")
ENVELOPE = ("rank", "world_size", "attempt", "sequence", "source")


def lines_of(batch: pa.RecordBatch, kind: str | None) -> Iterator[bytes]:
    """Each row as a line with its end; a row of one null text is an empty line."""
    names = batch.schema.names
    if len(names) == 1 and _is_text(batch.schema.field(0).type):
        for text in batch.column(0).to_pylist():
            # A raw line end in JSON is white space, or refused in a string: so is a carriage return.
            yield (text or "").replace("\n", "\r").encode() + b"\n"
        return
    of = kind or _kind_of(names)
    ours = "record_sha256" in names
    for row in batch.to_pylist():
        envelope = None
        if ours:
            for name in PLACE:
                row.pop(name, None)
            envelope = {name: row.pop(f"envelope_{name}", None) for name in ENVELOPE}
        record = _record(row)
        if envelope is not None and envelope["rank"] is not None:
            record = {"envelope": {"kind": of, **envelope}, "record": record}
        yield json.dumps(record, default=_no_form, separators=(",", ":")).encode() + b"\n"


def _is_text(of: pa.DataType) -> bool:
    of = of.value_type if types.is_dictionary(of) else of
    return bool(types.is_string(of) or types.is_large_string(of) or types.is_string_view(of))


def _columns(kind: str) -> set[str]:
    return {name for name in pa.table(table_of_kind(kind)).schema.names
            if name not in PLACE and not name.startswith("envelope_")}


def _kind_of(names: list[str]) -> str | None:
    """The kind whose columns these are."""
    found = {name for name in names if name not in PLACE and not name.startswith("envelope_")}
    for kind in kinds():
        columns = _columns(kind)
        if found in (columns, {name for name in columns if not _companion(name, columns)}):
            return kind
    return None


@functools.cache
def _unions() -> frozenset[frozenset[str]]:
    """The fields of all records of each union: a null in a row of these is a field that the record lacks."""
    bundle = json.loads(bundle_text())
    unions = (schema for schema in bundle["$defs"].values() if "oneOf" in schema and "$defs" in schema)
    return frozenset(
        frozenset(name for one in union["oneOf"] for name in union["$defs"][one["$ref"].rsplit("/", 1)[1]]["properties"])
        for union in unions)


def _companion(name: str, names: set[str]) -> bool:
    return name.endswith("_integer") and name.removesuffix("_integer") in names


def _record(row: Any) -> Any:
    """A value with each pair of columns `x` and `x_integer` made one number again."""
    if isinstance(row, list):
        return [_record(item) for item in row]
    if not isinstance(row, dict):
        return row
    names = row.keys()
    if set(names) == {"item", "item_integer"}:
        return _number(row["item"], row["item_integer"])
    out = {}
    for name, value in row.items():
        if name.endswith("_integer") and isinstance(row.get(name.removesuffix("_integer")), (float, type(None))) \
                and name.removesuffix("_integer") in names:
            continue
        digits = row.get(f"{name}_integer")
        out[name] = _number(value, digits) if isinstance(value, float) else _record(value)
    if frozenset(out) in _unions():
        return {name: value for name, value in out.items() if value is not None}
    return out


def _number(value: Any, digits: str | None) -> Any:
    return value if digits is None else int(digits)


def _no_form(value: object) -> object:
    raise TypeError(f"JSON has no form for {type(value).__name__}")
