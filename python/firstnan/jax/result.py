"""How a run of the training loop ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firstnan import ContractError, IncidentObservations, IncidentReport, TrainingIncidentContract, TrainingRunEvidence
from firstnan.jax.history import StepSummary
from firstnan.jax.tally import Tally


@dataclass(frozen=True)
class RunResult:
    """How a run ended. `state` is always the last good one: no update of a held or refused step is in it.

    `steps` counts the steps taken into `state`; `next_step` is the id of the one it is about to take. `report`,
    `evidence` and `contract` are of the last step triaged: the held one, if `held`. `bad_step`, `bad_batch` (its
    index), `counts`, `observations`, `bundle` and `reproduced` (see `Incident`) are of the held or refused step, else
    None. Where several processes train together `held` says that one of them held, and `held_by` which: then `report`
    is this process's own, and may have found nothing.
    """

    state: Any = field(repr=False)
    steps: int
    next_step: int
    held: bool
    interrupted: bool
    report: IncidentReport | None
    evidence: TrainingRunEvidence | None
    contract: TrainingIncidentContract | None
    history: tuple[StepSummary, ...] = field(repr=False)
    bad_step: int | None = None
    bad_batch: int | None = None
    counts: Tally | None = field(default=None, repr=False)
    observations: IncidentObservations | None = field(default=None, repr=False)
    bundle: Path | None = None
    reproduced: bool | None = None
    held_by: tuple[int, ...] = ()
    _rest: Callable[[dict[str, Any]], RunResult] | None = field(default=None, repr=False, compare=False)

    def restart(self, **changes: Any) -> RunResult:
        """Goes on from the last good step, without the bad batch, on the batches that remain.

        Args:
            changes: arguments of `run` to change: step, contract, bundle_dir, every, history, on_step, skip, policy, agree.

        Raises:
            ValueError: the run came to its end, or was restarted from here already.
        """
        if self._rest is None:
            raise ValueError("the run came to its end: there is nothing to restart")
        return self._rest(changes)


class StepRefused(ContractError):
    """Triage refused the evidence of a step, or none could be made.

    `result` holds the last good state and, in `bundle`, the folder with what was measured.
    """

    result: RunResult


def step_refused(step_id: int, refusal: ContractError, result: RunResult) -> StepRefused:
    """The error of a refused step, with the facts of the refusal that it comes from."""
    kept = f"; what was measured is in {result.bundle.name}" if result.bundle else ""
    known = ("kind", "layer", "pointer", "bound", "record", "offset")
    facts = {name: getattr(refusal, name) for name in known}
    error = StepRefused(f"step {step_id} was refused: {refusal}{kept}", **facts)
    error.__cause__ = refusal
    error.result = result
    return error
