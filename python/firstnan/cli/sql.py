"""Ask a store a question in SQL.

The tables are the kinds of records, with `_` for `-` (stage_telemetry), and quarantine; `SHOW TABLES` and `DESCRIBE
stage_telemetry` say what they hold. One statement that reads, answered by DuckDB over one consistent state of the store; it
can read nothing else and write nothing. --arrow and --parquet write the whole answer to a file.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import Any

from firstnan.cli.output import count, say, say_json, say_table
from firstnan.cli.refusal import Misuse
from firstnan.cli.stores import extra_needed

SHOWN_ROWS = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="the folder of the store")
    parser.add_argument("question", metavar="SQL", help="one SELECT")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--arrow", metavar="FILE", help="write the answer there, in Arrow's file format")
    form.add_argument("--parquet", metavar="FILE", help="write the answer there, as Parquet")


def run(arguments: argparse.Namespace) -> int:
    with extra_needed():
        from firstnan.ingest import Store
        from firstnan.ingest.questions import QuestionError, answer, write_answer

        file = arguments.arrow or arguments.parquet
        try:
            with (
                Store.open(arguments.store) as store,
                store.snapshot() as snapshot,
                answer(snapshot, arguments.question) as rows,
            ):
                if file is None:
                    (tell_json if arguments.json else tell)(rows)
                    return 0
                written = write_answer(rows, file, "arrow" if arguments.arrow else "parquet")
        except QuestionError as error:
            raise Misuse(str(error).strip()) from None
    if arguments.json:
        say_json({"file": file, "rows": written})
    else:
        say(f"{count(written)} rows written to {file}")
    return 0


def tell(rows: Any) -> None:
    """The first rows as a table."""
    names = rows.schema.names
    shown: list[list[str]] = []
    total = 0
    for batch in rows:
        cells = batch.slice(0, max(0, SHOWN_ROWS - total))
        total += len(batch)
        shown += [[cell(value) for value in row] for row in zip(*(column.to_pylist() for column in cells.columns), strict=True)]
    say_table(names, shown)
    say()
    say(f"{count(total)} rows" + (f", {count(len(shown))} shown" if total > len(shown) else ""))


def tell_json(rows: Any) -> None:
    """All rows as one document, written as they come."""
    sys.stdout.write(f'{{"columns": {json.dumps(rows.schema.names)}, "rows": [')
    between = "\n  "
    for batch in rows:
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            sys.stdout.write(between + json.dumps([plain(value) for value in row], allow_nan=False))
            between = ",\n  "
    sys.stdout.write("]}\n")


def cell(value: Any) -> str:
    value = plain(value)
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value)


def plain(value: Any) -> Any:
    """A value in JSON: bytes in hex; what JSON lacks (NaN, dates, exact decimals) as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return str(value)
