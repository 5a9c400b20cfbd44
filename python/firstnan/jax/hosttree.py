"""Counts of a pytree whose leaves lie in the memory of the host, leaf by leaf in the Rust core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from firstnan.finite import Classified, FiniteCounts, count_finite
from firstnan.jax.paths import leaf_path


@dataclass(frozen=True, slots=True)
class TreeCounts(Classified):
    """The counts of each leaf, by its path and in the tree's order, and their sums, which are exact.

    `first_nonfinite` is the path of the first leaf that is not finite and the index in it, or None.
    `maximum_absolute_finite` is of all leaves, integers too; `leaves` has each by itself.
    """

    leaves: dict[str, FiniteCounts]
    checked: int
    nan: int
    positive_infinity: int
    negative_infinity: int
    maximum_absolute_finite: float
    first_nonfinite: tuple[str, int] | None


def count_finite_tree(tree: Any, *, threads: int | None = None) -> TreeCounts:
    """`firstnan.count_finite` of every leaf: parameters on the host, a restored checkpoint, a batch of tensors.

    Args:
        tree: any pytree of JAX. Its leaves are whatever `firstnan.count_finite` reads, numbers of Python, and typed keys
            of random generators and float0, which are finite by nature. A tree that is one array has the empty path.
        threads: as `firstnan.count_finite`.

    Raises:
        TypeError, BufferError, ValueError: as `firstnan.count_finite`, naming the leaf.
    """
    leaves: dict[str, FiniteCounts] = {}
    for keys, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        path = leaf_path(keys)
        try:
            counts = _count(leaf, threads)
        except (TypeError, BufferError, ValueError) as error:
            raise type(error)(f"leaf {path!r}: {error}") from error
        if path in leaves:
            raise ValueError(f"two leaves have the path {path!r}")
        leaves[path] = counts
    every = leaves.values()
    first = next(((path, leaf.first_nonfinite) for path, leaf in leaves.items() if leaf.first_nonfinite is not None), None)
    return TreeCounts(
        leaves,
        checked=sum(leaf.checked for leaf in every),
        nan=sum(leaf.nan for leaf in every),
        positive_infinity=sum(leaf.positive_infinity for leaf in every),
        negative_infinity=sum(leaf.negative_infinity for leaf in every),
        maximum_absolute_finite=max((leaf.maximum_absolute_finite for leaf in every), default=0.0),
        first_nonfinite=first,
    )


def _count(leaf: Any, threads: int | None) -> FiniteCounts:
    if isinstance(leaf, bool | int | float | complex):
        return count_finite(np.asarray(leaf), threads=threads)
    dtype = getattr(leaf, "dtype", None)
    is_key = isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    if is_key or (isinstance(leaf, np.ndarray) and dtype == jax.dtypes.float0):
        return FiniteCounts(leaf.size, 0, 0, 0, 0.0, None)
    return count_finite(leaf, threads=threads)
