"""The verdict on one step of a loop: counts, contract, evidence and report, as far as each can be made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax

from firstnan import (
    ContractError,
    IncidentReport,
    NonfinitePolicy,
    TrainingIncidentContract,
    TrainingRunEvidence,
    triage_training_incident,
)
from firstnan.jax.counts import StageCounts
from firstnan.jax.evidence import capture_triaged
from firstnan.jax.history import StepSummary
from firstnan.jax.outcome import as_float, real_scalars
from firstnan.jax.policy import Triaged, apply_policy, check_missing_counted
from firstnan.jax.tally import Tally

ContractOf = Callable[[int, int, float | None], TrainingIncidentContract]


class TakenStep(NamedTuple):
    """A step that was dispatched and not yet triaged; counts and aux may still be on their way."""

    step_id: int
    batch_index: int
    batch: Any
    counts: StageCounts
    aux: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A triaged step. What could not be made is None, and `refusal` says why.

    `skips` counts the steps in a row that their own step function skipped, up to this one. `skipped` says that this is
    one of them and that the policy lets the run go on: its gradients overflowed, and no update was applied.
    """

    summary: StepSummary
    tally: Tally
    triaged: Triaged
    contract: TrainingIncidentContract | None = None
    evidence: TrainingRunEvidence | None = None
    report: IncidentReport | None = None
    refusal: ContractError | None = None
    skips: int = 0
    skipped: bool = False

    @property
    def good(self) -> bool:
        return self.skipped or (self.report is not None and self.report.decision != "HOLD")

    @property
    def held(self) -> bool:
        return not self.skipped and self.report is not None and self.report.decision == "HOLD"


def judge(
    window: list[TakenStep],
    contract: TrainingIncidentContract | ContractOf,
    *,
    policy: NonfinitePolicy | None = None,
    skips: int = 0,
) -> list[Verdict]:
    """Triages steps in order, up to the first that is not good. One transfer from the device for all of them.

    `skips` is how many steps in a row were skipped before the window.
    """
    verdicts: list[Verdict] = []
    for taken, (data, scalars) in zip(window, _fetched(window), strict=True):
        tally = replace(taken.counts, data=data).to_host()
        verdict = _judge_one(taken, tally, {name: as_float(x) for name, x in scalars.items()}, contract, policy)
        skips = skips + 1 if verdict.summary.metrics.get("skipped") else 0
        verdicts.append(replace(verdict, skips=skips, skipped=_may_be_skipped(verdict, skips, policy)))
        if not verdicts[-1].good:
            break
    return verdicts


def _fetched(window: list[TakenStep]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Counts and scalars of the steps. Where one fails on the device, those before it are still given."""
    wanted = [(taken.counts.data, real_scalars(taken.aux)) for taken in window]
    try:
        yield from jax.device_get(wanted)
    except GeneratorExit:
        raise
    except Exception:
        yield from map(jax.device_get, wanted)


def _may_be_skipped(verdict: Verdict, skips: int, policy: NonfinitePolicy | None) -> bool:
    """Whether a held step is one that a loss scaler skips as a matter of course: only its gradients overflowed."""
    return (
        verdict.held
        and verdict.report is not None
        and verdict.report.earliest_nonfinite_stage == "backward"
        and policy is not None
        and 0 < skips <= policy.maximum_consecutive_skips
    )


def _judge_one(
    taken: TakenStep,
    tally: Tally,
    metrics: dict[str, float],
    contract_of: TrainingIncidentContract | ContractOf,
    policy: NonfinitePolicy | None,
) -> Verdict:
    scale = metrics.get("loss_scale")
    summary = StepSummary.of(taken.step_id, taken.batch_index, tally, metrics)
    triaged = apply_policy(tally, policy)
    contract = evidence = None
    try:
        contract = _contract_for(taken, scale, contract_of)
        check_missing_counted(tally, policy)
        evidence = capture_triaged(triaged, contract)
        return Verdict(summary, tally, triaged, contract, evidence, triage_training_incident(contract, evidence))
    except ContractError as refusal:
        return Verdict(summary, tally, triaged, contract, evidence, refusal=refusal)


def _contract_for(
    taken: TakenStep, scale: float | None, contract: TrainingIncidentContract | ContractOf
) -> TrainingIncidentContract:
    if not isinstance(contract, TrainingIncidentContract):
        made = contract(taken.step_id, taken.batch_index, scale)
        if not isinstance(made, TrainingIncidentContract):
            raise ContractError(
                f"the contract function gave a {type(made).__name__} for step {taken.step_id}, not a TrainingIncidentContract",
                kind="type", layer="shape", bound="TrainingIncidentContract",
            )
        if made.step_id != taken.step_id:
            # Evidence of another step than the one that is held would be found to disagree with its bundle.
            raise ContractError(
                f"the contract function gave a contract of step {made.step_id} for step {taken.step_id}",
                kind="const", layer="rule", pointer="/step_id", bound=str(taken.step_id),
            )
        return made
    return replace(
        contract,
        step_id=taken.step_id,
        batch_id=f"{contract.batch_id}-{taken.batch_index}",
        loss_scale=contract.loss_scale if scale is None else scale,
    )
