"""Rehearse recovery: fail, resume, and compare with a run that never failed.

Runs the reference worker three times under DIR: 8 steps at a stretch; again, failing after step 3 with its last
checkpoint at 2; and on from that checkpoint. Each comparison is printed. Needs jax.
"""

from __future__ import annotations

import argparse
import importlib.util
import json

from firstnan.cli.output import say, say_json, say_table, waiting
from firstnan.cli.refusal import Misuse

SHOWN_CHARACTERS = 20
MAX_TIMEOUT_S = 1e9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="where the runs are kept; made where it is missing")
    parser.add_argument("--timeout", type=seconds, default=60.0, metavar="S", help="limit of each run (default: 60)")


def run(arguments: argparse.Namespace) -> int:
    from firstnan.supervisor import drill

    if importlib.util.find_spec("jax") is None:
        raise Misuse("the worker needs jax: install firstnan[jax]")
    with waiting("rehearsing recovery: three runs of the worker"):
        result = drill(arguments.folder, timeout=arguments.timeout)
    if arguments.json:
        say_json(result)
        return 0 if result["passed"] else 1
    say_table(
        ["", "comparison", "expected", "found"],
        [
            [
                "ok" if comparison["equal"] else "FAILED",
                comparison["name"],
                shortened(comparison["expected"]),
                shortened(comparison["found"]),
            ]
            for comparison in result["comparisons"]
        ],
    )
    failed = sum(not comparison["equal"] for comparison in result["comparisons"])
    say()
    if failed:
        say(f"the drill failed: {failed} of {len(result['comparisons'])} comparisons")
        say(f"run.json in {arguments.folder}/uninterrupted and /interrupted has what each worker wrote")
        return 1
    say("the drill passed: the resumed run equals the one that never failed")
    return 0


def seconds(text: str) -> float:
    """A time limit; what is not above 0 and finite is argparse's error."""
    value = float(text)
    if not 0 < value <= MAX_TIMEOUT_S:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most {MAX_TIMEOUT_S:.0f} seconds")
    return value


def shortened(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
