"""Write an incident as one HTML page that needs nothing else.

The page has the verdict, the stages, the leaves of the first non-finite stage, the largest magnitudes of the last
steps, the identities, and how to verify them. Without -o it goes to standard output. It claims no cause.
"""

from __future__ import annotations

import argparse
import hashlib

from firstnan.cli.incident import incident_of, read_bundle
from firstnan.cli.output import say, say_bytes, say_json
from firstnan.cli.refusal import Misuse, Refused
from firstnan.errors import ContractError
from firstnan.triage import triage_training_incident


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", metavar="BUNDLE", help="the folder of an incident bundle")
    parser.add_argument("-o", "--output", metavar="FILE", help="the page's file; replaced if it exists")


def run(arguments: argparse.Namespace) -> int:
    from firstnan.report import render

    if arguments.json and arguments.output is None:
        raise Misuse("--json needs -o FILE: standard output is one or the other")
    bundle = read_bundle(arguments.bundle)
    incident = incident_of(bundle)
    try:
        report = triage_training_incident(incident.contract, incident.evidence)
        if report != incident.told:
            raise ContractError("report.json is not what triage says of the evidence", pointer="/report.json")
        page = render(
            incident.contract,
            incident.evidence,
            report,
            counts=bundle.counts,
            history=bundle.history,
            reproduced=bundle.incident.reproduced,
            observations=bundle.observations,
            shards=bundle.shards,
        ).encode("utf-8")
    except ContractError as error:
        raise Refused(error, arguments.bundle) from None
    if arguments.output is None:
        say_bytes(page)
        return 0
    try:
        with open(arguments.output, "wb") as file:
            file.write(page)
    except OSError as error:
        raise Misuse(f"{arguments.output}: {error.strerror}") from None
    if arguments.json:
        digest = hashlib.sha256(page).hexdigest()
        say_json({"file": arguments.output, "size": len(page), "sha256": digest})
    else:
        say(f"{arguments.output}: written, {len(page):,} bytes")
    return 0
