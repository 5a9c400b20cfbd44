"""How a run of the training loop ended."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firstnan import STAGES, ContractError, IncidentObservations, IncidentReport, TrainingIncidentContract, TrainingRunEvidence
from firstnan.jax.history import StepSummary
from firstnan.jax.reductions import ShardsSeen
from firstnan.jax.tally import Tally
from firstnan.printable import printable


@dataclass(frozen=True, repr=False)
class RunResult:
    """How a run ended. `state` is always the last good one: no update of a held or refused step is in it.

    `steps` counts the steps taken into `state`; `next_step` is the id of the one it is about to take. `report`,
    `evidence` and `contract` are of the last step triaged: the held one, if `held`. `bad_step`, `bad_batch` (its
    index), `counts`, `observations`, `shards`, `bundle` and `reproduced` (see `Incident`) are of the held or refused step, else
    None. Where several processes train together `held` says that one of them held, and `held_by` which: then `report`
    is this process's own, and may have found nothing.
    """

    state: Any
    steps: int
    next_step: int
    held: bool
    interrupted: bool
    report: IncidentReport | None
    evidence: TrainingRunEvidence | None
    contract: TrainingIncidentContract | None
    history: tuple[StepSummary, ...]
    bad_step: int | None = None
    bad_batch: int | None = None
    counts: Tally | None = None
    observations: IncidentObservations | None = None
    shards: ShardsSeen | None = None
    bundle: Path | None = None
    reproduced: bool | None = None
    held_by: tuple[int, ...] = ()
    _rest: Callable[[dict[str, Any]], RunResult] | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        stage = None if self.report is None else self.report.earliest_nonfinite_stage
        shown: dict[str, object] = {"steps": self.steps, "next_step": self.next_step, "held": self.held}
        shown |= {"interrupted": True} if self.interrupted else {}
        if self.bad_step is not None:
            shown |= {"bad_step": self.bad_step, "bad_batch": self.bad_batch, "stage": stage, "bundle": str(self.bundle)}
        return f"RunResult({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def restart(self, **changes: Any) -> RunResult:
        """Goes on from the last good step, without the bad batch, on the batches that remain.

        Args:
            changes: arguments of `run` to change: step, contract, bundle_dir, every, history, on_step, skip, policy, peers.

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
    kept = f"; what was measured is in {printable(str(result.bundle))}" if result.bundle else ""
    words = re.sub(r"/stages/([0-4])\b", lambda found: f"stage {STAGES[int(found[1])]}", str(refusal))
    known = ("kind", "layer", "pointer", "bound", "record", "offset")
    facts = {name: getattr(refusal, name) for name in known}
    error = StepRefused(f"step {step_id} was refused: {words}{kept}", **facts)
    error.__cause__ = refusal
    error.result = result
    return error
