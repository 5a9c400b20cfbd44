"""firstnan says which stage of a training step went non-finite first, and keeps evidence that anyone can check.

Importing this loads neither jax nor numpy: `firstnan.jax` has the probes, `firstnan.supervisor` the bounded worker.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from firstnan._core import __version__ as __version__
from firstnan.canonical import canonical_evidence as canonical_evidence
from firstnan.canonical import canonical_record as canonical_record
from firstnan.canonical import canonicalize as canonicalize
from firstnan.canonical import content_id as content_id
from firstnan.canonical import contract_digest as contract_digest
from firstnan.canonical import decode as decode
from firstnan.canonical import encode as encode
from firstnan.errors import ContractError as ContractError
from firstnan.errors import RuntimeContractError as RuntimeContractError
from firstnan.finite import FiniteCounts as FiniteCounts
from firstnan.finite import count_finite as count_finite
from firstnan.lifecycle import advance_stage as advance_stage
from firstnan.lifecycle import validate_inventory_consensus as validate_inventory_consensus
from firstnan.records import MAX_BINARY64_RESOLUTION as MAX_BINARY64_RESOLUTION
from firstnan.records import MAX_CONSENSUS_BYTES as MAX_CONSENSUS_BYTES
from firstnan.records import MAX_ELEMENTS_PER_STAGE as MAX_ELEMENTS_PER_STAGE
from firstnan.records import MAX_RECORD_DEPTH as MAX_RECORD_DEPTH
from firstnan.records import MAX_RECORD_ITEMS as MAX_RECORD_ITEMS
from firstnan.records import MAX_TEXT_BYTES as MAX_TEXT_BYTES
from firstnan.records import MAX_TOTAL_ELEMENTS as MAX_TOTAL_ELEMENTS
from firstnan.records import MAX_WORLD_SIZE as MAX_WORLD_SIZE
from firstnan.records import MIN_BINARY64_RESOLUTION as MIN_BINARY64_RESOLUTION
from firstnan.records import STAGES as STAGES
from firstnan.records import Checkpoint as Checkpoint
from firstnan.records import ExpectedNonfinite as ExpectedNonfinite
from firstnan.records import IncidentObservation as IncidentObservation
from firstnan.records import IncidentObservations as IncidentObservations
from firstnan.records import IncidentReport as IncidentReport
from firstnan.records import LeafRole as LeafRole
from firstnan.records import LogicalPlacement as LogicalPlacement
from firstnan.records import MissingSentinel as MissingSentinel
from firstnan.records import NonfinitePolicy as NonfinitePolicy
from firstnan.records import ObservationWord as ObservationWord
from firstnan.records import PlacementKind as PlacementKind
from firstnan.records import RankInventory as RankInventory
from firstnan.records import RoleOfLeaves as RoleOfLeaves
from firstnan.records import RunIdentity as RunIdentity
from firstnan.records import RunRecord as RunRecord
from firstnan.records import RuntimeStage as RuntimeStage
from firstnan.records import StageMessage as StageMessage
from firstnan.records import StageTelemetry as StageTelemetry
from firstnan.records import TopologyPlan as TopologyPlan
from firstnan.records import TrainingIncidentContract as TrainingIncidentContract
from firstnan.records import TrainingRunEvidence as TrainingRunEvidence
from firstnan.records import Vote as Vote
from firstnan.records import WorkerConfiguration as WorkerConfiguration
from firstnan.records import WorkerEvent as WorkerEvent
from firstnan.triage import triage_training_incident as triage_training_incident

if _TYPE_CHECKING:
    from firstnan.checkpoints import CheckpointScan as CheckpointScan
    from firstnan.checkpoints import FirstBad as FirstBad
    from firstnan.checkpoints import first_bad as first_bad
    from firstnan.checkpoints import scan as scan
else:

    def __getattr__(name: str) -> object:
        """What is loaded when it is asked for, or a record of a schema that the list above does not have yet."""
        if name in ("CheckpointScan", "FirstBad", "first_bad", "scan"):
            from firstnan import checkpoints

            return getattr(checkpoints, name)
        from firstnan._generated import records

        if name in records.__all__:
            return getattr(records, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
