"""Arrow and Parquet files as lines of JSON, so that rows are checked by the very decoder that checks lines."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from firstnan._core import RowLines
from firstnan.errors import ContractError
from firstnan.ingest.missing import needed

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 8192


class RowPipe:
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
                    batch.validate(full=True)  # by the Arrow C interface, what it says of its memory is believed
                    rows = RowLines(batch, kind=self._kind)
                    while (lines := rows.next_lines()) is not None:
                        sink.write(lines)
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
    """The work's result; what pyarrow refuses, as a ContractError."""
    try:
        return work()
    except (needed("pyarrow").ArrowException, TypeError, ValueError) as error:
        if isinstance(error, ContractError):
            error.args = (f"{path}: {error}",)
            raise
        raise ContractError(f"{path}: is not a table of records: {type(error).__name__}", kind="unsupported",
                            layer="wire") from error


def arrow_file(path: str) -> pa.NativeFile:
    """A file, open for Arrow, which takes a name that is no UTF-8 as bytes only."""
    return needed("pyarrow").OSFile(os.fsencode(path))


def _batches(path: str, form: Literal["arrow", "parquet"]) -> Iterator[pa.RecordBatch]:
    """The batches of a file: those of Arrow as they are, those of Parquet of so many rows."""
    if form == "parquet":
        # One group at a time, not read ahead: what is read ahead is kept until the last batch.
        file = needed("pyarrow.parquet").ParquetFile(arrow_file(path), pre_buffer=False)
        if not file.schema_arrow.names and file.metadata.num_rows:
            raise ValueError("rows without columns, which Parquet's readers pass over")
        groups = ([group] for group in range(file.num_row_groups))
        return (batch for group in groups for batch in file.iter_batches(batch_size=BATCH_ROWS, row_groups=group))
    arrow = needed("pyarrow")
    source = arrow_file(path)  # not mapped: what was checked must not change before it is read
    try:
        reader = arrow.ipc.open_file(source)
        return (reader.get_batch(index) for index in range(reader.num_record_batches))
    except arrow.ArrowInvalid:
        source.seek(0)
        return iter(arrow.ipc.open_stream(source))
