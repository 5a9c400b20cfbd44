"""The bad step of an incident bundle once more, perhaps on another machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from firstnan import ContractError
from firstnan.jax.births.finder import locate
from firstnan.jax.births.findings import Located
from firstnan.jax.births.supported import require_supported_jax
from firstnan.jax.bundle import Bundle
from firstnan.jax.counts import StageCounts
from firstnan.jax.rollback import Lender
from firstnan.jax.tally import LeafCount, Tally


class NoCounts(TypeError):
    """A step that returns no counts: it cannot be the one that was given to `run`."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What running a bundle's step again gave.

    `same_counts` says whether every leaf of every stage has the counts of the bundle; `differing` are the leaves that
    have not, as this run counted them. Another machine, or another version of the step, need not reproduce an incident:
    then what `located` says is of this run alone.
    """

    same_counts: bool
    differing: tuple[LeafCount, ...]
    located: Located


def replay(bundle: Bundle, step: Callable[[Any, Any], Any]) -> Replay:
    """Runs the step of a bundle on its saved state and batch, compares the counts, and locates the births.

    Args:
        bundle: as `read_bundle` gives it.
        step: the function that was given to `run`: `step(state, batch)`, returning counts from `count_stages`.

    Raises:
        ContractError: the saved state is not the one before the bad step, or needs a type that is not imported.
        NoCounts: the step returns no counts.
        ImportError: the JAX that is installed is not >=0.10,<0.11.
    """
    require_supported_jax()
    incident = bundle.incident
    if incident.state_step_id != incident.step_id:
        raise ContractError(f"the saved state is that before step {incident.state_step_id}, not {incident.step_id}")
    state, batch = bundle.state(), bundle.batch()
    lender = Lender()
    with np.errstate(over="ignore"):  # as in locate
        counts = _counts_of(step(lender.lend("state", state), lender.lend("batch", batch)))
    recorded = set(bundle.counts.leaves)
    return Replay(
        same_counts=counts == bundle.counts,
        differing=tuple(leaf for leaf in counts.leaves if leaf not in recorded),
        located=locate(step, state, batch),
    )


def _counts_of(outcome: Any) -> Tally:
    parts = jax.tree.leaves(outcome, is_leaf=lambda part: isinstance(part, StageCounts))
    counts = next((part for part in parts if isinstance(part, StageCounts)), None)
    if counts is None:
        raise NoCounts("the step returns no counts from count_stages")
    return counts.to_host()
