"""Arrow and Parquet files as lines of JSON, so that rows are checked by the very decoder that checks lines.

A row becomes a Python object here, unlike a line, so this is far slower: for tables that are at hand, not for bulk.
"""

from __future__ import annotations

import functools
import json
import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from firstnan._core import kinds, table_of_kind
from firstnan.errors import ContractError
from firstnan.ingest.missing import needed
from firstnan.schema_files import bundle_text

if TYPE_CHECKING:
    import pyarrow as pa

PLACE = ("line_source", "line_number", "line_offset", "record_sha256")
ENVELOPE = ("rank", "world_size", "attempt", "sequence", "source")
BATCH_ROWS = 8192


class RowLines:
    """A descriptor from which the rows of a file can be read as lines, one line a row, written by a thread of its own.

    The columns are the fields of a record, as a table of ours has them or without the columns that say where it came
    from; or there is one column of text, each value a line.

    Raises:
        OSError: the file cannot be opened.
        ContractError: it is not an Arrow (IPC) or Parquet file, or has a column whose values JSON has no form for.
    """

    def __init__(self, path: str, form: Literal["arrow", "parquet"], kind: str | None) -> None:
        self._batches = _refusing(lambda: _batches(path, form), path)
        self._path, self._kind = path, kind
        self._failure: BaseException | None = None
        self.descriptor, self._sink = os.pipe()
        self._thread = threading.Thread(target=self._write, name="firstnan-rows", daemon=True)
        self._thread.start()

    def _write(self) -> None:
        try:
            with os.fdopen(self._sink, "wb") as sink:
                for batch in self._batches:
                    sink.write(b"".join(lines_of(batch, self._kind)))
        except BrokenPipeError:
            pass  # the reader has given up
        except BaseException as error:
            self._failure = error

    def close(self) -> None:
        """Ends the reading end."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def check(self) -> None:
        """Raises what ended the writing early, once the reader is at the end."""
        self._thread.join()
        if self._failure is not None:
            _refusing(self._raise, self._path)

    def _raise(self) -> None:
        assert self._failure is not None
        raise self._failure


def _refusing(work: Callable[[], Any], path: str) -> Any:
    """The work's result; what pyarrow and json refuse, as a ContractError."""
    try:
        return work()
    except (needed("pyarrow").ArrowException, TypeError, ValueError) as error:
        if isinstance(error, ContractError):
            raise
        raise ContractError(f"{path}: is not a table of records: {type(error).__name__}", kind="unsupported",
                            layer="wire") from error


def _batches(path: str, form: Literal["arrow", "parquet"]) -> Iterator[pa.RecordBatch]:
    """The batches of a file, bounded in rows."""
    if form == "parquet":
        return iter(needed("pyarrow.parquet").ParquetFile(path).iter_batches(batch_size=BATCH_ROWS))
    arrow = needed("pyarrow")
    source = arrow.memory_map(path)
    try:
        reader = arrow.ipc.open_file(source)
        whole = (reader.get_batch(index) for index in range(reader.num_record_batches))
    except arrow.ArrowInvalid:
        source.seek(0)
        whole = iter(arrow.ipc.open_stream(source))
    return (batch.slice(start, BATCH_ROWS) for batch in whole for start in range(0, batch.num_rows, BATCH_ROWS))


def lines_of(batch: pa.RecordBatch, kind: str | None) -> Iterator[bytes]:
    """Each row as a line with its end; a row of one null text is an empty line."""
    names = batch.schema.names
    if len(names) == 1 and _is_text(batch.schema.field(0).type):
        for text in batch.column(0).to_pylist():
            # A raw line end in JSON is white space, or refused in a string: so is a carriage return.
            yield (text or "").replace("\n", "\r").encode("utf-8", "surrogatepass") + b"\n"
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
        yield json.dumps(record, default=_no_form).encode() + b"\n"


def _is_text(of: pa.DataType) -> bool:
    types = needed("pyarrow.types")
    return bool(types.is_string(of) or types.is_large_string(of) or types.is_string_view(of))


def _columns(kind: str) -> set[str]:
    return {name for name in needed("pyarrow").table(table_of_kind(kind)).schema.names
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
