"""Counting the five stages of a step: a pure function for use inside `jit`.

Each leaf costs one pass: its bits are classified and reduced by a single reduction with four results. What comes back
is one small uint32 array, a row for each leaf, so that it can leave a jitted step, be stacked by `scan` or `vmap`, and
cross to the host in one transfer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from firstnan import STAGES, NonfinitePolicy
from firstnan.jax.formats import COMPLEX_PARTS, FORMATS, INTEGERS, magnitude_of_pattern
from firstnan.jax.paths import leaf_path
from firstnan.jax.policy import checked_policy, missing_values
from firstnan.jax.rows import ROW_WIDTH, device_row, host_row
from firstnan.jax.tally import LeafCount, Tally


class LeafKind(NamedTuple):
    """What is static about one counted leaf: its stage, its path in the stage's pytree, dtype name, element count, and
    which integers were counted as missing in it."""

    stage: str
    path: str
    dtype: str
    size: int
    missing_values: tuple[int, ...] = ()


@partial(jax.tree_util.register_dataclass, data_fields=["data"], meta_fields=["leaves", "stages"])
@dataclass(frozen=True, slots=True)
class StageCounts:
    """Counts of every leaf of the stages that were measured. A pytree: `data` is its one array, the rest is static.

    `data` is uint32[..., leaves, 8], on the device inside `jit`; `leaves` names its rows; `stages` are those measured,
    in order. Leading axes appear where `scan`, `vmap` or `shard_map` stacked several steps or shards.
    """

    data: Any
    leaves: tuple[LeafKind, ...]
    stages: tuple[str, ...]

    def to_host(self) -> Tally:
        """The counts as Python numbers. Waits for the device.

        Raises:
            ValueError: the counts are stacked; take them one by one with `unstack`.
        """
        data = np.asarray(self.data)
        if data.ndim != 2:
            raise ValueError(f"counts are stacked along {data.ndim - 2} axes: use unstack() and read them one by one")
        return Tally(tuple(map(_leaf_count, self.leaves, data.tolist())), self.stages)

    def unstack(self) -> Iterator[StageCounts]:
        """Counts along the leading axis: steps of a scan, examples of a vmap, shards. Waits for the device."""
        data = np.asarray(self.data)
        if data.ndim < 3:
            raise ValueError("counts are not stacked: use to_host()")
        return (StageCounts(part, self.leaves, self.stages) for part in data)


def count_stages(
    *,
    input: Any = None,
    forward: Any = None,
    loss: Any = None,
    backward: Any = None,
    optimizer: Any = None,
    policy: NonfinitePolicy | None = None,
) -> StageCounts:
    """Counts NaN, +Inf, -Inf and the largest finite magnitude in each leaf of each stage given.

    Pure, and part of the computation it is called in: inside `jit` the counts are made on the device and the values
    themselves go nowhere. A stage that is None was not measured, which is not the same as a stage without elements.

    Args:
        input: the batch.
        forward: activations or outputs.
        loss: the loss, and named terms of it.
        backward: the gradients, before any reduction that could spread a NaN.
        optimizer: the updates with the new optimizer state, and the new parameters where they are at hand.
        policy: in the integer leaves that its `missing` names, elements that equal one of the values are counted as
            missing. Nothing else of a policy is looked at here: what it expects is taken out at triage.

    Leaves may be of any shape, and of every dtype that JAX or ml_dtypes has. A complex element counts once: NaN if
    either part is NaN, else by the sign of its first infinite part; its magnitude is the larger of its parts' (never
    abs(), which overflows). Integers, booleans, typed keys of random generators and float0 are finite by nature and
    counted as checked; an integer leaf has a magnitude of its own that stays out of its stage's, since ids have no
    scale. Under NamedSharding counts are of the whole array, inside `shard_map` and `vmap` of one shard or example.
    A numpy leaf is counted on the host, as it is, before any conversion that JAX would make.

    Raises:
        TypeError: a leaf that is no array or number, named by stage and path.
        ContractError: the policy is no `NonfinitePolicy`.
    """
    policy = checked_policy(policy)
    given = dict(zip(STAGES, (input, forward, loss, backward, optimizer), strict=True))
    stages = tuple(stage for stage, tree in given.items() if tree is not None)
    leaves: list[LeafKind] = []
    rows: list[Any] = []
    for stage in stages:
        for path, leaf in jax.tree_util.tree_flatten_with_path(given[stage])[0]:
            name = leaf_path(path)
            dtype, size = _kind(leaf, f"{stage} leaf {name!r}")
            missing = missing_values(policy, stage, name, dtype)
            leaves.append(LeafKind(stage, name, dtype, size, missing))
            rows.append(_row(leaf, dtype, missing))
    return StageCounts(_stack(rows), tuple(leaves), stages)


def _stack(rows: list[Any]) -> Any:
    if any(isinstance(row, jax.core.Tracer) for row in rows):
        return jnp.stack(rows)
    # Outside jit the leaves may live on different devices, which no stacking on a device could join.
    host = jax.device_get(rows)
    return np.stack(host) if host else np.zeros((0, ROW_WIDTH), np.uint32)


def _kind(leaf: Any, name: str) -> tuple[str, int]:
    """The dtype's name and the number of elements of a leaf that can be counted."""
    if isinstance(leaf, jax.Array):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return str(leaf.dtype), leaf.size
        return _known_dtype(leaf.dtype, name), leaf.size
    if not isinstance(leaf, (np.ndarray, np.generic, bool, int, float, complex)):
        raise TypeError(f"{name} is a {type(leaf).__name__}, which is no array or number")
    if isinstance(leaf, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: count its data and its mask by themselves")
    array = np.asarray(leaf)
    if array.dtype == jax.dtypes.float0:
        return "float0", array.size
    return _known_dtype(array.dtype, name), array.size


def _row(leaf: Any, dtype: str, missing: tuple[int, ...]) -> Any:
    if dtype not in FORMATS and dtype not in COMPLEX_PARTS and dtype not in INTEGERS:
        return np.zeros(ROW_WIDTH, np.uint32)
    if not isinstance(leaf, jax.Array):
        return host_row(np.asarray(leaf), missing)
    with jax.enable_x64(True) if dtype.endswith(("64", "128")) else nullcontext():
        return device_row(lax.stop_gradient(leaf), missing)


def _known_dtype(dtype: Any, name: str) -> str:
    kind = str(dtype.name)
    if kind not in FORMATS and kind not in COMPLEX_PARTS and kind not in INTEGERS:
        raise TypeError(f"{name} has dtype {kind}, which holds no number that can be counted")
    return kind


def _leaf_count(leaf: LeafKind, row: list[int]) -> LeafCount:
    nan, positive, negative, pattern = ((high << 32) + low for high, low in zip(row[::2], row[1::2], strict=True))
    part = COMPLEX_PARTS.get(leaf.dtype, leaf.dtype)
    magnitude: int | float | None = None
    missing = 0
    if part in INTEGERS:
        # No integer is a NaN: its place holds the missing ones.
        magnitude, missing, nan = pattern, nan, 0
    elif part in FORMATS:
        # With no finite element the pattern 0 says nothing; in e8m0 it would read as 2**-127.
        any_finite = nan + positive + negative < leaf.size
        magnitude = magnitude_of_pattern(part, pattern) if any_finite else 0.0
    return LeafCount(
        leaf.stage, leaf.path, leaf.dtype, leaf.size, nan, positive, negative, magnitude, missing, leaf.missing_values
    )
