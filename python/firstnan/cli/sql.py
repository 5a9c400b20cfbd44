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

from firstnan.cli.output import count, say, say_table
from firstnan.cli.refusal import Misuse
from firstnan.cli.stores import add_answer_arguments, asked, written

SHOWN_ROWS = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="the folder of the store")
    parser.add_argument("question", metavar="SQL", help="one SELECT")
    add_answer_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    with asked(arguments.store) as snapshot:
        from firstnan.ingest.questions import QuestionError, answer

        try:
            with answer(snapshot, arguments.question) as rows:
                if not written(arguments, rows):
                    (tell_json if arguments.json else tell)(rows)
        except QuestionError as error:
            raise Misuse(str(error).strip()) from None
    return 0


def tell(rows: Any) -> None:
    """The first rows as a table."""
    names = rows.schema.names
    shown: list[list[str]] = []
    total = 0
    for batch in rows:
        cells = batch.slice(0, max(0, SHOWN_ROWS - total))
        total += len(batch)
        shown += [[cell(value) for value in row] for row in zip(*map(values, cells.columns), strict=True)]
    say_table(names, shown)
    say()
    say(f"{count(total)} rows" + (f", {count(len(shown))} shown" if total > len(shown) else ""))


def tell_json(rows: Any) -> None:
    """All rows as one document, written as they come."""
    sys.stdout.write(f'{{"columns": {json.dumps(rows.schema.names)}, "rows": [')
    between = "\n  "
    for batch in rows:
        for row in zip(*map(values, batch.columns), strict=True):
            sys.stdout.write(between + json.dumps([plain(value) for value in row], allow_nan=False))
            between = ",\n  "
    sys.stdout.write("]}\n")


def values(column: Any) -> list[Any]:
    """The values of a column; as text where Python's types do not reach, as of dates after the year 9999."""
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):
        return list(column.cast("string").to_pylist())


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
