"""An incident as a command takes it: a bundle's folder, or a contract and an evidence in files of their own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from firstnan.canonical import decode
from firstnan.cli.inputs import read_file
from firstnan.cli.refusal import Misuse, Refused
from firstnan.errors import ContractError
from firstnan.records import IncidentReport, TrainingIncidentContract, TrainingRunEvidence

if TYPE_CHECKING:
    from firstnan.jax.bundle import Bundle


Record = TypeVar("Record", TrainingIncidentContract, TrainingRunEvidence)


@dataclass(frozen=True)
class Incident:
    """A contract and its evidence; the bundle they came in, if they did."""

    contract: TrainingIncidentContract
    evidence: TrainingRunEvidence
    bundle: Bundle | None = None

    @property
    def told(self) -> IncidentReport | None:
        """The report that the bundle has, which may be another than the fresh verdict."""
        return None if self.bundle is None else self.bundle.report


def read_incident(path: str, evidence_path: str | None) -> Incident:
    """The incident in a bundle's folder; with an evidence's file, that of a contract's and this.

    Raises:
        Misuse: there is neither.
        Refused: a record or the bundle is not what it should be, or the bundle's step was refused by triage.
    """
    if evidence_path is None:
        if os.path.isfile(path):
            raise Misuse(f"{path}: a contract needs an evidence file beside it")
        return incident_of(read_bundle(path))
    contract = read_record("training-incident-contract", path, TrainingIncidentContract)
    return Incident(contract, read_record("training-run-evidence", evidence_path, TrainingRunEvidence))


def read_bundle(folder: str) -> Bundle:
    """A bundle, every file compared with its manifest.

    Raises:
        Misuse: there is no such folder.
        Refused: a file is missing, changed or extra, or not what its name says.
    """
    from firstnan.jax.bundle import read_bundle

    if not os.path.isdir(folder):
        raise Misuse(f"{folder}: no such folder")
    try:
        return read_bundle(folder)
    except ContractError as error:
        raise Refused(error, folder) from None


def incident_of(bundle: Bundle) -> Incident:
    """The contract and evidence of a bundle.

    Raises:
        Refused: it is of a step for which no evidence could be made; the words are those of then.
    """
    if bundle.contract is None or bundle.evidence is None:
        why = bundle.incident.refusal or "the bundle has no evidence"
        raise Refused(ContractError(why), os.fspath(bundle.path))
    return Incident(bundle.contract, bundle.evidence, bundle)


def read_record(kind: str, path: str, record: type[Record]) -> Record:
    """The record in a file.

    Raises:
        Misuse: the file cannot be read.
        Refused: it does not hold a record of that kind.
    """
    data = read_file(path)
    try:
        decoded = decode(kind, data)
    except ContractError as error:
        raise Refused(error, path) from None
    assert isinstance(decoded, record)
    return decoded
