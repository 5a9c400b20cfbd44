"""Running steps again: to rebuild the state before a bad step, and to see whether the counts come out the same."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from firstnan import NonfinitePolicy
from firstnan.jax.counts import StageCounts
from firstnan.jax.outcome import step_outcome
from firstnan.jax.policy import apply_policy
from firstnan.jax.rollback import Lender
from firstnan.jax.settings import Step
from firstnan.jax.verdict import TakenStep


class Replayed(NamedTuple):
    """The state reached, how many steps are in it, and whether every one gave the counts that it gave before."""

    state: Any
    steps: int
    same: bool


@dataclass(frozen=True, slots=True)
class Replayer:
    """Runs steps of `step` again; the states and batches it is given stay alive, whatever the step donates."""

    step: Step
    lender: Lender
    policy: NonfinitePolicy | None

    def replay(self, state: Any, steps: Sequence[TakenStep]) -> Replayed:
        """Takes the steps again from `state`.

        A step that now goes non-finite, or fails, is not taken: the state is good whatever a replay does.
        """
        same = True
        for number, taken in enumerate(steps):
            again = self.run_again(state, taken)
            if again is None:
                return Replayed(state, number, False)
            if not same_counts(again[1], taken.counts):
                same = False
                # With the counts it had, the step was found good already.
                if apply_policy(again[1].to_host(), self.policy).tally.first_nonfinite is not None:
                    return Replayed(state, number, False)
            state = again[0]
        return Replayed(state, len(steps), same)

    def run_again(self, state: Any, taken: TakenStep) -> tuple[Any, StageCounts, Mapping[str, Any]] | None:
        """What the step gives from `state`; None, with a warning, where it raises."""
        lent_state, lent_batch = self.lender.lend("state", state), self.lender.lend("batch", taken.batch)
        try:
            return step_outcome(self.step(lent_state, lent_batch), taken.step_id)
        except (Exception, SystemExit, GeneratorExit) as error:
            warnings.warn(f"running step {taken.step_id} again raised {type(error).__name__}", stacklevel=2)
            return None


def same_counts(one: StageCounts, other: StageCounts) -> bool:
    """Whether two steps counted the same, bit for bit."""
    return one.leaves == other.leaves and bool(np.array_equal(np.asarray(one.data), np.asarray(other.data)))
