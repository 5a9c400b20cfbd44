"""Check records against their schema and rules.

Each FILE holds one record of KIND; `-` or no FILE is standard input. A FILE that ends in .jsonl or .ndjson, or any
with --lines, holds one record a line; empty lines are passed over. A refusal names the file and line, the layer, the
place in the record (a JSON Pointer), and the bound, never the value. A file, or a line, has at most 64 MiB.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext

from firstnan._core import validate
from firstnan.cli.inputs import STANDARD_INPUT, check_kind, opened, read_file, read_lines, within_bound
from firstnan.cli.output import complain, say, waiting
from firstnan.cli.refusal import Misuse, Refused
from firstnan.errors import ContractError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", metavar="KIND", help="a kind of record; `firstnan schema list` names them")
    parser.add_argument("files", nargs="*", metavar="FILE", help="a file, or - for standard input")
    parser.add_argument("--lines", action="store_true", help="one record a line, whatever the file's name")


def run(arguments: argparse.Namespace) -> int:
    check_kind(arguments.kind)
    tell = InJson(arguments.kind) if arguments.json else InText()
    accepted = refused = 0
    unreadable: list[str] = []
    for name in arguments.files or [STANDARD_INPUT]:
        by_line = arguments.lines or name.endswith((".jsonl", ".ndjson"))
        try:
            with waiting(f"reading {name}") if by_line else nullcontext():
                for refusal in outcomes(arguments.kind, name, by_line):
                    if refusal is None:
                        accepted += 1
                        tell.accepted(name, by_line)
                    else:
                        refused += 1
                        tell.refused(refusal)
        except Misuse as misuse:
            unreadable.append(name)
            complain(str(misuse))
    tell.end(accepted, refused, unreadable)
    return 2 if unreadable else 1 if refused else 0


class InText:
    """A line for each refusal, and for each file of one record; counts at the end."""

    def accepted(self, name: str, by_line: bool) -> None:
        if not by_line:
            say(f"{name}: accepted")

    def refused(self, refusal: Refused) -> None:
        say(str(refusal))

    def end(self, accepted: int, refused: int, unreadable: list[str]) -> None:
        say(f"{accepted:,} accepted, {refused:,} refused")


class InJson:
    """One document, written as it goes, so that a million refusals need no memory."""

    def __init__(self, kind: str) -> None:
        self.between = "\n  "
        sys.stdout.write(f'{{"kind": {json.dumps(kind)}, "refusals": [')

    def accepted(self, name: str, by_line: bool) -> None:
        pass

    def refused(self, refusal: Refused) -> None:
        sys.stdout.write(self.between + json.dumps(refusal.to_json()))
        self.between = ",\n  "

    def end(self, accepted: int, refused: int, unreadable: list[str]) -> None:
        counts = {"accepted": accepted, "refused": refused, "unreadable": unreadable}
        sys.stdout.write("], " + json.dumps(counts).removeprefix("{") + "\n")


def outcomes(kind: str, name: str, by_line: bool) -> Iterator[Refused | None]:
    """For each record of a file its refusal, or None where it was accepted.

    Raises:
        Misuse: the file cannot be read.
    """
    if not by_line:
        try:
            data = read_file(name)
        except Refused as refusal:
            yield refusal
        else:
            yield refusal_of(kind, data, name, None)
        return
    with opened(name) as file:
        for number, line in read_lines(file):
            yield refusal_of(kind, line, name, number)


def refusal_of(kind: str, data: bytes, name: str, line: int | None) -> Refused | None:
    """Why one record is refused, or None."""
    try:
        validate(kind, within_bound(data, name, line))
    except Refused as refusal:
        return refusal
    except ContractError as error:
        return Refused(error, name, line)
    return None
