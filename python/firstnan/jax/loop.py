"""The training loop: runs a user's step, triages each, holds at the first bad one and keeps the last good state."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from firstnan import ContractError, TrainingIncidentContract
from firstnan.jax.bundle import Incident, write_incident_bundle
from firstnan.jax.counts import StageCounts
from firstnan.jax.history import StepSummary
from firstnan.jax.result import RunResult, StepRefused, step_refused
from firstnan.jax.rollback import Lender, is_alive, own_host_arrays
from firstnan.jax.verdict import ContractOf, TakenStep, Verdict, judge

Step = Callable[[Any, Any], tuple[Any, ...]]
OnStep = Callable[[StepSummary, Mapping[str, Any]], object]


def run(
    step: Step,
    state: Any,
    batches: Iterable[Any],
    *,
    contract: TrainingIncidentContract | ContractOf,
    bundle_dir: Path | str,
    every: int = 1,
    history: int = 64,
    on_step: OnStep | None = None,
    start_step: int = 0,
    first_batch: int = 0,
    skip: Container[int] = (),
) -> RunResult:
    """Runs `step` over `batches` until they end, a step is held, or the user interrupts.

    Args:
        step: `step(state, batch)` gives `(new_state, counts)` or `(new_state, counts, aux)`, where `counts` comes from
            `count_stages` and `aux` is a dict; its scalars go into the history, and `loss_scale` there is the scale
            that this step used. It must be a function of its arguments alone: it is run again to rebuild a state, and
            once more on the bad batch to see whether the counts come out the same.
        state: any pytree. A step that donates what it is given is noticed and lent copies, so this one stays valid.
        batches: pytrees. With `every` above 1 numpy arrays in them are copied.
        contract: a template, whose step_id, batch_id (its own, `-`, and the index) and loss_scale are replaced at each
            step; or a function of step id, batch index and loss scale (None where aux has none).
        bundle_dir: where the bundle of a held or refused step goes, as a folder of its own.
        every: triage after this many steps. The steps between do not wait for the device; all of them are triaged, in
            order, so the verdict names the same step whatever this is. State and batches are kept for as long.
        history: how many of the last steps are remembered.
        on_step: called with the summary and aux of each step found good, in order.
        start_step: the id of the first step.
        first_batch: the index of the first batch.
        skip: indices of batches to leave out; they take no step.

    A KeyboardInterrupt stops the run where it is: what had run is triaged, and the result says `interrupted`. When
    anything else is raised, what had run is triaged too, and a held step is noted on the exception.

    Raises:
        StepRefused: a ContractError; no evidence could be made of a step, or triage refused it.
        TypeError: the step does not give what it should.
        ValueError: `every` or `history` is below 1.
        RuntimeError: a step is bad, and began to donate its state only after its first steps did not, so the state
            before it is gone.
    """
    settings = _Settings(step, contract, bundle_dir, every, history, on_step, skip)
    return _Loop(settings, state, zip(count(first_batch), batches), start_step).run()


class _Settings(NamedTuple):
    step: Step
    contract: TrainingIncidentContract | ContractOf
    bundle_dir: Path | str
    every: int
    history: int
    on_step: OnStep | None
    skip: Container[int]


class _Place(NamedTuple):
    """How far the run is verified: the id of the next step, and what is remembered of those before."""

    step_id: int
    history: tuple[StepSummary, ...]
    last: Verdict | None


class _Loop:
    """`window` holds the steps since the last triage, `kept` the state before the first of them, alive whatever is
    donated; `state` is the newest, not yet verified. `pulled` is a batch taken from the source and not yet run.
    Each change that must not be seen half done, by an interrupt, is one assignment of values made before."""

    def __init__(
        self,
        settings: _Settings,
        state: Any,
        source: Iterator[tuple[int, Any]],
        step_id: int,
        history: tuple[StepSummary, ...] = (),
    ) -> None:
        if settings.every < 1 or settings.history < 1:
            raise ValueError("every and history must be at least 1")
        self.settings = settings
        self.state = self.kept = state
        self.source = source
        self.first_step = step_id
        self.place = _Place(step_id, history, None)
        self.lender = Lender()
        self.window: list[TakenStep] = []
        self.pulled: tuple[int, Any] | None = None
        self.ending: RunResult | StepRefused | None = None

    def run(self) -> RunResult:
        try:
            for index, batch in self.source:
                self.pulled = index, batch
                if index not in self.settings.skip:
                    self.take(index, batch)
                self.pulled = None
                if len(self.window) >= self.settings.every and (stopped := self.settle()):
                    return stopped
            return self.settle() or self.result(self.place, [])
        except KeyboardInterrupt:
            if not is_alive(self.state):
                self.state = self.replay(len(self.window))[0]
            return replace(self.settle() or self.result(self.place, [], interrupted=True), interrupted=True)
        except StepRefused:
            raise
        except Exception as error:
            self.note_hold(error)
            raise

    def take(self, index: int, batch: Any) -> None:
        """Runs one step without waiting for it."""
        if self.settings.every > 1:
            batch = own_host_arrays(batch)
        lent_state, lent_batch = self.state, self.lender.lend("batch", batch)
        if not self.window:
            self.kept, lent_state = self.state, self.lender.lend("state", self.state)
        step_id = self.place.step_id + len(self.window)
        state, counts, aux = _outcome(self.settings.step(lent_state, lent_batch), step_id)
        taken = TakenStep(step_id, index, batch, counts, aux)
        self.window, self.state, self.pulled = [*self.window, taken], state, None
        self.lender.watch(lent_state, lent_batch)

    def settle(self) -> RunResult | None:
        """Triages the window; a result if the run stops there.

        Raises:
            StepRefused: it stops at a step that was refused.
        """
        if self.window and self.ending is None:
            verdicts = judge(self.window, self.settings.contract)
            if verdicts[-1].good:
                self.move_on(len(verdicts), verdicts, None)
            else:
                self.stop(verdicts)
        if isinstance(self.ending, StepRefused):
            raise self.ending
        return self.ending

    def move_on(self, good: int, verdicts: list[Verdict], ending: RunResult | StepRefused | None) -> None:
        taken, place = self.window, self.place_after(good, verdicts)
        self.window, self.place, self.ending = [], place, ending
        if self.settings.on_step is not None:
            for step, verdict in zip(taken[:good], verdicts, strict=False):
                self.settings.on_step(verdict.summary, step.aux)

    def place_after(self, good: int, verdicts: list[Verdict]) -> _Place:
        history = (*self.place.history, *(verdict.summary for verdict in verdicts))
        return _Place(self.place.step_id + good, history[-self.settings.history :], verdicts[-1])

    def stop(self, verdicts: list[Verdict]) -> None:
        """Goes back to the state before the last of the verdicts, and leaves its bundle."""
        bad, bad_step = verdicts[-1], self.window[len(verdicts) - 1]
        if not is_alive(self.kept):
            raise RuntimeError(
                f"step {bad_step.step_id} is bad and the state before it is gone: "
                "the step began to donate its state after its first steps did not"
            )
        self.state, reached, same = self.replay(len(verdicts) - 1)
        reproduced = same and self.gives_same_counts(bad_step)
        place = self.place_after(reached, verdicts)
        incident = Incident(
            step_id=bad_step.step_id,
            batch_index=bad_step.batch_index,
            every=self.settings.every,
            state_step_id=place.step_id,
            reproduced=reproduced,
            refusal=None if bad.refusal is None else str(bad.refusal),
        )
        # A step that a replay could not take again is not in the state, so its batch is to be used again.
        untaken = self.window[reached : len(verdicts) - 1] + self.window[len(verdicts) :]
        result = replace(
            self.result(place, untaken),
            bad_step=bad_step.step_id,
            bad_batch=bad_step.batch_index,
            counts=bad.tally,
            bundle=self.write_bundle(incident, bad, bad_step.batch, place.history),
            reproduced=reproduced,
        )
        refused = None if bad.refusal is None else step_refused(bad_step.step_id, bad.refusal, result)
        self.move_on(reached, verdicts, refused or result)

    def replay(self, steps: int) -> tuple[Any, int, bool]:
        """Runs the first `steps` of the window again from the kept state.

        Gives the state reached, how many steps are in it, and whether every one gave the counts it gave before. A step
        that now goes non-finite, or fails, is not taken: the state is good whatever a replay does.
        """
        state, same = self.kept, True
        for number, taken in enumerate(self.window[:steps]):
            again = self.run_again(state, taken)
            if again is None or again[1].to_host().first_nonfinite is not None:
                return state, number, False
            state = again[0]
            same = same and _same_counts(again[1], taken.counts)
        return state, steps, same

    def gives_same_counts(self, taken: TakenStep) -> bool:
        again = self.run_again(self.state, taken)
        return again is not None and _same_counts(again[1], taken.counts)

    def run_again(self, state: Any, taken: TakenStep) -> tuple[Any, StageCounts, Mapping[str, Any]] | None:
        lent_state, lent_batch = self.lender.lend("state", state), self.lender.lend("batch", taken.batch)
        try:
            return _outcome(self.settings.step(lent_state, lent_batch), taken.step_id)
        except Exception as error:
            warnings.warn(f"running step {taken.step_id} again raised {type(error).__name__}", stacklevel=2)
            return None

    def write_bundle(self, incident: Incident, bad: Verdict, batch: Any, history: tuple[StepSummary, ...]) -> Path | None:
        """The bundle's folder; None, with a warning, where the disk would not take it: the state is worth more."""
        word = "refused" if bad.report is None else "incident"
        try:
            return write_incident_bundle(
                Path(self.settings.bundle_dir) / f"{word}-step-{incident.step_id}",
                incident=incident,
                counts=bad.tally,
                state=self.state,
                batch=batch,
                contract=bad.contract,
                evidence=bad.evidence,
                report=bad.report,
                history=history,
                numbered=True,
            )
        except (OSError, ContractError) as error:
            warnings.warn(f"no bundle of step {incident.step_id} could be written: {error}", stacklevel=2)
            return None

    def result(self, place: _Place, untaken: list[TakenStep], *, interrupted: bool = False) -> RunResult:
        last = place.last
        ended = self.pulled is None and not interrupted and (last is None or last.good)
        return RunResult(
            state=self.state,
            steps=place.step_id - self.first_step,
            next_step=place.step_id,
            held=last is not None and last.held,
            interrupted=interrupted,
            report=last.report if last else None,
            evidence=last.evidence if last else None,
            contract=last.contract if last else None,
            history=place.history,
            _rest=None if ended else self.rest(place, untaken),
        )

    def rest(self, place: _Place, untaken: list[TakenStep]) -> Callable[[dict[str, Any]], RunResult]:
        """What `restart` runs: the batches taken but not used, then those still in the source. Once."""
        waiting = [(taken.batch_index, taken.batch) for taken in untaken]
        waiting += [] if self.pulled is None else [self.pulled]
        state, sources = self.state, [chain(waiting, self.source)]

        def go_on(changes: dict[str, Any]) -> RunResult:
            settings = self.settings._replace(**changes)
            if not sources:
                raise ValueError("the run was restarted from here already: its batches are used up")
            return _Loop(settings, state, sources.pop(), place.step_id, place.history).run()

        return go_on

    def note_hold(self, error: Exception) -> None:
        """Triages what ran before the user's code raised, and says on the exception what was found."""
        try:
            stopped = self.settle()
        except Exception as second:
            error.add_note(f"firstnan: what ran before it was not found good: {second}")
            return
        if stopped is not None:
            error.add_note(f"firstnan: step {stopped.bad_step} was held before this; its bundle is {stopped.bundle}")


def _outcome(outcome: Any, step_id: int) -> tuple[Any, StageCounts, Mapping[str, Any]]:
    if not isinstance(outcome, tuple) or len(outcome) not in (2, 3) or not isinstance(outcome[1], StageCounts):
        raise TypeError(f"step {step_id} must return (state, counts) or (state, counts, aux), counts from count_stages")
    state, counts, aux = outcome if len(outcome) == 3 else (*outcome, {})
    if np.ndim(counts.data) != 2:
        raise TypeError(f"step {step_id} returned stacked counts: give the loop those of one step")
    if not isinstance(aux, Mapping):
        raise TypeError(f"step {step_id} must return its aux as a dict")
    return state, counts, aux


def _same_counts(one: StageCounts, other: StageCounts) -> bool:
    return one.leaves == other.leaves and bool(np.array_equal(np.asarray(one.data), np.asarray(other.data)))
