"""Show the steps of a run in order: where all that came is finite, where not, and what did not come.

Neighbouring steps that look the same are one row. Where a symptom first shows is not why it arose: no cause is claimed.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from firstnan.cli.incidents import ranks
from firstnan.cli.output import CAUSE, count, say, say_json, say_table
from firstnan.cli.refusal import Refused
from firstnan.cli.stores import add_answer_arguments, asked, written
from firstnan.errors import ContractError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="the store's folder")
    parser.add_argument("run_id", metavar="RUN", help="the run's id")
    add_answer_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    with asked(arguments.store) as snapshot:
        from firstnan.ingest.fleet import timeline

        spans = timeline(snapshot, arguments.run_id)
    if not spans.num_rows:
        raise Refused(ContractError("the store has no contract and no telemetry of this run"), arguments.run_id)
    if written(arguments, spans.to_reader()):
        pass
    elif arguments.json:
        say_json(spans.to_pylist())
    else:
        rows = spans.to_pylist()
        say_table(
            ["steps", "attempt", "counted", "first non-finite stage", "on", "ranks seen", "nothing came of", "without a verdict"],
            [cells(row) for row in rows],
            numbers={"steps", "attempt", "counted", "ranks seen"},
            marked={place for place, row in enumerate(rows) if row["stage"]},
        )
        say()
        say(CAUSE)
    return 0


def cells(row: dict[str, Any]) -> list[str]:
    first, last = row["first_step"], row["last_step"]
    words = Counter(row["without_verdict"])
    return [
        str(first) if first == last else f"{first}-{last}",
        "-" if row["attempt"] is None else str(row["attempt"]),
        count(row["steps"]),
        row["stage"] or "none",
        ranks(row["ranks"]) if row["stage"] and row["world_size"] is not None else "-",
        "-" if row["world_size"] is None else f"{count(row['ranks_seen'])} of {count(row['world_size'])}",
        "-" if row["world_size"] is None else ranks(row["ranks_missing"]),
        ", ".join(f"{count(number)} {word.replace('_', ' ')}" for word, number in sorted(words.items())) or "-",
    ]
