"""What stands beside the verdict on a step: what the evidence supports, in the fixed words of `ObservationWord`.

The verdict names the first stage. Whether a non-finite value was there before the step, whether it got into what the
step gave back, whether running the step again shows it too: each is looked at by itself, and where it cannot be
decided the record says so. No word is about why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import jax
import numpy as np

from firstnan import (
    IncidentObservation,
    IncidentObservations,
    LeafRole,
    NonfinitePolicy,
    ObservationWord,
    TrainingIncidentContract,
    TrainingRunEvidence,
)
from firstnan.jax.counts import count_stages
from firstnan.jax.formats import COMPLEX_PARTS, FORMATS, INTEGERS
from firstnan.jax.policy import Exclusion, role_of
from firstnan.jax.tally import Tally

MAX_OBSERVATIONS = 4096
"""The most that the record holds; leaves beyond it are in counts.json."""

_ORDER = {word: place for place, word in enumerate(ObservationWord)}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What was around a bad step.

    `before` is the state that the step got, `start` that of the first step since the last triage (the same object for
    the first step); `after` is what running the step again gave back, None where that could not be done.
    """

    batch: Any
    before: Any
    start: Any
    after: Any
    reproduced: bool | None


def observe(
    tally: Tally,
    contract: TrainingIncidentContract,
    evidence: TrainingRunEvidence,
    around: Surroundings,
    *,
    policy: NonfinitePolicy | None = None,
    policy_digest: str | None = None,
    excluded: Iterable[Exclusion] = (),
    consecutive_skips: int = 0,
    others: Iterable[IncidentObservation] = (),
) -> IncidentObservations:
    """What the evidence of a step supports.

    Args:
        tally: every leaf's counts, as measured.
        contract: of the step.
        evidence: of the step.
        around: the batch and the states before and after.
        policy: declares the roles of the leaves of the state; undeclared leaves have the role `state`.
        policy_digest: of the policy, if there is one.
        excluded: what the policy took out of the triage.
        consecutive_skips: how many steps in a row were skipped, this one included.
        others: observations made elsewhere, of shards or of a skip.
    """
    before = nonfinite_leaves(around.before)
    found = [*others, *_entered(around, before, policy), *_reached(around, before, policy), *_replayed(around)]
    if gradients_are_zero(tally):
        found.append(observation(ObservationWord.GRADIENTS_ZERO, stage="backward"))
    for out in excluded:
        taken_out = (ObservationWord.EXCLUDED_BY_POLICY, out.nonfinite), (ObservationWord.MISSING_ELEMENTS, out.missing)
        found += [observation(word, stage=out.stage, path=out.path, elements=n) for word, n in taken_out if n]
    found.sort(key=lambda one: _ORDER[one.word])
    return IncidentObservations(
        contract_content_id=contract.content_id,
        evidence_content_id=evidence.evidence_content_id,
        policy_digest=policy_digest,
        consecutive_skips=consecutive_skips,
        observations=tuple(found[:MAX_OBSERVATIONS]),
        root_cause_claim="NONE_SYMPTOM_LOCATION_IS_NOT_CAUSALITY",
    )


def observation(
    word: ObservationWord,
    *,
    stage: str | None = None,
    role: LeafRole | None = None,
    path: str | None = None,
    elements: int | None = None,
) -> IncidentObservation:
    """One observation; a path beyond the record's bound is cut."""
    shown = None if path is None else path[:1024]
    return IncidentObservation(word=word, stage=cast("Any", stage), role=role, path=shown, elements=elements)


def nonfinite_leaves(tree: Any) -> dict[str, int]:
    """The path and the number of non-finite elements of each leaf that has some; leaves that are no numbers have none."""
    tally = count_stages(input=jax.tree.map(lambda leaf: leaf if _is_numeric(leaf) else None, tree)).to_host()
    return {leaf.path: leaf.nonfinite for leaf in tally.leaves if leaf.nonfinite}


def gradients_are_zero(tally: Tally) -> bool:
    """Whether the loss is not finite and every gradient is finite and zero: such a step moves nothing."""
    if not {"loss", "backward"} <= set(tally.stages) or not tally.total("loss").nonfinite:
        return False
    gradients = tally.total("backward")
    return gradients.checked > 0 and not gradients.nonfinite and gradients.maximum_absolute_finite == 0


def _entered(
    around: Surroundings, before: Mapping[str, int], policy: NonfinitePolicy | None
) -> Iterable[IncidentObservation]:
    for path, elements in nonfinite_leaves(around.batch).items():
        yield observation(ObservationWord.PRESENT_ON_ENTRY, role=LeafRole.BATCH, path=path, elements=elements)
    for path, elements in before.items():
        yield observation(ObservationWord.PRESENT_ON_ENTRY, role=role_of(path, policy), path=path, elements=elements)
    start = before if around.start is around.before else nonfinite_leaves(around.start)
    for path, elements in start.items():
        word = ObservationWord.BEGAN_BEFORE_WINDOW
        yield observation(word, role=role_of(path, policy), path=path, elements=elements)


def _reached(
    around: Surroundings, before: Mapping[str, int], policy: NonfinitePolicy | None
) -> Iterable[IncidentObservation]:
    if not around.reproduced or around.after is None:
        yield observation(ObservationWord.REACH_UNDECIDED)
        return
    new = {path: n for path, n in nonfinite_leaves(around.after).items() if n > before.get(path, 0)}
    for path, elements in new.items():
        role = role_of(path, policy)
        word = ObservationWord.REACHED_PARAMETERS if role is LeafRole.PARAMETERS else ObservationWord.REACHED_STATE
        yield observation(word, role=role, path=path, elements=elements)
    if not new:
        yield observation(ObservationWord.CONTAINED)


def _replayed(around: Surroundings) -> Iterable[IncidentObservation]:
    words = {True: ObservationWord.REPRODUCED, False: ObservationWord.NOT_REPRODUCED, None: ObservationWord.REPLAY_UNDECIDED}
    yield observation(words[around.reproduced])


def _is_numeric(leaf: Any) -> bool:
    if isinstance(leaf, jax.Array):
        return not leaf.is_deleted()
    if not isinstance(leaf, np.ndarray | np.generic | float | complex):
        return False
    name = np.asarray(leaf).dtype.name
    return name in FORMATS or name in COMPLEX_PARTS or name in INTEGERS
