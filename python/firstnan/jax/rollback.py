"""Keeping what a rollback needs: copies where a step donates its inputs."""

from __future__ import annotations

from typing import Any, Literal

import jax
import numpy as np

# A first state may be numpy arrays, which are never donated; the second is the step's own output.
_STEPS_TO_WATCH = 2


def is_alive(tree: Any) -> bool:
    """Whether every JAX array of a pytree still has its buffer."""
    return not any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in jax.tree.leaves(tree))


class Lender:
    """Lends pytrees to a step that may donate what it is given.

    For the first steps it lends copies and watches what happens to them; then only of what was seen to be donated.
    """

    def __init__(self) -> None:
        self._watched = 0
        self._donates = {"state": False, "batch": False}

    def lend(self, role: Literal["state", "batch"], tree: Any) -> Any:
        """A pytree of the same values that the step may delete, while `tree` stays alive."""
        if self._donates[role] or self._watched < _STEPS_TO_WATCH:
            return jax.tree.map(lambda leaf: leaf.copy() if isinstance(leaf, jax.Array) else leaf, tree)
        return tree

    def watch(self, state: Any, batch: Any) -> None:
        """Looks, after a step, whether it deleted what it was lent."""
        if self._watched < _STEPS_TO_WATCH:
            self._watched += 1
            self._donates["state"] |= not is_alive(state)
            self._donates["batch"] |= not is_alive(batch)


def own_host_arrays(tree: Any) -> Any:
    """Copies the numpy arrays of a pytree, since a data loader may fill the same buffer again."""
    return jax.tree.map(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, tree)
