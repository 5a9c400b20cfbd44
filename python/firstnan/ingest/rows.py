"""Arrow and Parquet files as lines of JSON, so that rows are checked by the very decoder that checks lines."""

from __future__ import annotations

import contextlib
import io
import os
import threading
from collections.abc import Generator
from typing import TYPE_CHECKING

from firstnan._core import RowLines
from firstnan.errors import ContractError
from firstnan.ingest.form import Opened
from firstnan.ingest.missing import needed

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 8192
READ_BYTES = 1 << 20


class RowPipe:
    """A descriptor from which the rows of a source can be read as lines, one line a row, written by a thread of its own.

    The columns are the fields of a record, as a table of ours has them or without the columns that say where it came
    from; or there is one column of text, each value a line.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, source: Opened, name: str, kind: str | None) -> None:
        # Opened here, since the descriptor is the caller's, and may be closed before the thread ends.
        self._batches = _batches(_file(source), source)
        self._name, self._kind = name, kind
        self._failure: BaseException | None = None
        self.descriptor, self._sink = os.pipe()
        self._thread = threading.Thread(target=self._write, name="firstnan-rows", daemon=True)
        self._thread.start()

    def _write(self) -> None:
        try:
            with os.fdopen(self._sink, "wb") as sink, contextlib.closing(self._batches) as batches:
                for batch in batches:
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
        """Raises what ended the writing early, once the reader is at the end.

        Raises:
            OSError: the source cannot be read.
            ContractError: it is not a whole Arrow (IPC) or Parquet table, or has a column whose values JSON has no form for.
        """
        self._thread.join()
        match self._failure:
            case None:
                pass
            case ContractError() as error:
                error.args = (f"{self._name}: {error}",)
                raise error
            case error if isinstance(error, (needed("pyarrow").ArrowException, TypeError, ValueError)):
                raise ContractError(f"{self._name}: is not a whole table of records: {type(error).__name__}",
                                    kind="unsupported", layer="wire") from error  # fmt: skip
            case error:
                raise error


def arrow_file(path: str) -> pa.NativeFile:
    """A file, open for Arrow, which takes a name that is no UTF-8 as bytes only."""
    return needed("pyarrow").OSFile(os.fsencode(path))


def _batches(file: pa.NativeFile, source: Opened) -> Generator[pa.RecordBatch]:
    """The batches of a source: those of Arrow as they are, those of Parquet of so many rows."""
    arrow = needed("pyarrow")
    with file:
        if source.form == "parquet":
            # One group at a time, not read ahead: what is read ahead is kept until the last batch.
            table = needed("pyarrow.parquet").ParquetFile(file, pre_buffer=False)
            if not table.schema_arrow.names and table.metadata.num_rows:
                raise ValueError("rows without columns, which Parquet's readers pass over")
            for group in range(table.num_row_groups):
                yield from table.iter_batches(batch_size=BATCH_ROWS, row_groups=[group])
        elif source.head:
            yield from arrow.ipc.open_stream(file)
        else:
            place = file.tell()
            try:
                reader = arrow.ipc.open_file(file)
            except arrow.ArrowInvalid:
                file.seek(place)
                yield from arrow.ipc.open_stream(file)
                return
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index)


def _file(source: Opened) -> pa.NativeFile:
    if isinstance(source.file, str):
        return arrow_file(source.file)  # not mapped: what was checked must not change before it is read
    own = os.fdopen(os.dup(source.file), "rb", buffering=0)
    return needed("pyarrow").PythonFile(_Whole(own, source.head), "r")


class _Whole:
    """An open file, of which a read gives all the bytes that are asked for, unless it ends. Room is made as they come, since
    what asks for them believes the lengths that a source gives."""

    def __init__(self, file: io.FileIO, head: bytes) -> None:
        self._file, self._head = file, head
        self.seek, self.tell, self.close = file.seek, file.tell, file.close

    @property
    def closed(self) -> bool:
        return self._file.closed

    def read(self, size: int) -> bytearray:
        found = bytearray(self._head[:size])
        self._head = self._head[size:]
        while len(found) < size and (more := os.read(self._file.fileno(), min(size - len(found), READ_BYTES))):
            found += more
        return found
