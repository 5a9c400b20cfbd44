"""Print the SHA-256 of the canonical bytes of JSON files.

Each FILE holds any one JSON value; `-` or no FILE is standard input. White space, member order and the spelling of
strings and floats do not matter to the digest; 1 and 1.0 differ. One line a file: digest, two spaces, name. With
--prefix the digest is written as a content id; that of a contract is over contract.json as it is, that of an evidence
over its contract_content_id, evidence_id and stages alone (`firstnan triage` checks it). A file has at most 64 MiB.
"""

from __future__ import annotations

import argparse
import hashlib
from typing import Literal

from firstnan.canonical import canonicalize
from firstnan.cli.inputs import STANDARD_INPUT, read_file
from firstnan.cli.output import complain, say, say_bytes, say_json
from firstnan.cli.refusal import Misuse, Refused
from firstnan.errors import ContractError

PREFIXES = ("training-incident-contract", "training-incident-evidence")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="a file, or - for standard input")
    parser.add_argument("--profile", choices=["evidence", "record"], default="evidence", help="default: evidence")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--prefix", choices=PREFIXES, help="print a content id, PREFIX@sha256:DIGEST")
    form.add_argument("--canonical", action="store_true", help="write the canonical bytes of one file instead")


def run(arguments: argparse.Namespace) -> int:
    names = arguments.files or [STANDARD_INPUT]
    if arguments.canonical and (len(names) > 1 or arguments.json):
        raise Misuse("--canonical writes the bytes of one file, and nothing else")
    if arguments.prefix and arguments.profile != "evidence":
        raise Misuse("a content id is over the evidence profile")
    digests: list[dict[str, str]] = []
    refusals: list[Refused] = []
    unreadable: list[str] = []
    for name in names:
        try:
            data = canonical_bytes(name, arguments.profile)
        except Refused as refusal:
            refusals.append(refusal)
            if not arguments.json:
                complain(str(refusal))
            continue
        except Misuse as misuse:
            unreadable.append(name)
            complain(str(misuse))
            continue
        if arguments.canonical:
            say_bytes(data)
            continue
        digest = hashlib.sha256(data).hexdigest()
        shown = f"{arguments.prefix}@sha256:{digest}" if arguments.prefix else digest
        digests.append({"file": name, "content_id" if arguments.prefix else "sha256": shown})
        if not arguments.json:
            say(f"{shown}  {name}")
    if arguments.json:
        refused = [refusal.to_json() for refusal in refusals]
        say_json(
            {"profile": arguments.profile, "digests": digests, "refusals": refused, "unreadable": unreadable}
        )
    return 2 if unreadable else 1 if refusals else 0


def canonical_bytes(name: str, profile: Literal["evidence", "record"]) -> bytes:
    """The canonical bytes of a file.

    Raises:
        Refused: it is not JSON, or has no form in the profile.
        Misuse: it cannot be read.
    """
    data = read_file(name)
    try:
        return canonicalize(data, profile=profile)
    except ContractError as error:
        raise Refused(error, name) from None
