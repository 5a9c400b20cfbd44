"""The verdict on one training step: the earliest stage in which a non-finite value was observed.

Where a symptom first shows is not why it arose: the report claims no cause.
"""

from __future__ import annotations

from firstnan import _core
from firstnan._generated.records import IncidentReport, TrainingIncidentContract, TrainingRunEvidence


def triage_training_incident(contract: TrainingIncidentContract, evidence: TrainingRunEvidence) -> IncidentReport:
    """The report on a step. Pure: no clock, no file, no network.

    Both arguments are validated again, since a frozen dataclass can be forced.

    Args:
        contract: what the step promised.
        evidence: what was counted in its five stages.

    Returns:
        HOLD with the earliest observed stage that has a non-finite element, else CONTINUE_BOUNDED_DIAGNOSTICS.

    Raises:
        TypeError: an argument is not exactly of its class.
        ContractError: the evidence is not of this contract, or breaks its bounds; the message says what differs.
    """
    return _core.triage(contract, evidence)
