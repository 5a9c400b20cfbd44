"""Show, export or retry the lines that were refused.

Without ACTION, or with `show`: one line each with where it stood (source:line:offset), the layer, the place in the record (a
JSON Pointer), the message, and the beginning of the line itself, escaped. `export` writes the bytes of the lines as they
were, one a line, to --to FILE, or all columns where FILE ends in .parquet. `retry` decodes them again, after an upgrade or
with --kind, and moves what passes to the table of its kind. The exit code of `show` and `retry` is 1 where lines are left.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator
from typing import Any

from firstnan.cli.inputs import check_kind
from firstnan.cli.output import complain, count, say, say_bytes, say_json
from firstnan.cli.refusal import Misuse
from firstnan.cli.stores import extra_needed

SHOWN_BYTES = 120
SHOWN_ROWS = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="the folder of the store")
    parser.add_argument("action", nargs="?", default="show", metavar="ACTION", choices=("show", "export", "retry"),
                        help="show (default), export or retry")  # fmt: skip
    parser.add_argument("--to", default="-", metavar="FILE", help="export to this file; - is standard output (default)")
    parser.add_argument("--kind", help="retry: the kind of every record")
    parser.add_argument("--limit", type=int, default=SHOWN_ROWS, metavar="N", help=f"show at most N (default: {SHOWN_ROWS})")


def run(arguments: argparse.Namespace) -> int:
    if arguments.kind is not None and arguments.action != "retry":
        raise Misuse("--kind is for retry")
    if arguments.kind is not None:
        check_kind(arguments.kind)
    if arguments.to != "-" and arguments.action != "export":
        raise Misuse("--to is for export")
    if arguments.limit < 0:
        raise Misuse("--limit must be at least 0")
    with extra_needed():
        return {"show": show, "export": export, "retry": retry}[arguments.action](arguments)


def show(arguments: argparse.Namespace) -> int:
    from firstnan.ingest import Store

    with Store.open(arguments.store) as store, store.snapshot() as snapshot:
        total = snapshot.rows("quarantine")
        rows = rows_of(snapshot.batches("quarantine"), arguments.limit)
        if arguments.json:
            shown = ((json.dumps(in_json(row))) for row in rows)
            sys.stdout.write('{"quarantined": ' + str(total) + ', "lines": [')
            for place, text in enumerate(shown):
                sys.stdout.write((",\n  " if place else "\n  ") + text)
            sys.stdout.write("]}\n")
        else:
            for row in rows:
                say(f"{row['line_source']}:{row['line_number']}:{row['line_offset']}: refused"
                    f" ({row['layer']}, {row['error']}): {row['message']}")  # fmt: skip
                say(f"    {escaped(row)}")
            shown_rows = min(total, arguments.limit)
            say(f"{count(total)} in quarantine" + ("" if shown_rows == total else f", {count(shown_rows)} shown"))
    return 1 if total else 0


def export(arguments: argparse.Namespace) -> int:
    from firstnan.ingest import Store
    from firstnan.ingest.export import export_lines, export_table

    if arguments.to == "-" and arguments.json:
        raise Misuse("--json needs --to FILE, since the lines go to standard output")
    with Store.open(arguments.store) as store, store.snapshot() as snapshot:
        if arguments.to.endswith(".parquet"):
            lines, cut = export_table(snapshot, arguments.to), 0
        else:
            lines, cut = export_lines(snapshot, None if arguments.to == "-" else arguments.to, say_bytes)
    if arguments.json:
        say_json({"lines": lines, "cut": cut, "file": arguments.to})
    elif arguments.to != "-":
        say(f"{count(lines)} lines exported to {arguments.to}")
    if cut:
        complain(f"{cut:,} of the lines are longer than the store keeps; only their first bytes were exported")
    return 1 if cut else 0


def retry(arguments: argparse.Namespace) -> int:
    from firstnan.ingest import Store
    from firstnan.ingest import retry as retry_quarantine

    with Store.open(arguments.store) as store:
        outcome = retry_quarantine(store, kind=arguments.kind)
    if arguments.json:
        say_json(dataclasses.asdict(outcome))
    else:
        for kind, rows in outcome.kinds.items():
            say(f"{kind}: {count(rows)} moved")
        say(f"{count(outcome.lines)} lines retried: {count(outcome.passed)} passed, {count(outcome.left)} left")
        if outcome.cut:
            say(f"{count(outcome.cut)} of these are longer than the store keeps, so they were not tried")
    return 1 if outcome.left else 0


def rows_of(batches: Iterator[Any], limit: int) -> Iterator[dict[str, Any]]:
    for batch in batches:
        if limit <= 0:
            return
        yield from batch.slice(0, limit).to_pylist()
        limit -= len(batch)


def escaped(row: dict[str, Any]) -> str:
    """The beginning of a line, its bytes that are no UTF-8 as escapes."""
    raw: bytes = row["raw"]
    text = raw[:SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return text if row["raw_bytes"] <= SHOWN_BYTES else f"{text} … ({row['raw_bytes']:,} bytes)"


def in_json(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "raw": row["raw"].decode("utf-8", "backslashreplace")}
