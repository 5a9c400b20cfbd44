"""Say which stage of a step went non-finite first.

Takes the folder of an incident bundle, or a contract and an evidence file. A bundle is compared with its manifest
first, and its report.json with the fresh verdict. Where a symptom first shows is not why it arose: no cause is claimed.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from firstnan.cli.incident import Incident, read_incident
from firstnan.cli.output import CAUSE, count, magnitude, say, say_json, say_table
from firstnan.cli.refusal import Refused
from firstnan.errors import ContractError
from firstnan.records import IncidentObservation, IncidentReport, StageTelemetry
from firstnan.triage import triage_training_incident

if TYPE_CHECKING:
    from firstnan.jax.bundle import Bundle
    from firstnan.jax.reductions import ShardsSeen
    from firstnan.jax.tally import LeafCount

SHOWN_LEAVES = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("incident", metavar="BUNDLE|CONTRACT", help="a bundle's folder, or a contract's file")
    parser.add_argument("evidence", nargs="?", metavar="EVIDENCE", help="with a contract, the evidence's file")
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 on HOLD")


def run(arguments: argparse.Namespace) -> int:
    incident = read_incident(arguments.incident, arguments.evidence)
    try:
        report = triage_training_incident(incident.contract, incident.evidence)
    except ContractError as error:
        raise Refused(error, arguments.evidence or arguments.incident) from None
    differs = incident.bundle is not None and incident.told != report
    if arguments.json:
        say_json(document(incident, report))
    else:
        show(incident, report)
    return 1 if differs or (arguments.exit_code and report.decision == "HOLD") else 0


def document(incident: Incident, report: IncidentReport) -> dict[str, Any]:
    """The verdict, what it rests on, and for a bundle whether its report says the same."""
    bundle, stage = incident.bundle, report.earliest_nonfinite_stage
    return {
        "report": asdict(report),
        "stages": [asdict(telemetry) for telemetry in incident.evidence.stages],
        "leaves": None if bundle is None else [leaf.to_json() for leaf in leaves_of(bundle, stage)],
        "report_json_equals_verdict": None if bundle is None else incident.told == report,
        "reproduced": None if bundle is None else bundle.incident.reproduced,
        "observations": None if bundle is None or bundle.observations is None else asdict(bundle.observations),
        "shards": None if bundle is None or bundle.shards is None else bundle.shards.to_json(),
        "statement": CAUSE,
    }


def show(incident: Incident, report: IncidentReport) -> None:
    """The same for people."""
    contract, stage = incident.contract, report.earliest_nonfinite_stage
    say(f"{report.decision}: run {contract.run_id}, step {contract.step_id}, batch {contract.batch_id}")
    say()
    say_table(
        ["stage", "state", "checked", "non-finite", "largest finite magnitude", "owner"],
        [stage_row(telemetry) for telemetry in incident.evidence.stages],
        numbers={"checked", "non-finite", "largest finite magnitude"},
        marked={telemetry.stage_order for telemetry in incident.evidence.stages if telemetry.nonfinite_elements},
    )
    say()
    say(f"decision        {report.decision}")
    say(f"earliest stage  {'none' if stage is None else f'{stage}, owner {contract.expected_owner(stage)}'}")
    say(f"action          {report.action}")
    say(f"incident owner  {contract.incident_owner}")
    say(f"contract        {report.contract_content_id}")
    say(f"evidence        {report.evidence_content_id}")
    if incident.bundle is not None:
        say(f"report.json     {'equals' if incident.told == report else 'DIFFERS FROM'} the fresh verdict")
        if incident.bundle.incident.reproduced is not None:
            again = "gave the same counts" if incident.bundle.incident.reproduced else "gave other counts"
            say(f"replay          running the step again {again}")
        if stage is not None:
            show_leaves(stage, leaves_of(incident.bundle, stage))
        if incident.bundle.observations is not None:
            show_observations(incident.bundle.observations.observations)
        if incident.bundle.shards is not None:
            show_shards(incident.bundle.shards)
    say()
    say(CAUSE)


def stage_row(stage: StageTelemetry) -> list[str]:
    if stage.state == "NOT_RUN":
        return [stage.stage, stage.state, "-", "-", "-", stage.owner]
    return [
        stage.stage,
        stage.state,
        count(stage.checked_elements),
        count(stage.nonfinite_elements),
        magnitude(stage.maximum_absolute_finite),
        stage.owner,
    ]


def leaves_of(bundle: Bundle, stage: str | None) -> list[LeafCount]:
    """The leaves of a stage, those with most non-finite elements first."""
    leaves = [leaf for leaf in bundle.counts.leaves if leaf.stage == stage]
    return sorted(leaves, key=lambda leaf: -leaf.nonfinite)


def show_leaves(stage: str, leaves: Sequence[LeafCount]) -> None:
    say()
    say(f"the leaves of {stage}:")
    say()
    shown = leaves[:SHOWN_LEAVES]
    say_table(
        ["leaf", "dtype", "checked", "NaN", "+Inf", "-Inf", "largest finite magnitude"],
        [leaf_row(leaf) for leaf in shown],
        numbers={"checked", "NaN", "+Inf", "-Inf", "largest finite magnitude"},
        marked={place for place, leaf in enumerate(shown) if leaf.nonfinite},
    )
    if len(leaves) > SHOWN_LEAVES:
        say(f"and {count(len(leaves) - SHOWN_LEAVES)} more: --json has all of them")


def show_observations(observations: Sequence[IncidentObservation]) -> None:
    """What the evidence supports beside the verdict; docs/records.md has the words."""
    shown = observations[:SHOWN_LEAVES]
    say()
    say("observed beside the verdict:")
    say()
    say_table(["observation", "about", "leaf", "elements"], list(map(observation_row, shown)), numbers={"elements"})
    if len(observations) > SHOWN_LEAVES:
        say(f"and {count(len(observations) - SHOWN_LEAVES)} more: --json has all of them")


def show_shards(shards: ShardsSeen) -> None:
    """The devices that were not finite before a reduction."""
    say()
    say(f"before the reduction: {count(shards.bad)} of {count(shards.seen)} shards seen held non-finite elements")
    rows = [
        [str(one.device), place_in_mesh(one.coordinates), leaf.stage, leaf.path or ".", count(leaf.nonfinite)]
        for one in shards.listed
        for leaf in one.leaves
    ]
    if rows:
        say()
        columns = ["device", "place in the mesh", "stage", "leaf", "non-finite"]
        say_table(columns, rows[:SHOWN_LEAVES], numbers={"device", "non-finite"})
    if len(rows) > SHOWN_LEAVES:
        say(f"and {count(len(rows) - SHOWN_LEAVES)} more: --json has all that the bundle lists")


def place_in_mesh(coordinates: Mapping[str, int]) -> str:
    return ", ".join(f"{axis} {index}" for axis, index in coordinates.items()) or "-"


def observation_row(observed: IncidentObservation) -> list[str]:
    about = observed.stage or (observed.role.value if observed.role else "-")
    leaf = "-" if observed.path is None else observed.path or "."
    return [observed.word.value, about, leaf, "-" if observed.elements is None else count(observed.elements)]


def leaf_row(leaf: LeafCount) -> list[str]:
    counts = (leaf.checked, leaf.nan, leaf.positive_infinity, leaf.negative_infinity)
    return [leaf.path or ".", leaf.dtype, *map(count, counts), magnitude(leaf.maximum_absolute_finite)]
