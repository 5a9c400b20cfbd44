"""The training loop: runs a user's step, triages each, holds at the first bad one and keeps the last good state."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from firstnan import IncidentObservation, IncidentObservations, NonfinitePolicy, TrainingIncidentContract
from firstnan.arguments import checked_integer
from firstnan.jax.bundle import Incident
from firstnan.jax.history import StepSummary
from firstnan.jax.incident_writer import IncidentWriter
from firstnan.jax.observations import Surroundings, observe
from firstnan.jax.outcome import step_outcome
from firstnan.jax.peers import Peers, Word, peers_of_jax
from firstnan.jax.policy import unused_entries
from firstnan.jax.replay import Replayer, same_counts
from firstnan.jax.result import RunResult, StepRefused, step_refused
from firstnan.jax.rollback import Lender, is_alive, own_host_arrays
from firstnan.jax.settings import MAX_STEP, OnStep, Settings, Step, changed_settings, check_start, checked_settings
from firstnan.jax.shards import around_reduction
from firstnan.jax.skips import changed_in_a_skip, observe_skip
from firstnan.jax.verdict import ContractOf, TakenStep, Verdict, judge


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
    policy: NonfinitePolicy | None = None,
    peers: Peers | None = None,
) -> RunResult:
    """Runs `step` over `batches` until they end, a step is held, or the user interrupts.

    Args:
        step: `step(state, batch)` gives `(new_state, counts)` or `(new_state, counts, aux)`, where `counts` comes from
            `count_stages` and `aux` is a dict; its scalars go into the history, and `loss_scale` there is the scale
            that this step used; a true `skipped` says that the step applied no update; `before_reduction` holds counts
            of each shard (see `firstnan.jax.reductions`). It must be a function of its arguments alone: it is run again
            to rebuild a state, and once more on the bad batch to see whether the counts come out the same.
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
        policy: what is expected. A step whose gradients alone are not finite, and that says it was `skipped`, goes on
            as often in a row as the policy allows, once every leaf of the state that it may not change is found to be
            the same bit for bit.
        peers: the processes that train together, by default those of `jax.distributed`. Each writes its own record of a
            bad step before it speaks to the others; then all hold at the earliest bad step. All take the same number
            of steps between two triages. When one ends or is interrupted, the others stop at their next triage.

    A KeyboardInterrupt stops the run where it is: what had run is triaged, and the result says `interrupted`. When
    anything else is raised, what had run is triaged too, and a held step is noted on the exception.

    Raises:
        StepRefused: a ContractError; no evidence could be made of a step, or triage refused it.
        TypeError: the step does not give what it should.
        ContractError: an argument is not of its type or out of its bounds; it is named, before a step is taken.
        RuntimeError: a step is bad, and began to donate its state only after its first steps did not, so the state
            before it is gone.
    """
    settings = checked_settings(
        step=step,
        contract=contract,
        bundle_dir=bundle_dir,
        every=every,
        history=history,
        on_step=on_step,
        skip=skip,
        policy=policy,
        peers=peers_of_jax() if peers is None else peers,
    )
    check_start(state, batches)
    first = checked_integer("start_step", start_step, 0, MAX_STEP)
    index = checked_integer("first_batch", first_batch, 0, MAX_STEP)
    return _Loop(settings, state, zip(count(index), batches), first).run()


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
        settings: Settings,
        state: Any,
        source: Iterator[tuple[int, Any]],
        step_id: int,
        history: tuple[StepSummary, ...] = (),
    ) -> None:
        self.settings = settings
        self.state = self.kept = state
        self.source = source
        self.first_step = step_id
        self.place = _Place(step_id, history, None)
        self.lender = Lender()
        self.replayer = Replayer(settings.step, self.lender, settings.policy)
        self.writer = IncidentWriter(settings.bundle_dir, settings.policy, settings.peers)
        self.window: list[TakenStep] = []
        self.pulled: tuple[int, Any] | None = None
        self.left: list[TakenStep] = []
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
            return self.settle(ends=True) or self.result(self.place, [])
        except KeyboardInterrupt:
            if not is_alive(self.state):
                self.state, reached, _ = self.replayer.replay(self.kept, self.window)
                self.window, self.left = self.window[:reached], self.window[reached:]
            stopped = self.settle(ends=True) or self.result(self.place, [], stopped=True)
            return replace(stopped, interrupted=True)
        except StepRefused:
            raise
        except BaseException as error:
            # SystemExit too: what had run is triaged before the process ends.
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
        state, counts, aux = step_outcome(self.settings.step(lent_state, lent_batch), step_id)
        taken = TakenStep(step_id, index, batch, counts, aux)
        self.window, self.state, self.pulled = [*self.window, taken], state, None
        self.lender.watch(lent_state, lent_batch)

    def settle(self, *, ends: bool = False) -> RunResult | None:
        """Triages the window; a result if the run stops there. `ends` tells the peers that no step follows.

        Raises:
            StepRefused: it stops at a step that was refused.
        """
        if (self.window or self.settings.peers) and self.ending is None:
            verdicts = self.judge()
            bad = verdicts[-1] if verdicts and not verdicts[-1].good else None
            # On the disk before a peer is asked, or the step is run again: either may never come back.
            local = self.writer.write_local(bad) if bad else None
            first, held_by, peer_ends = self.consult(bad, ends)
            if first is None:
                self.move_on(len(verdicts), verdicts, None)
                if peer_ends and not ends:
                    self.ending = replace(self.result(self.place, [], stopped=True), interrupted=True)
            elif first - self.place.step_id < len(verdicts):
                self.stop(verdicts[: first - self.place.step_id + 1], held_by, local)
            else:
                # A peer went further than this process, which has nothing to take back.
                self.move_on(len(verdicts), verdicts, None)
                self.ending = replace(self.result(self.place, [], stopped=True), held=True, held_by=held_by, bad_step=first)
        if isinstance(self.ending, StepRefused):
            raise self.ending
        return self.ending

    def judge(self) -> list[Verdict]:
        if not self.window:
            return []
        policy, last = self.settings.policy, self.place.last
        verdicts = judge(self.window, self.settings.contract, policy=policy, skips=last.skips if last else 0)
        if policy and not last and (unused := unused_entries(policy, verdicts[0].tally)):
            warnings.warn(f"the policy names leaves that the step does not count: {', '.join(unused)}", stacklevel=2)
        for number, verdict in enumerate(verdicts):
            if verdict.skipped and not self.left_alone(number):
                return [*verdicts[:number], replace(verdict, skipped=False)]
        return verdicts

    def consult(self, bad: Verdict | None, ends: bool) -> tuple[int | None, tuple[int, ...], bool]:
        """The first bad step of any process, which processes name it, and whether a peer takes no further step."""
        own = None if bad is None else bad.summary.step_id
        peers = self.settings.peers
        if peers is None:
            return own, (), False
        words = peers.exchange(Word(own, ends))
        first = min((word.bad_step for word in words if word.bad_step is not None), default=None)
        held_by = tuple(n for n, word in enumerate(words) if first is not None and word.bad_step == first)
        return first, held_by, any(word.ends for word in words)

    def move_on(self, good: int, verdicts: list[Verdict], ending: RunResult | StepRefused | None) -> None:
        taken, place = self.window, self.place_after(good, verdicts)
        self.window, self.place, self.ending = [], place, ending
        if self.settings.on_step is not None:
            for step, verdict in zip(taken[:good], verdicts, strict=False):
                self.settings.on_step(verdict.summary, step.aux)

    def place_after(self, good: int, verdicts: list[Verdict]) -> _Place:
        history = (*self.place.history, *(verdict.summary for verdict in verdicts))
        last = verdicts[-1] if verdicts else self.place.last
        return _Place(self.place.step_id + good, history[-self.settings.history :], last)

    def stop(self, verdicts: list[Verdict], held_by: tuple[int, ...], local: Path | None) -> None:
        """Goes back to the state before the last of the verdicts, and leaves its bundle."""
        bad, bad_step = verdicts[-1], self.window[len(verdicts) - 1]
        if not is_alive(self.kept):
            raise RuntimeError(
                f"step {bad_step.step_id} is bad and the state before it is gone: "
                "the step began to donate its state after its first steps did not"
            )
        start = self.kept
        self.state, reached, same = self.replayer.replay(start, self.window[: len(verdicts) - 1])
        again = self.replayer.run_again(self.state, bad_step)
        reproduced = same and again is not None and same_counts(again[1], bad_step.counts)
        around = Surroundings(bad_step.batch, self.state, start, again[0] if again else None, reproduced)
        shards, of_shards = around_reduction(bad_step.aux, bad.tally)
        observations = self.observe(bad, around, of_shards)
        place = self.place_after(reached, verdicts)
        incident = Incident(
            step_id=bad_step.step_id,
            batch_index=bad_step.batch_index,
            every=self.settings.every,
            state_step_id=place.step_id,
            reproduced=reproduced,
            refusal=None if bad.refusal is None else str(bad.refusal),
            process=peers.process if (peers := self.settings.peers) else 0,
            processes=peers.processes if peers else 1,
            held_by=list(held_by),
        )
        # A step that a replay could not take again is not in the state, so its batch is to be used again.
        untaken = self.window[reached : len(verdicts) - 1] + self.window[len(verdicts) :]
        result = replace(
            self.result(place, untaken, stopped=True),
            held=bad.refusal is None,
            held_by=held_by,
            bad_step=bad_step.step_id,
            bad_batch=bad_step.batch_index,
            counts=bad.tally,
            observations=observations,
            shards=shards,
            bundle=self.writer.write_bundle(
                incident,
                bad,
                state=self.state,
                batch=bad_step.batch,
                history=place.history,
                observations=observations,
                shards=shards,
                local=local,
            ),
            reproduced=reproduced,
        )
        refused = None if bad.refusal is None else step_refused(bad_step.step_id, bad.refusal, result)
        self.move_on(reached, verdicts, refused or result)

    def left_alone(self, number: int) -> bool:
        """Whether a skipped step of the window left alone what it may not change."""
        assert self.settings.policy is not None
        before, after = self.kept, self.state
        if len(self.window) > 1:
            before, reached, _ = self.replayer.replay(self.kept, self.window[:number])
            again = self.replayer.run_again(before, self.window[number]) if reached == number else None
            if again is None:
                return False
            after = again[0]
        return not changed_in_a_skip(before, after, self.settings.policy)

    def observe(
        self, bad: Verdict, around: Surroundings, of_shards: list[IncidentObservation]
    ) -> IncidentObservations | None:
        """What stands beside the verdict; None where there is no evidence for it to stand beside."""
        if bad.contract is None or bad.evidence is None:
            return None
        return observe(
            bad.tally,
            bad.contract,
            bad.evidence,
            around,
            policy=self.settings.policy,
            policy_digest=bad.triaged.policy_digest,
            excluded=bad.triaged.excluded,
            consecutive_skips=bad.skips,
            others=[*of_shards, *observe_skip(around, bad.skips, self.settings.policy)],
        )

    def result(self, place: _Place, untaken: list[TakenStep], *, stopped: bool = False) -> RunResult:
        last = place.last
        ended = self.pulled is None and not stopped
        return RunResult(
            state=self.state,
            steps=place.step_id - self.first_step,
            next_step=place.step_id,
            held=last is not None and last.held,
            interrupted=False,
            report=last.report if last else None,
            evidence=last.evidence if last else None,
            contract=last.contract if last else None,
            history=place.history,
            _rest=None if ended else self.rest(place, untaken),
        )

    def rest(self, place: _Place, untaken: list[TakenStep]) -> Callable[[dict[str, Any]], RunResult]:
        """What `restart` runs: the batches taken but not used, then those still in the source. Once."""
        waiting = [(taken.batch_index, taken.batch) for taken in [*untaken, *self.left]]
        waiting += [] if self.pulled is None else [self.pulled]
        state, sources = self.state, [chain(waiting, self.source)]

        def go_on(changes: dict[str, Any]) -> RunResult:
            settings = changed_settings(self.settings, changes)
            if not sources:
                raise ValueError("the run was restarted from here already: its batches are used up")
            return _Loop(settings, state, sources.pop(), place.step_id, place.history).run()

        return go_on

    def note_hold(self, error: BaseException) -> None:
        """Triages what ran before the user's code raised, and says on the exception what was found."""
        try:
            stopped = self.settle(ends=True)
        except Exception as second:
            error.add_note(f"firstnan: what ran before it was not found good: {second}")
            return
        if stopped is not None:
            error.add_note(f"firstnan: step {stopped.bad_step} was held before this; its bundle is {stopped.bundle}")

