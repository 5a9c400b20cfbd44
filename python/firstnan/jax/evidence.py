"""From counts and a contract to evidence."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from firstnan import (
    STAGES,
    ContractError,
    NonfinitePolicy,
    StageTelemetry,
    TrainingIncidentContract,
    TrainingRunEvidence,
    canonical_evidence,
)
from firstnan.jax.policy import Triaged, apply_policy, check_missing_counted, checked_policy
from firstnan.jax.tally import StageTotal, Tally

if TYPE_CHECKING:
    from firstnan.jax.counts import StageCounts

# Names the way of counting; another way gets another name, so that evidence says how it was measured.
EVIDENCE_SOURCE: Final = "firstnan.jax:count_stages@1"

# The fields that a telemetry repeats from its contract.
_COPIED: Final = (
    "run_id",
    "step_id",
    "model_version",
    "dataset_version",
    "batch_id",
    "objective_version",
    "optimizer_version",
    "precision",
    "loss_scale_version",
    "loss_scale",
)

_ADVICE: Final = "take evidence per rank or shard, each against a contract of its own"


def capture(
    counts: StageCounts | Tally,
    contract: TrainingIncidentContract,
    *,
    evidence_id: str | None = None,
    policy: NonfinitePolicy | None = None,
) -> TrainingRunEvidence:
    """Seals the counts of one step to its contract.

    Stages are summed over their leaves. Those after the first stage with a non-finite element are NOT_RUN, measured or
    not: what they hold follows from it (the counts of each leaf keep it). Every identifier is derived from the contract
    and from the leaves' names, dtypes and sizes, so the same step gives the same evidence anywhere.

    Args:
        counts: of one step, on the device or already on the host.
        contract: of the same step.
        evidence_id: an identifier; by default made from the step and the contract's content id.
        policy: what is expected. What it takes out is not checked any more, and each stage's `tensor_set_id` is made
            from the policy's digest and from what was taken out too, so evidence under a policy has its own identity.

    Raises:
        ContractError: a stage up to the first non-finite one was not measured or has no element; a count is beyond the
            contract's bounds (nothing is ever cut down to fit); the policy calls integers missing that were not counted.
    """
    measured = counts if isinstance(counts, Tally) else counts.to_host()
    check_missing_counted(measured, checked_policy(policy))
    return capture_triaged(apply_policy(measured, policy), contract, evidence_id=evidence_id)


def capture_triaged(
    triaged: Triaged, contract: TrainingIncidentContract, *, evidence_id: str | None = None
) -> TrainingRunEvidence:
    """`capture` of counts to which a policy has been applied, and that count what it calls missing."""
    tally = triaged.tally
    contract_content_id = contract.content_id
    if evidence_id is None:
        evidence_id = f"evidence-step-{contract.step_id}-{contract_content_id[-64:-48]}"
    held = False
    checked = 0
    stages: list[StageTelemetry] = []
    for order, stage in enumerate(STAGES):
        total = None if held else _observed(tally, stage, contract)
        stages.append(_telemetry(triaged, total, stage, order, contract, evidence_id))
        if total is not None:
            held = total.nonfinite > 0
            checked += total.checked
    if checked > contract.maximum_total_elements:
        raise ContractError(
            f"the stages have {checked} elements and the contract's maximum_total_elements is "
            f"{contract.maximum_total_elements}: {_ADVICE}"
        )
    return TrainingRunEvidence.capture(evidence_id=evidence_id, contract=contract, stages=stages)


def _observed(tally: Tally, stage: str, contract: TrainingIncidentContract) -> StageTotal:
    if stage not in tally.stages:
        raise ContractError(
            f"stage {stage} was not counted, and no stage before it was non-finite: pass {stage}= to count_stages"
        )
    total = tally.total(stage)
    if total.checked == 0:
        raise ContractError(f"stage {stage} has no element to check (or the policy takes out all), so nothing was observed there")
    if total.checked > contract.maximum_elements_per_stage:
        raise ContractError(
            f"stage {stage} has {total.checked} elements and the contract's maximum_elements_per_stage is "
            f"{contract.maximum_elements_per_stage}: {_ADVICE}"
        )
    return total


def _telemetry(
    triaged: Triaged,
    total: StageTotal | None,
    stage: str,
    order: int,
    contract: TrainingIncidentContract,
    evidence_id: str,
) -> StageTelemetry:
    return StageTelemetry.capture(
        telemetry_id=f"telemetry-{stage}-{_short_digest([contract.content_id, evidence_id, stage])}",
        tensor_set_id=f"tensors-{stage}-{_tensor_set_digest(triaged, stage)}",
        stage=stage,
        stage_order=order,
        state="NOT_RUN" if total is None else "OBSERVED",
        checked_elements=0 if total is None else total.checked,
        finite_elements=0 if total is None else total.finite,
        nonfinite_elements=0 if total is None else total.nonfinite,
        maximum_absolute_finite=0.0 if total is None else total.maximum_absolute_finite,
        evidence_source_id=EVIDENCE_SOURCE,
        owner=contract.expected_owner(stage),
        **{name: getattr(contract, name) for name in _COPIED},
    )


def _tensor_set_digest(triaged: Triaged, stage: str) -> str:
    leaves = [[leaf.path, leaf.dtype, leaf.checked] for leaf in triaged.tally.leaves if leaf.stage == stage]
    if triaged.policy_digest is None:
        return _short_digest([stage, *leaves])
    excluded = [out.to_json() for out in triaged.excluded if out.stage == stage]
    return _short_digest([stage, *leaves, {"policy": triaged.policy_digest, "excluded": excluded}])


def _short_digest(value: list[object]) -> str:
    return hashlib.sha256(canonical_evidence(value)).hexdigest()[:32]
