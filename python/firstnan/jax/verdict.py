"""The verdict on one step of a loop: counts, contract, evidence and report, as far as each can be made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from firstnan import (
    ContractError,
    IncidentReport,
    TrainingIncidentContract,
    TrainingRunEvidence,
    triage_training_incident,
)
from firstnan.jax.counts import StageCounts
from firstnan.jax.evidence import capture
from firstnan.jax.formats import FORMATS, INTEGERS
from firstnan.jax.history import StepSummary
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
    """A triaged step. What could not be made is None, and `refusal` says why."""

    summary: StepSummary
    tally: Tally
    contract: TrainingIncidentContract | None = None
    evidence: TrainingRunEvidence | None = None
    report: IncidentReport | None = None
    refusal: ContractError | None = None

    @property
    def good(self) -> bool:
        return self.report is not None and self.report.decision != "HOLD"

    @property
    def held(self) -> bool:
        return self.report is not None and self.report.decision == "HOLD"


def judge(window: list[TakenStep], contract: TrainingIncidentContract | ContractOf) -> list[Verdict]:
    """Triages steps in order, up to the first that is not good. One transfer from the device for all of them."""
    fetched = jax.device_get([(taken.counts.data, _scalars(taken.aux)) for taken in window])
    verdicts: list[Verdict] = []
    for taken, (data, scalars) in zip(window, fetched, strict=True):
        tally = replace(taken.counts, data=data).to_host()
        verdicts.append(_judge_one(taken, tally, {name: float(x) for name, x in scalars.items()}, contract))
        if not verdicts[-1].good:
            break
    return verdicts


def _judge_one(
    taken: TakenStep, tally: Tally, metrics: dict[str, float], contract_of: TrainingIncidentContract | ContractOf
) -> Verdict:
    scale = metrics.get("loss_scale")
    summary = StepSummary.of(taken.step_id, taken.batch_index, tally, metrics)
    contract = evidence = None
    try:
        contract = _contract_for(taken, scale, contract_of)
        evidence = capture(tally, contract)
        return Verdict(summary, tally, contract, evidence, triage_training_incident(contract, evidence))
    except ContractError as refusal:
        return Verdict(summary, tally, contract, evidence, refusal=refusal)


def _contract_for(
    taken: TakenStep, scale: float | None, contract: TrainingIncidentContract | ContractOf
) -> TrainingIncidentContract:
    if not isinstance(contract, TrainingIncidentContract):
        return contract(taken.step_id, taken.batch_index, scale)
    return replace(
        contract,
        step_id=taken.step_id,
        batch_id=f"{contract.batch_id}-{taken.batch_index}",
        loss_scale=contract.loss_scale if scale is None else scale,
    )


def _scalars(aux: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in aux.items() if _is_real_scalar(value)}


def _is_real_scalar(value: Any) -> bool:
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return value.ndim == 0 and (value.dtype.name in FORMATS or value.dtype.name in INTEGERS)
    return isinstance(value, bool | int | float)
