"""What a page shows beside the records. `firstnan.jax` has such objects; the page needs only these attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class Leaf(Protocol):
    """The counts of one leaf of one stage, in elements."""

    @property
    def stage(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def checked(self) -> int: ...
    @property
    def nan(self) -> int: ...
    @property
    def positive_infinity(self) -> int: ...
    @property
    def negative_infinity(self) -> int: ...
    @property
    def nonfinite(self) -> int: ...
    @property
    def maximum_absolute_finite(self) -> int | float | None: ...


class BadShard(Protocol):
    """A device of a mesh, its place along each axis by name, and its leaves with non-finite elements."""

    @property
    def device(self) -> int: ...
    @property
    def coordinates(self) -> Mapping[str, int]: ...
    @property
    def leaves(self) -> Sequence[Leaf]: ...


class Shards(Protocol):
    """The shards before a reduction, as `firstnan.jax.reductions.ShardsSeen`."""

    @property
    def in_mesh(self) -> int: ...
    @property
    def seen(self) -> int: ...
    @property
    def bad(self) -> int: ...
    @property
    def listed(self) -> Sequence[BadShard]: ...


class Counts(Protocol):
    """The leaves of every stage that was measured, as `firstnan.jax.Tally`."""

    @property
    def leaves(self) -> Sequence[Leaf]: ...


class Step(Protocol):
    """One step, as `firstnan.jax.StepSummary`: largest finite magnitude and non-finite elements of each stage."""

    @property
    def step_id(self) -> int: ...
    @property
    def maximum(self) -> Mapping[str, float]: ...
    @property
    def nonfinite(self) -> Mapping[str, int]: ...
