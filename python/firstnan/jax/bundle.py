"""The incident bundle: a folder that holds the verdict, what it rests on, and what a replay needs.

    contract.json evidence.json report.json   canonical bytes of the records
    policy.json observations.json             what was declared as expected (where it was); what stands beside the verdict
    excluded.json                             what the policy took out of the triage
    shards.json                               the devices whose shards were bad before a reduction (where the step tells)
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

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeVar

from firstnan import (
    ContractError,
    IncidentObservations,
    IncidentReport,
    NonfinitePolicy,
    TrainingIncidentContract,
    TrainingRunEvidence,
    decode,
    encode,
)
from firstnan.jax.fields import checked_fields
from firstnan.jax.history import StepSummary
from firstnan.jax.manifest import (
    FORMAT,
    MANIFEST,
    Difference,
    Listed,
    json_bytes,
    listed_files,
    open_listed,
    open_regular,
    parse_json,
    read_listed,
    verify_folder,
    write_folder,
)
from firstnan.jax.missing import needs_jax
from firstnan.jax.policy import Exclusion
from firstnan.jax.reductions import ShardsSeen
from firstnan.jax.savedform import SavedTreeMismatch, check_saved_tree
from firstnan.jax.tally import Tally
from firstnan.jax.tensorheader import read_header
from firstnan.printable import printable

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

_ALWAYS = (
    "counts.json",
    "excluded.json",
    "incident.json",
    "history.json",
    "environment.json",
    "structure.json",
    "batch.safetensors",
    "state.safetensors",
)

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
        incident = cls(**checked_fields(value, _INCIDENT_FIELDS))
        ranks = range(incident.processes)
        if incident.process not in ranks or any(type(rank) is not int or rank not in ranks for rank in incident.held_by):
            raise ContractError("/process and /held_by must be below /processes")
        return incident


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
    shards: ShardsSeen | None
    files: Mapping[str, Listed]

    def state(self, *, like: Any = None, import_types: bool = False) -> Any:
        """The last good state, before the bad step; see `firstnan.jax.structure.unpack` for the arguments.

        Raises:
            ContractError: structure.json or state.safetensors changed since the bundle was read, is damaged, or needs
                `like`; names the field.
        """
        return self._tree("state", like, import_types)

    def batch(self, *, like: Any = None, import_types: bool = False) -> Any:
        """The batch of the bad step; arguments and errors as of `state`."""
        return self._tree("batch", like, import_types)

    def _tree(self, name: str, like: Any, import_types: bool) -> Any:
        with needs_jax(f"the {name} of a bundle"):
            from firstnan.jax.structure import unpack
            from firstnan.jax.tensorfile import tensors_in

        structure = _part(self.path, self.files, "structure", _both_trees)[name]
        file = f"{name}.safetensors"
        try:
            with open_listed(self.path, file, self.files) as opened:
                tensors = tensors_in(opened, file)
        except FileNotFoundError:
            raise _BadFile(file, "is not there") from None
        return unpack(structure, tensors, like=like, import_types=import_types, place=f"structure.json: /{name}")


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
    shards: ShardsSeen | None = None,
    numbered: bool = False,
) -> Path:
    """Writes a bundle, whole or not at all, and returns its folder.

    Args:
        folder: the name it gets; its parent is made.
        incident: the facts that stand in no record, and so on: the parts of a `Bundle`.
        state: any pytree, the one before the bad step.
        batch: any pytree, that of the bad step.
        numbered: where something has the folder's name, the first free one of `NAME-2`, `NAME-3`, … is used.

    Raises:
        FileExistsError: the folder exists.
        OSError: it cannot be written; nothing is left behind.
        ContractError: a leaf of the state or batch was donated; a part cannot be written as JSON that can be read
            again; the folder's name holds a NUL character.
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
    parts = {
        "counts": counts.to_json(),
        "excluded": [out.to_json() for out in excluded],
        "incident": asdict(incident),
        "history": [step.to_json() for step in history],
        "environment": describe_environment(),
        "structure": {"state": state_structure, "batch": batch_structure},
    } | ({} if shards is None else {"shards": shards.to_json()})
    for name, value in parts.items():
        try:
            files[f"{name}.json"] = json_bytes(value)
        except ContractError as error:
            raise _BadFile(f"{name}.json", str(error)) from None
    files |= {"batch.safetensors": _tensor_writer(batch_tensors), "state.safetensors": _tensor_writer(state_tensors)}
    return write_folder(Path(folder), files, numbered=numbered)


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
    return write_folder(folder, files | {"counts.json": json_bytes(counts.to_json())}, numbered=True)


def read_bundle(folder: Path | str) -> Bundle:
    """Reads a bundle after comparing every file with the manifest.

    Raises:
        ContractError: there is no bundle of that name; a file is missing, changed or extra, or is not what its name
            says; named.
        OSError: a file cannot be read.
    """
    folder = Path(folder)
    found = verify_folder(folder)
    if not found:
        return _load(folder)
    shown = printable(os.fspath(folder))
    if not os.path.isdir(folder):
        what = "it is no folder" if os.path.lexists(folder) else "there is no such folder"
        raise ContractError(f"no bundle at {shown}: {what}")
    if found == (Difference(MANIFEST, "missing"),):
        raise ContractError(f"no bundle at {shown}: the folder has no {MANIFEST}, which every bundle has")
    if found == (Difference(MANIFEST, "unreadable"),):
        raise ContractError(f"no bundle at {shown}: its {MANIFEST} is not one of format {FORMAT}")
    listed = ", ".join(f"{printable(file)} ({what})" for file, what in found[:10])
    more = f", and {len(found) - 10} more" if len(found) > 10 else ""
    raise ContractError(f"the bundle {shown} differs from its manifest: {listed}{more}")


def verify_bundle(folder: Path | str) -> tuple[Difference, ...]:
    """What is wrong with a bundle, read from the disk; empty when nothing is.

    First every file against the manifest. Where that holds, what the files say against each other, as in
    `firstnan.jax.agreement`.

    Raises:
        ContractError: the folder's name holds a NUL character.
    """
    from firstnan.jax.agreement import disagreements

    folder = Path(folder)
    if found := verify_folder(folder):
        return found
    absent = [name for name in _ALWAYS if not os.path.lexists(folder / name)]
    if absent:
        return tuple(Difference(name, "missing") for name in absent)
    try:
        bundle = _load(folder)
        for name in ("state", "batch"):
            _check_tree(folder, bundle.files, name)
    except _BadFile as error:
        return (Difference(error.file, error.what),)
    except OSError:
        # Changed since it was compared with the manifest.
        return verify_folder(folder) or (Difference(MANIFEST, "unreadable"),)
    return disagreements(bundle)


def _check_tree(folder: Path, files: Mapping[str, Listed], name: str) -> None:
    """Whether structure.json and the tensors of a tree are of the right form, and fit each other."""
    file = f"{name}.safetensors"
    try:
        with open_regular(folder / file) as tensors:
            header = read_header(tensors, os.fstat(tensors.fileno()).st_size, file)
    except ContractError as error:
        raise _BadFile(file, str(error)) from None
    structure = _part(folder, files, "structure", _both_trees)[name]
    try:
        check_saved_tree(structure, {key: (x.dtype, x.shape) for key, x in header.items()}, f"structure.json: /{name}")
    except SavedTreeMismatch as error:
        raise _BadFile("structure.json", str(error), "disagrees") from None
    except ContractError as error:
        raise _BadFile("structure.json", str(error)) from None


def _both_trees(structure: Any) -> dict[str, Any]:
    return checked_fields(structure, {"state": (dict,), "batch": (dict,)})


class _BadFile(ContractError):
    """A file of a bundle is not what its name says."""

    def __init__(self, file: str, words: str, what: Literal["unreadable", "disagrees"] = "unreadable") -> None:
        super().__init__(words if words.startswith(f"{file}: ") else f"{file}: {words}")
        self.file = file
        self.what: Literal["unreadable", "disagrees"] = what


def _load(folder: Path) -> Bundle:
    files = listed_files(folder)
    return Bundle(
        path=folder,
        incident=_part(folder, files, "incident", Incident.from_json),
        contract=_record(folder, files, "contract", TrainingIncidentContract),
        evidence=_record(folder, files, "evidence", TrainingRunEvidence),
        report=_record(folder, files, "report", IncidentReport),
        counts=_part(folder, files, "counts", Tally.from_json),
        history=_part(folder, files, "history", lambda steps: tuple(map(StepSummary.from_json, _exactly(list, steps)))),
        environment=_part(folder, files, "environment", lambda value: _exactly(dict, value)),
        policy=_record(folder, files, "policy", NonfinitePolicy),
        excluded=_part(folder, files, "excluded", lambda found: tuple(map(Exclusion.from_json, _exactly(list, found)))),
        observations=_record(folder, files, "observations", IncidentObservations),
        shards=_part(folder, files, "shards", ShardsSeen.from_json) if "shards.json" in files else None,
        files=files,
    )


def _part(folder: Path, files: Mapping[str, Listed], name: str, parse: Callable[[Any], Part]) -> Part:
    file = f"{name}.json"
    try:
        return parse(parse_json(read_listed(folder, file, files)))
    except FileNotFoundError:
        raise _BadFile(file, "is not there") from None
    except ContractError as error:
        raise _BadFile(file, str(error)) from None


def _exactly(kind: type[Part], value: Any) -> Part:
    if type(value) is not kind:
        raise ContractError(f"must be a {kind.__name__}")
    return value


def _record(folder: Path, files: Mapping[str, Listed], name: str, kind: type[Record]) -> Record | None:
    file = f"{name}.json"
    if file not in files:
        return None
    try:
        record = decode(_KINDS[name], read_listed(folder, file, files))
    except FileNotFoundError:
        raise _BadFile(file, "is not there") from None
    except ContractError as error:
        raise _BadFile(file, str(error)) from None
    return _exactly(kind, record)


def _tensor_writer(tensors: dict[str, Array]) -> Callable[[BinaryIO], None]:
    from firstnan.jax.tensorfile import write_tensors

    return lambda file: write_tensors(file, tensors)
