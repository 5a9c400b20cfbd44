"""What was observed beside the verdict, as a section of the page."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree.ElementTree import Element

from firstnan.records import IncidentObservation, IncidentObservations, ObservationWord
from firstnan.report.measured import Shards
from firstnan.report.parts import section, table

MAX_ROWS = 200

SAID = {
    ObservationWord.PRESENT_ON_ENTRY: "not finite before the step",
    ObservationWord.BEGAN_BEFORE_WINDOW: "not finite before the first step since the last triage",
    ObservationWord.REACHED_PARAMETERS: "a parameter that the step gave back is not finite",
    ObservationWord.REACHED_STATE: "state that the step gave back is not finite",
    ObservationWord.CONTAINED: "the state that the step gave back holds none that was not there before",
    ObservationWord.REACH_UNDECIDED: "not decided: whether it got into what the step gave back",
    ObservationWord.SKIPPED_BY_SCALER: "the step skipped its update, and left the state as it was",
    ObservationWord.SKIP_CHANGED_STATE: "the step said it was skipped, and changed this",
    ObservationWord.SKIPS_EXHAUSTED: "more steps in a row were skipped than the policy allows",
    ObservationWord.GRADIENTS_ZERO: "the loss is not finite, and every gradient is zero",
    ObservationWord.REPRODUCED: "running the step again gave the same counts",
    ObservationWord.NOT_REPRODUCED: "running the step again gave other counts",
    ObservationWord.REPLAY_UNDECIDED: "not decided: whether running the step again gives the same counts",
    ObservationWord.SPREAD_BY_REDUCTION: "some shards were finite before a reduction, and none after it",
    ObservationWord.FIRST_AFTER_REDUCTION: "every shard was finite before a reduction, and the result is not",
    ObservationWord.EXCLUDED_BY_POLICY: "intended, says the policy: counted, and not triaged",
    ObservationWord.MISSING_ELEMENTS: "missing, says the policy",
}


def observed(observations: IncidentObservations) -> Element:
    """The observations, one a row."""
    about = "What the evidence supports, in the fixed words of the contract."
    if len(observations.observations) > MAX_ROWS:
        about += f" The first {MAX_ROWS} are shown; observations.json has all."
    rows = [("", row(one)) for one in observations.observations[:MAX_ROWS]]
    return section("observed", "Beside the verdict", about, table(["observed", "about", "tensor", "#elements", "word"], rows))


def of_shards(shards: Shards) -> Element:
    """The devices whose shards were not finite before a reduction, a row for each leaf."""
    about = f"Before the reduction {shards.bad:,} of the {shards.seen:,} shards seen here held non-finite elements"
    about += f"; the mesh has {shards.in_mesh:,}." if shards.seen < shards.in_mesh else "."
    rows = [
        ("bad", [str(one.device), place_in_mesh(one.coordinates), leaf.stage, leaf.path or ".", f"{leaf.nonfinite:,}"])
        for one in shards.listed
        for leaf in one.leaves
    ]
    if len(rows) > MAX_ROWS or shards.bad > len(shards.listed):
        about += f" The first {min(MAX_ROWS, len(rows))} rows are shown; shards.json has more."
    tables = [table(["device", "place in the mesh", "stage", "tensor", "#non-finite"], rows[:MAX_ROWS])] if rows else []
    return section("shards", "Before the reduction", about, *tables)


def place_in_mesh(coordinates: Mapping[str, int]) -> str:
    """A device's index along each axis of its mesh, such as `data 3, model 0`."""
    return ", ".join(f"{axis} {index}" for axis, index in coordinates.items()) or "–"


def row(one: IncidentObservation) -> list[str]:
    about = one.stage or (one.role.value.replace("_", " ") if one.role else "the step")
    tensor = "–" if one.path is None else one.path or "."
    return [SAID[one.word], about, tensor, "–" if one.elements is None else f"{one.elements:,}", one.word.value]
