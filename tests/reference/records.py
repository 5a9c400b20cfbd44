"""The records as dataclasses that check themselves when they are made."""

import math
import re
from dataclasses import asdict, dataclass
from enum import StrEnum

from .canonical import canonical_record, content_id
from .text import Refused

STAGES = ("input", "forward", "loss", "backward", "optimizer")
OWNERS = dict(zip(STAGES, ("data_owner", "model_owner", "objective_owner", "model_owner", "optimizer_owner"), strict=True))
IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}", re.ASCII)
HEX64, HEX40, HEX32 = (re.compile(f"[0-9a-f]{{{n}}}") for n in (64, 40, 32))
NAME, ERROR_CODE = re.compile(r"[A-Za-z0-9_.-]{1,256}"), re.compile(r"[A-Z][A-Z0-9_]{0,63}")
I63 = 2**63 - 1


ACTIONS = {
    None: "no-nonfinite-evidenced-check-other-signals",
    "input": "hold-and-inspect-input-data-contract",
    "forward": "hold-and-replay-forward-activations",
    "loss": "hold-and-inspect-objective-reduction",
    "backward": "hold-and-inspect-gradient-path-and-loss-scaling",
    "optimizer": "hold-and-inspect-optimizer-state-and-update",
}
NO_CAUSE = "NONE_SYMPTOM_LOCATION_IS_NOT_CAUSALITY"


def require(kept, field):
    if not kept:
        raise Refused(field)


def identifier(record, *names):
    for name in names:
        value = getattr(record, name)
        require(type(value) is str and IDENTIFIER.fullmatch(value) is not None, name)


def owner(record, *names):
    identifier(record, *names)
    for name in names:
        require(getattr(record, name).startswith("team:"), name)


def exact_integer(record, name, low, high):
    value = getattr(record, name)
    require(type(value) is int and low <= value <= high, name)


def integer(record, name, low, high):
    value = getattr(record, name)
    require(isinstance(value, int) and not isinstance(value, bool) and low <= value <= high, name)


def real(record, name):
    value = getattr(record, name)
    require(type(value) is int or isinstance(value, float), name)
    try:
        converted = float(value)
    except OverflowError:
        raise Refused(name) from None
    require(math.isfinite(converted), name)
    return converted


def text(record, pattern, *names):
    for name in names:
        value = getattr(record, name)
        require(isinstance(value, str) and pattern.fullmatch(value) is not None, name)


def exact_text(record, name, expected):
    value = getattr(record, name)
    require(type(value) is str and value == expected, name)


def one_of(record, name, values):
    value = getattr(record, name)
    require(isinstance(value, str) and value in values, name)


@dataclass(frozen=True)
class TrainingIncidentContract:
    contract_version: str
    run_id: str
    step_id: int
    model_version: str
    dataset_version: str
    batch_id: str
    objective_version: str
    optimizer_version: str
    precision: str
    loss_scale_version: str
    loss_scale: float
    minimum_numeric_resolution: float
    maximum_absolute_finite: float
    maximum_elements_per_stage: int
    maximum_total_elements: int
    numeric_convention: str
    data_owner: str
    model_owner: str
    objective_owner: str
    optimizer_owner: str
    incident_owner: str

    def __post_init__(self):
        identifier(self, "contract_version", "run_id", "model_version", "dataset_version", "batch_id", "objective_version",
                   "optimizer_version", "precision", "loss_scale_version")  # fmt: skip
        owner(self, "data_owner", "model_owner", "objective_owner", "optimizer_owner", "incident_owner")
        exact_integer(self, "step_id", 0, 10**12)
        exact_integer(self, "maximum_elements_per_stage", 1, 10**10)
        exact_integer(self, "maximum_total_elements", 1, 2 * 10**10)
        exact_text(self, "numeric_convention", "binary64-summary-mixed-precision-v1")
        resolution = real(self, "minimum_numeric_resolution")
        scale, largest = real(self, "loss_scale"), real(self, "maximum_absolute_finite")
        require(self.maximum_elements_per_stage <= self.maximum_total_elements <= 5 * self.maximum_elements_per_stage, "total")
        require(1e-15 <= self.minimum_numeric_resolution <= 1e-3, "minimum_numeric_resolution")
        require(resolution <= largest <= 1 / resolution, "maximum_absolute_finite")
        require(resolution <= scale <= 1 / resolution, "loss_scale")

    @property
    def content_id(self):
        return content_id("training-incident-contract", self, RECORDS_OF_EVIDENCE)


@dataclass(frozen=True)
class StageTelemetry:
    telemetry_id: str
    tensor_set_id: str
    stage: str
    stage_order: int
    state: str
    checked_elements: int
    finite_elements: int
    nonfinite_elements: int
    maximum_absolute_finite: float
    run_id: str
    step_id: int
    model_version: str
    dataset_version: str
    batch_id: str
    objective_version: str
    optimizer_version: str
    precision: str
    loss_scale_version: str
    loss_scale: float
    evidence_source_id: str
    owner: str

    def __post_init__(self):
        identifier(self, "telemetry_id", "tensor_set_id", "run_id", "model_version", "dataset_version", "batch_id",
                   "objective_version", "optimizer_version", "precision", "loss_scale_version", "evidence_source_id")  # fmt: skip
        owner(self, "owner")
        require(type(self.stage) is str and self.stage in STAGES, "stage")
        require(type(self.state) is str and self.state in ("OBSERVED", "NOT_RUN"), "state")
        exact_integer(self, "stage_order", 0, 4)
        exact_integer(self, "step_id", 0, 10**12)
        for name in ("checked_elements", "finite_elements", "nonfinite_elements"):
            exact_integer(self, name, 0, 10**10)
        require(real(self, "maximum_absolute_finite") >= 0, "maximum_absolute_finite")
        real(self, "loss_scale")
        require(self.loss_scale > 0, "loss_scale")
        if self.state == "OBSERVED":
            require(self.checked_elements >= 1, "checked_elements")
            require(self.finite_elements + self.nonfinite_elements == self.checked_elements, "checked_elements")
        else:
            observed = (self.checked_elements, self.finite_elements, self.nonfinite_elements, self.maximum_absolute_finite)
            require(all(value == 0 for value in observed), "state")


@dataclass(frozen=True)
class TrainingRunEvidence:
    evidence_id: str
    evidence_content_id: str
    contract_content_id: str
    stages: tuple

    def __post_init__(self):
        identifier(self, "evidence_id", "evidence_content_id", "contract_content_id")
        if type(self.stages) is not tuple or any(type(stage) is not StageTelemetry for stage in self.stages):
            raise TypeError("stages")
        require(len(self.stages) == 5, "stages")


@dataclass(frozen=True)
class IncidentReport:
    contract_content_id: str
    evidence_id: str
    evidence_content_id: str
    decision: str
    earliest_nonfinite_stage: str | None
    action: str
    root_cause_claim: str

    def __post_init__(self):
        identifier(self, "contract_content_id", "evidence_id", "evidence_content_id")
        stage = self.earliest_nonfinite_stage
        require(stage is None or type(stage) is str, "earliest_nonfinite_stage")
        require(stage in ACTIONS, "earliest_nonfinite_stage")
        exact_text(self, "decision", "CONTINUE_BOUNDED_DIAGNOSTICS" if stage is None else "HOLD")
        exact_text(self, "action", ACTIONS[stage])
        exact_text(self, "root_cause_claim", NO_CAUSE)


RECORDS_OF_EVIDENCE = (TrainingIncidentContract, StageTelemetry, TrainingRunEvidence, IncidentReport)


class RuntimeStage(StrEnum):
    CREATED = "created"
    PREFLIGHTED = "preflighted"
    LOADED = "loaded"
    PROBED = "probed"
    DISTILLED = "distilled"
    PREPARED = "prepared"
    MUTATING = "mutating"
    VERIFIED = "verified"
    STAGED = "staged"
    PUBLISHED = "published"
    ABORTING = "aborting"
    ABORTED = "aborted"
    QUARANTINED = "quarantined"


class Vote(StrEnum):
    PREPARED = "prepared"
    COMMITTED = "committed"
    ABORT = "abort"


class PlacementKind(StrEnum):
    COLUMN_WISE = "column_wise"
    ROW_WISE = "row_wise"
    REPLICATED = "replicated"


@dataclass(frozen=True)
class RunIdentity:
    run_id: str
    config_digest: str
    source_digest: str
    model_digest: str
    tokenizer_digest: str
    commit_sha: str
    world_size: int

    def __post_init__(self):
        text(self, HEX32, "run_id")
        text(self, HEX64, "config_digest", "source_digest", "model_digest", "tokenizer_digest")
        text(self, HEX40, "commit_sha")
        integer(self, "world_size", 2, 4096)


@dataclass(frozen=True)
class RankInventory:
    rank: int
    local_rank: int
    world_size: int
    host_digest: str
    device_digest: str
    device_kind: str
    total_memory_bytes: int
    free_memory_bytes: int
    software_digest: str
    storage_digest: str

    def __post_init__(self):
        integer(self, "world_size", 2, 4096)
        integer(self, "rank", 0, self.world_size - 1)
        integer(self, "local_rank", 0, self.world_size - 1)
        text(self, HEX64, "host_digest", "device_digest", "software_digest", "storage_digest")
        one_of(self, "device_kind", ("cpu", "cuda"))
        integer(self, "total_memory_bytes", 1, I63)
        integer(self, "free_memory_bytes", 0, self.total_memory_bytes)


@dataclass(frozen=True)
class TopologyPlan:
    world_size: int
    coordinator_rank: int
    backend: str
    placement_plan_digest: str

    def __post_init__(self):
        integer(self, "world_size", 2, 4096)
        integer(self, "coordinator_rank", 0, self.world_size - 1)
        one_of(self, "backend", ("gloo", "nccl"))
        text(self, HEX64, "placement_plan_digest")


@dataclass(frozen=True)
class LogicalPlacement:
    logical_name: str
    global_shape: tuple
    dtype: str
    kind: PlacementKind
    rank: int
    world_size: int
    direction_axis: int
    shard_dim: int | None = None
    shard_start: int = 0
    shard_end: int = 0

    def __post_init__(self):
        text(self, NAME, "logical_name")
        require(type(self.global_shape) is tuple and len(self.global_shape) == 2, "global_shape")
        for extent in self.global_shape:
            require(isinstance(extent, int) and not isinstance(extent, bool) and 1 <= extent <= I63, "global_shape")
        one_of(self, "dtype", ("float16", "bfloat16", "float32", "float64"))
        require(type(self.kind) is PlacementKind, "kind")
        integer(self, "world_size", 2, 4096)
        integer(self, "rank", 0, self.world_size - 1)
        integer(self, "direction_axis", 0, 1)
        integer(self, "shard_start", 0, I63)
        integer(self, "shard_end", 0, I63)
        if self.kind is PlacementKind.REPLICATED:
            require(self.shard_dim is None and self.shard_start == self.shard_end == 0, "shard_dim")
            return
        dimension = 0 if self.kind is PlacementKind.COLUMN_WISE else 1
        integer(self, "shard_dim", dimension, dimension)
        part, rest = divmod(self.global_shape[dimension], self.world_size)
        require(rest == 0, "global_shape")
        require(self.shard_start == self.rank * part and self.shard_end == self.shard_start + part, "shard_start")


@dataclass(frozen=True)
class StageMessage:
    run_id: str
    identity_digest: str
    rank: int
    sequence: int
    stage: RuntimeStage
    vote: Vote | None = None
    error_code: str | None = None

    def __post_init__(self):
        text(self, HEX32, "run_id")
        text(self, HEX64, "identity_digest")
        integer(self, "rank", 0, 4095)
        integer(self, "sequence", 0, I63)
        require(type(self.stage) is RuntimeStage, "stage")
        require(self.vote is None or type(self.vote) is Vote, "vote")
        if self.error_code is not None:
            text(self, ERROR_CODE, "error_code")
        require((self.error_code is not None) == (self.vote is Vote.ABORT), "error_code")

    def to_bytes(self):
        return canonical_record(self)


KINDS = {
    "training-incident-contract": TrainingIncidentContract,
    "stage-telemetry": StageTelemetry,
    "training-run-evidence": TrainingRunEvidence,
    "incident-report": IncidentReport,
    "run-identity": RunIdentity,
    "rank-inventory": RankInventory,
    "topology-plan": TopologyPlan,
    "logical-placement": LogicalPlacement,
    "stage-message": StageMessage,
}


def plain(record):
    """The record as JSON would hold it."""
    return asdict(record)
