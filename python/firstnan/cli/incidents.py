"""Show where each run of a store went non-finite first: the step, then the stage, then the rank.

For that step it says which ranks showed it before the gradients of several ranks are reduced, which only later, which
stayed finite, and of which nothing came. Where a symptom first shows is not why it arose: no cause is claimed.
"""

from __future__ import annotations

import argparse
from typing import Any

from firstnan.cli.output import CAUSE, count, say, say_json
from firstnan.cli.stores import add_answer_arguments, asked, written

SHOWN_RANKS = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="the store's folder")
    parser.add_argument("--run", dest="run_id", metavar="RUN", help="only this run")
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 where there is an incident")
    add_answer_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    with asked(arguments.store) as snapshot:
        from firstnan.ingest.fleet import incidents

        found = incidents(snapshot, run=arguments.run_id)
    if written(arguments, found.to_reader()):
        pass
    elif arguments.json:
        say_json(found.to_pylist())
    else:
        for row in found.to_pylist():
            show(row)
        say(f"runs (each attempt by itself) with a non-finite value: {count(found.num_rows)}")
        say(CAUSE)
    return 1 if arguments.exit_code and found.num_rows else 0


def show(row: dict[str, Any]) -> None:
    """One incident for people."""
    attempt = "" if row["attempt"] is None else f", attempt {row['attempt']}"
    rank = "" if row["rank"] is None else f", rank {row['rank']}"
    say(f"{row['run_id']}{attempt}: first in {row['stage']} of step {row['step_id']}{rank}")
    say(f"  non-finite elements there   {count(row['nonfinite_elements'])}")
    if row["world_size"] is not None:
        say(f"  before the reduction        {ranks(row['ranks_before_reduction'])}")
        say(f"  first seen in backward      {ranks(row['ranks_at_backward'])}")
        say(f"  first seen in optimizer     {ranks(row['ranks_at_optimizer'])}")
        say(f"  finite in this step         {ranks(row['ranks_finite'])}")
        say(f"  nothing came of             {ranks(row['ranks_missing'])}")
        if not row["ranks_before_reduction"] and len(row["ranks_at_backward"]) + len(row["ranks_at_optimizer"]) > 1:
            say("  which rank had it before the reduction cannot be told: none shows it in input, forward or loss")
    if row["without_verdict"]:
        say(f"  without a verdict           {count(row['without_verdict'])} of {count(row['without_verdict'] + row['verdicts'])}")
    say()


def ranks(of: list[int]) -> str:
    """Ranks for people: how many, and spans of the first."""
    if not of:
        return "none"
    spans: list[list[int]] = []
    for rank in of:
        if spans and spans[-1][1] + 1 == rank:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    words = [str(first) if first == last else f"{first}-{last}" for first, last in spans[:SHOWN_RANKS]]
    more = ", …" if len(spans) > SHOWN_RANKS else ""
    return f"{count(len(of))} {'rank' if len(of) == 1 else 'ranks'}: {', '.join(words)}{more}"
