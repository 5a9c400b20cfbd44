"""The incident bundle: a folder that holds the verdict, what it rests on, and what a replay needs.

    contract.json evidence.json report.json   canonical bytes of the records
    policy.json observations.json             what was declared as expected (where it was); what stands beside the verdict
    excluded.json                             what the policy took out of the triage
    counts.json                               every leaf's counts, at every stage that was measured
    incident.json                             which step, which batch, whether a replay gave the same counts
    history.json                              the largest magnitudes of the last steps
    environment.json                          versions, platform, flags
    structure.json batch.safetensors state.safetensors
                                              the batch, and the state before the step (the last good one)
    manifest.json                             size and SHA-256 of every file above, written last

A step that triage refused leaves the same folder without report.json (and without what could not be made); the refusal
stands in incident.json. Reading and verifying need no jax; `Bundle.state` and `Bundle.batch` do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from firstnan import (
    ContractError,
    IncidentObservations,
    IncidentReport,
    NonfinitePolicy,
    TrainingIncidentContract,
    TrainingRunEvidence,
    decode,
    encode,
    triage_training_incident,
)
from firstnan.jax.fields import checked_fields
from firstnan.jax.history import StepSummary
from firstnan.jax.manifest import Difference, json_bytes, read_json, verify_folder, write_folder
from firstnan.jax.policy import Exclusion, apply_policy
from firstnan.jax.tally import Tally

if TYPE_CHECKING:
    from firstnan.jax.tensorfile import Array

Part = TypeVar("Part")
Record = TypeVar(
    "Record", TrainingIncidentContract, TrainingRunEvidence, IncidentReport, NonfinitePolicy, IncidentObservations
)

_KINDS = {
    "contract": "training-incident-contract",
    "evidence": "training-run-evidence",
    "report": "incident-report",
    "policy": "nonfinite-policy",
    "observations": "incident-observations",
}

_INCIDENT_FIELDS = {
    "step_id": (int,),
    "batch_index": (int,),
    "every": (int,),
    "state_step_id": (int,),
    "reproduced": (bool, type(None)),
    "refusal": (str, type(None)),
    "process": (int,),
    "processes": (int,),
    "held_by": (list,),
}


@dataclass(frozen=True, slots=True)
class Incident:
    """The facts of the bad step that stand in no record.

    `state_step_id` is the step that the saved state is about to take, `step_id` itself unless a replay ended early.
    `reproduced` says whether running the step again gave the same counts, bit for bit; None when it was not tried.
    `refusal` is why triage refused the evidence, None where it gave a verdict. `process` is which of `processes` wrote
    this; `held_by` are those that found the step bad, empty where one trains alone.
    """

    step_id: int
    batch_index: int
    every: int
    state_step_id: int
    reproduced: bool | None
    refusal: str | None = None
    process: int = 0
    processes: int = 1
    held_by: list[int] = field(default_factory=list)

    @classmethod
    def from_json(cls, value: Any) -> Incident:
        """From the object in incident.json.

        Raises:
            ContractError: the object is of another form.
        """
        return cls(**checked_fields(value, _INCIDENT_FIELDS))


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle as read, its digests verified. A record is None where the bundle is of a refused step without it."""

    path: Path
    incident: Incident
    contract: TrainingIncidentContract | None
    evidence: TrainingRunEvidence | None
    report: IncidentReport | None
    counts: Tally
    history: tuple[StepSummary, ...]
    environment: dict[str, Any]
    policy: NonfinitePolicy | None
    excluded: tuple[Exclusion, ...]
    observations: IncidentObservations | None

    def state(self, *, like: Any = None, import_types: bool = False) -> Any:
        """The last good state, before the bad step; see `firstnan.jax.structure.unpack` for the arguments."""
        return self._tree("state", like, import_types)

    def batch(self, *, like: Any = None, import_types: bool = False) -> Any:
        """The batch of the bad step; see `firstnan.jax.structure.unpack` for the arguments."""
        return self._tree("batch", like, import_types)

    def _tree(self, name: str, like: Any, import_types: bool) -> Any:
        from firstnan.jax.structure import unpack
        from firstnan.jax.tensorfile import read_tensors

        tensors = read_tensors(self.path / f"{name}.safetensors")
        return unpack(read_json(self.path / "structure.json")[name], tensors, like=like, import_types=import_types)


def write_incident_bundle(
    folder: Path | str,
    *,
    incident: Incident,
    counts: Tally,
    state: Any,
    batch: Any,
    contract: TrainingIncidentContract | None = None,
    evidence: TrainingRunEvidence | None = None,
    report: IncidentReport | None = None,
    history: Sequence[StepSummary] = (),
    policy: NonfinitePolicy | None = None,
    excluded: Sequence[Exclusion] = (),
    observations: IncidentObservations | None = None,
) -> Path:
    """Writes a bundle, whole or not at all, and returns its folder.

    Raises:
        FileExistsError: the folder exists.
        OSError: it cannot be written; nothing is left behind.
        ContractError: a leaf of the state or batch was donated.
    """
    from firstnan.jax.environment import describe_environment
    from firstnan.jax.structure import pack

    state_structure, state_tensors = pack(state)
    batch_structure, batch_tensors = pack(batch)
    records = {
        "contract": contract,
        "evidence": evidence,
        "report": report,
        "policy": policy,
        "observations": observations,
    }
    files: dict[str, bytes | Callable[[BinaryIO], None]] = {
        f"{name}.json": encode(record) for name, record in records.items() if record is not None
    }
    files |= {
        "counts.json": json_bytes(counts.to_json()),
        "excluded.json": json_bytes([out.to_json() for out in excluded]),
        "incident.json": json_bytes(asdict(incident)),
        "history.json": json_bytes([step.to_json() for step in history]),
        "environment.json": json_bytes(describe_environment()),
        "structure.json": json_bytes({"state": state_structure, "batch": batch_structure}),
        "batch.safetensors": _tensor_writer(batch_tensors),
        "state.safetensors": _tensor_writer(state_tensors),
    }
    return write_folder(Path(folder), files)


def write_local_record(
    folder: Path,
    counts: Tally,
    contract: TrainingIncidentContract | None,
    evidence: TrainingRunEvidence | None,
    report: IncidentReport | None,
) -> Path:
    """What one process found, without the state: contract, evidence, report and counts, with their manifest.

    Raises:
        OSError: it cannot be written.
    """
    records = {"contract": contract, "evidence": evidence, "report": report}
    files = {f"{name}.json": encode(record) for name, record in records.items() if record is not None}
    return write_folder(folder, files | {"counts.json": json_bytes(counts.to_json())})


def read_bundle(folder: Path | str) -> Bundle:
    """Reads a bundle after comparing every file with the manifest.

    Raises:
        ContractError: a file is missing, changed or extra, or is not what its name says; named.
        OSError: a file cannot be read.
    """
    folder = Path(folder)
    if found := verify_folder(folder):
        listed = ", ".join(f"{file} ({what})" for file, what in found[:10])
        raise ContractError(f"bundle {folder.name} differs from its manifest: {listed}")
    return _load(folder)


def verify_bundle(folder: Path | str) -> tuple[Difference, ...]:
    """What is wrong with a bundle, read from the disk; empty when nothing is.

    First every file against the manifest. Where that holds, the records against each other: the report is what triage
    says of the evidence, and the evidence what the counts of the leaves add up to.
    """
    folder = Path(folder)
    if found := verify_folder(folder):
        return found
    try:
        bundle = _load(folder)
    except _BadFile as error:
        return (Difference(error.file, "unreadable"),)
    if bundle.report is None:
        return () if bundle.incident.refusal else (Difference("report.json", "missing"),)
    if bundle.contract is None or bundle.evidence is None:
        return (Difference("contract.json" if bundle.contract is None else "evidence.json", "missing"),)
    try:
        report = triage_training_incident(bundle.contract, bundle.evidence)
    except ContractError:
        return (Difference("evidence.json", "disagrees"),)
    if report != bundle.report:
        return (Difference("report.json", "disagrees"),)
    triaged = apply_policy(bundle.counts, bundle.policy)
    return () if _adds_up(triaged.tally, bundle.evidence) else (Difference("counts.json", "disagrees"),)


def _adds_up(counts: Tally, evidence: TrainingRunEvidence) -> bool:
    for told in evidence.stages:
        if told.state == "OBSERVED":
            if told.stage not in counts.stages:
                return False
            total = counts.total(told.stage)
            measured = (total.checked, total.nonfinite, total.maximum_absolute_finite)
            if measured != (told.checked_elements, told.nonfinite_elements, told.maximum_absolute_finite):
                return False
    return True


class _BadFile(ContractError):
    """A file of a bundle is not what its name says."""

    def __init__(self, file: str, words: str) -> None:
        super().__init__(f"{file}: {words}")
        self.file = file


def _load(folder: Path) -> Bundle:
    return Bundle(
        path=folder,
        incident=_part(folder, "incident", Incident.from_json),
        contract=_record(folder, "contract", TrainingIncidentContract),
        evidence=_record(folder, "evidence", TrainingRunEvidence),
        report=_record(folder, "report", IncidentReport),
        counts=_part(folder, "counts", Tally.from_json),
        history=_part(folder, "history", lambda steps: tuple(map(StepSummary.from_json, _exactly(list, steps)))),
        environment=_part(folder, "environment", lambda value: _exactly(dict, value)),
        policy=_record(folder, "policy", NonfinitePolicy),
        excluded=_part(folder, "excluded", lambda found: tuple(map(Exclusion.from_json, _exactly(list, found)))),
        observations=_record(folder, "observations", IncidentObservations),
    )


def _part(folder: Path, name: str, parse: Callable[[Any], Part]) -> Part:
    file = f"{name}.json"
    try:
        return parse(read_json(folder / file))
    except FileNotFoundError:
        raise _BadFile(file, "is not there") from None
    except ContractError as error:
        raise _BadFile(file, str(error)) from None


def _exactly(kind: type[Part], value: Any) -> Part:
    if type(value) is not kind:
        raise ContractError(f"must be a {kind.__name__}")
    return value


def _record(folder: Path, name: str, kind: type[Record]) -> Record | None:
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    try:
        record = decode(_KINDS[name], path.read_bytes())
    except ContractError as error:
        raise _BadFile(path.name, str(error)) from None
    return _exactly(kind, record)


def _tensor_writer(tensors: dict[str, Array]) -> Callable[[BinaryIO], None]:
    from firstnan.jax.tensorfile import write_tensors

    return lambda file: write_tensors(file, tensors)
