"""Several processes that hold together: after each triage every one says whether it found a bad step.

A process writes its own record first and only then speaks, so that nothing is lost where a peer is gone and the
exchange fails. All then go back to the state before the earliest bad step that any of them named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np

_LIMB = 1 << 31


class Word(NamedTuple):
    """What one process says: the id of its first bad step, or None; whether it takes no further step."""

    bad_step: int | None
    ends: bool


@dataclass(frozen=True, slots=True)
class Peers:
    """The processes of a run. `exchange` gives every process's word, in order of their index, to all of them; it is
    called by all of them equally often."""

    process: int
    processes: int
    exchange: Callable[[Word], Sequence[Word]]


def peers_of_jax() -> Peers | None:
    """The processes that `jax.distributed` joined, which exchange by an all-gather; None where there is one."""
    if jax.process_count() == 1:
        return None
    return Peers(jax.process_index(), jax.process_count(), _gather)


def _gather(word: Word) -> list[Word]:
    from jax.experimental import multihost_utils

    # Step ids go up to 10^12, and JAX's integers to 2^31 where 64-bit types are off.
    high, low = (-1, 0) if word.bad_step is None else divmod(word.bad_step, _LIMB)
    rows = multihost_utils.process_allgather(np.array([high, low, word.ends], np.int32))
    return [Word(None if high < 0 else high * _LIMB + low, bool(ends)) for high, low, ends in np.asarray(rows).tolist()]
