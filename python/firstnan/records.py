"""The records of the contract, their enums and their bounds.

The classes are generated from `schemas/v1`; `docs/records.md` is their reference.
"""

from __future__ import annotations

from typing import Final

from firstnan._generated.records import (
    Checkpoint,
    ExpectedNonfinite,
    IncidentObservation,
    IncidentObservations,
    IncidentReport,
    LeafRole,
    LogicalPlacement,
    MissingSentinel,
    NonfinitePolicy,
    ObservationWord,
    PlacementKind,
    RankInventory,
    RoleOfLeaves,
    RunIdentity,
    RunRecord,
    RuntimeStage,
    StageMessage,
    StageTelemetry,
    TopologyPlan,
    TrainingIncidentContract,
    TrainingRunEvidence,
    Vote,
    WorkerConfiguration,
    WorkerEvent,
)

STAGES: Final = ("input", "forward", "loss", "backward", "optimizer")
"""The stages of a training step, in the order in which a step runs them."""
MAX_ELEMENTS_PER_STAGE: Final = 10**10
"""The most elements that one stage may report."""
MAX_TOTAL_ELEMENTS: Final = 2 * 10**10
"""The most elements that all stages may report together."""
MIN_BINARY64_RESOLUTION: Final = 1e-15
"""The finest resolution that a contract may ask for."""
MAX_BINARY64_RESOLUTION: Final = 1e-3
"""The coarsest resolution that a contract may ask for."""
MAX_CONSENSUS_BYTES: Final = 65536
"""The most bytes that the record profile writes."""
MAX_TEXT_BYTES: Final = 256
"""The most UTF-8 bytes of a text field of a runtime record."""
MAX_WORLD_SIZE: Final = 4096
"""The most ranks of a run."""
MAX_RECORD_DEPTH: Final = 16
"""How deep the record profile nests; the top value is at 0."""
MAX_RECORD_ITEMS: Final = 4096
"""The most values in one value of the record profile."""

__all__ = [
    "MAX_BINARY64_RESOLUTION",
    "MAX_CONSENSUS_BYTES",
    "MAX_ELEMENTS_PER_STAGE",
    "MAX_RECORD_DEPTH",
    "MAX_RECORD_ITEMS",
    "MAX_TEXT_BYTES",
    "MAX_TOTAL_ELEMENTS",
    "MAX_WORLD_SIZE",
    "MIN_BINARY64_RESOLUTION",
    "STAGES",
    "Checkpoint",
    "ExpectedNonfinite",
    "IncidentObservation",
    "IncidentObservations",
    "IncidentReport",
    "LeafRole",
    "LogicalPlacement",
    "MissingSentinel",
    "NonfinitePolicy",
    "ObservationWord",
    "PlacementKind",
    "RankInventory",
    "RoleOfLeaves",
    "RunIdentity",
    "RunRecord",
    "RuntimeStage",
    "StageMessage",
    "StageTelemetry",
    "TopologyPlan",
    "TrainingIncidentContract",
    "TrainingRunEvidence",
    "Vote",
    "WorkerConfiguration",
    "WorkerEvent",
]
