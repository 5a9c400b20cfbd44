"""What a scan gives: counts of each tensor, and what has none and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, Protocol

from firstnan.finite import FiniteCounts

Tick = Callable[[int], object]
"""Is told the bytes done so far; what it raises ends the scan."""


@dataclass(frozen=True, slots=True)
class TensorScan:
    """The counts of one tensor. `file` is relative to the checkpoint's folder; `dtype` is numpy's or ml_dtypes' name."""

    file: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    counts: FiniteCounts

    def to_json(self) -> dict[str, Any]:
        counts = {**asdict(self.counts), "nonfinite": self.counts.nonfinite}
        return {"file": self.file, "name": self.name, "dtype": self.dtype, "shape": list(self.shape), **counts}


@dataclass(frozen=True, slots=True)
class NotCounted:
    """A tensor, or a file where `name` is None, that has no counts or not all.

    `kind` is `"refused"` (it is damaged, or of a type that cannot be read), `"unreadable"` (the system could not read it),
    `"no_numbers"` (text, dates, or a member that is no array: nothing there can be non-finite) or `"not_read"` (something
    else in the folder, not looked into). `reason` names the field and the bound, never a value.
    """

    file: str
    name: str | None
    kind: Literal["refused", "unreadable", "no_numbers", "not_read"]
    reason: str


@dataclass(frozen=True, slots=True)
class CheckpointScan:
    """A whole checkpoint: `tensors` in the order of the files, and what is `not_counted`."""

    path: str
    tensors: tuple[TensorScan, ...]
    not_counted: tuple[NotCounted, ...]

    @property
    def complete(self) -> bool:
        """Whether every number was counted in what is of the kinds that are read."""
        return not any(entry.kind in ("refused", "unreadable") for entry in self.not_counted)

    @property
    def all_finite(self) -> bool:
        """Whether every number was counted and is finite."""
        return self.complete and self.nonfinite == 0

    @property
    def checked(self) -> int:
        return sum(tensor.counts.checked for tensor in self.tensors)

    @property
    def nan(self) -> int:
        return sum(tensor.counts.nan for tensor in self.tensors)

    @property
    def positive_infinity(self) -> int:
        return sum(tensor.counts.positive_infinity for tensor in self.tensors)

    @property
    def negative_infinity(self) -> int:
        return sum(tensor.counts.negative_infinity for tensor in self.tensors)

    @property
    def nonfinite(self) -> int:
        return self.nan + self.positive_infinity + self.negative_infinity

    @property
    def maximum_absolute_finite(self) -> float:
        return max((tensor.counts.maximum_absolute_finite for tensor in self.tensors), default=0.0)

    def worst_first(self) -> list[TensorScan]:
        """The tensors, those with most non-finite elements first, else in their order."""
        return sorted(self.tensors, key=lambda tensor: -tensor.counts.nonfinite)


class Layout(NamedTuple):
    """How an array's elements are stored: `fortran` is its shape where that is the order, `halves` two in a byte."""

    dtype: str
    shape: tuple[int, ...]
    byte_swapped: bool = False
    fortran: bool = False
    halves: bool = False


class Source(Protocol):
    """A file or folder that holds tensors."""

    @property
    def label(self) -> str:
        """What results call it."""

    @property
    def size(self) -> int:
        """Its bytes on disk, for the progress only."""

    def count(self, threads: int, tick: Tick) -> Iterator[TensorScan | NotCounted]:
        """Every tensor, counted or not; `tick` is told bytes out of `size`."""
