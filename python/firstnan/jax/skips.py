"""A step that says its update was skipped must leave the state as it was, and not follow too many others."""

from __future__ import annotations

from typing import Any

from firstnan import IncidentObservation, NonfinitePolicy, ObservationWord
from firstnan.jax.observations import Surroundings, observation
from firstnan.jax.policy import may_change_in_a_skip, role_of
from firstnan.jax.same_bits import changed_leaves


def changed_in_a_skip(before: Any, after: Any, policy: NonfinitePolicy) -> list[str]:
    """The leaves of the state that changed and may not change in a skipped step."""
    return [path for path in changed_leaves(before, after) if not may_change_in_a_skip(path, policy)]


def observe_skip(around: Surroundings, skips: int, policy: NonfinitePolicy | None) -> list[IncidentObservation]:
    """What is to be said of a held step that says it was skipped, as the last of `skips` in a row."""
    if policy is None or not skips:
        return []
    found = []
    if skips > policy.maximum_consecutive_skips:
        found.append(observation(ObservationWord.SKIPS_EXHAUSTED, elements=skips))
    if around.after is not None and around.reproduced:
        changed = changed_in_a_skip(around.before, around.after, policy)
        word = ObservationWord.SKIP_CHANGED_STATE
        found += [observation(word, role=role_of(path, policy), path=path) for path in changed]
        if not changed:
            found.append(observation(ObservationWord.SKIPPED_BY_SCALER))
    return found
