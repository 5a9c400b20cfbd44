"""SQL over a snapshot, by DuckDB: one question that reads, of these files alone."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from firstnan import _core
from firstnan.durable import write_output
from firstnan.ingest.missing import needed
from firstnan.ingest.segments import QUARANTINE, is_older, schema_of
from firstnan.ingest.snapshot import Snapshot

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

BATCH_ROWS = 1 << 16


class QuestionError(ValueError):
    """DuckDB cannot answer this, and says why; or it is not one statement that reads."""


def is_text(value: str) -> bool:
    """Whether a string has an UTF-8 form: bytes of the command line may have none."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def view_of(kind: str) -> str:
    """What the table of a kind is called in SQL: `stage_telemetry` for `stage-telemetry`."""
    return kind.replace("-", "_")


def spill_folder() -> str:
    """Where DuckDB puts what a question needs beyond its memory."""
    return os.path.join(tempfile.gettempdir(), "firstnan-questions")


def connection_of(snapshot: Snapshot) -> duckdb.DuckDBPyConnection:
    """See `Snapshot.connect`."""
    library = needed("duckdb")
    connection: duckdb.DuckDBPyConnection = library.connect(":memory:")
    try:
        connection.execute("SET autoinstall_known_extensions = false; SET autoload_known_extensions = false")
        connection.execute("SET temp_directory = ?", [spill_folder()])
        allowed: list[str] = []
        for kind in (*_core.kinds(), QUARANTINE):
            files = [os.path.abspath(file) for file in snapshot.files(kind)]
            view = view_of(kind)
            older = any(map(is_older, snapshot.segments.get(kind, ())))
            empty = f"{view}_without_rows" if files else view
            if older or not files:
                connection.register("schema_of_kind", schema_of(kind).empty_table())
                connection.execute(f"CREATE TABLE {empty} AS FROM schema_of_kind")
                connection.unregister("schema_of_kind")
            if older:
                # Columns that an older firstnan did not write are null.
                read = f"FROM read_parquet({quoted_files(files)}, union_by_name = true)"
                connection.execute(f"CREATE VIEW {view} AS FROM {empty} UNION ALL BY NAME {read}")
            elif files:
                connection.execute(f"CREATE VIEW {view} AS FROM read_parquet({quoted_files(files)})")
            allowed += [name for file in files for name in {file, as_pattern(file)}]
        connection.execute("SET allowed_paths = ?", [allowed])
        connection.execute("SET enable_external_access = false; SET lock_configuration = true")
    except BaseException as error:
        connection.close()
        if isinstance(error, library.Error):
            name_damage(snapshot, error)
        raise
    return connection


@contextlib.contextmanager
def answer(snapshot: Snapshot, question: str) -> Iterator[pa.RecordBatchReader]:
    """The rows of an answer, batch by batch, while the block lasts.

    Args:
        snapshot: the state that is asked.
        question: one SELECT (or VALUES, DESCRIBE, SHOW, EXPLAIN …). The tables are the kinds of records with `_` for `-`, and
            `quarantine`.

    Raises:
        QuestionError: it is none, or DuckDB refuses it.
        StoreError: a segment is `missing`, `cut` or `unreadable`.
    """
    duckdb, pa = needed("duckdb"), needed("pyarrow")
    if not is_text(question):
        raise QuestionError("the question holds what is no Unicode text")
    with connection_of(snapshot) as connection:
        try:
            statements = connection.extract_statements(question)
            if len(statements) != 1 or statements[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
                raise QuestionError("give one statement that reads, such as SELECT")
            relation = connection.sql(question)
            if relation is None:
                raise QuestionError("the statement has no answer")
            yield pa.RecordBatchReader.from_stream(relation)
        except duckdb.InterruptException:
            raise KeyboardInterrupt from None
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # of whoever writes the answer, as on a full disk
            name_damage(snapshot, error)
            raise QuestionError(str(error)) from None


def name_damage(snapshot: Snapshot, error: Exception) -> None:
    """Where an error may come from a damaged segment, looks for it.

    Raises:
        StoreError: a segment is `missing`, `cut` or `unreadable`.
    """
    duckdb = needed("duckdb")
    if not isinstance(error, (duckdb.ParserException, duckdb.CatalogException)):
        # A column that does not exist may be one that a segment lacks; no row was read then.
        snapshot.check(rows=not isinstance(error, duckdb.BinderException))


def write_answer(rows: pa.RecordBatchReader, path: str, form: str) -> int:
    """Writes an answer to a file, whole or not at all; how many rows.

    Args:
        rows: the answer.
        path: where.
        form: `arrow` (the IPC file format) or `parquet`.

    Raises:
        OSError: it cannot be written.
    """
    pa, parquet = needed("pyarrow"), needed("pyarrow.parquet")
    count = 0

    def write(file: Any) -> None:
        nonlocal count
        new = parquet.ParquetWriter(file, rows.schema) if form == "parquet" else pa.ipc.new_file(file, rows.schema)
        with new as writer:
            for batch in rows:
                writer.write_batch(batch)
                count += len(batch)

    write_output(path, write)
    return count


def quoted_files(files: list[str]) -> str:
    """A list of files for `read_parquet`, which takes each for a pattern."""
    return "[" + ", ".join("'" + as_pattern(file).replace("'", "''") + "'" for file in files) + "]"


def as_pattern(file: str) -> str:
    """The pattern that only this file fits."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in file)
