"""Counts as Python numbers: exact, comparable, and writable as JSON. Needs neither jax nor numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from firstnan import STAGES, ContractError
from firstnan.jax.fields import checked_fields

_LEAF_FIELDS = {
    "stage": (str,),
    "path": (str,),
    "dtype": (str,),
    "checked": (int,),
    "nan": (int,),
    "positive_infinity": (int,),
    "negative_infinity": (int,),
    "maximum_absolute_finite": (int, float, type(None)),
}


@dataclass(frozen=True, slots=True)
class LeafCount:
    """One leaf of one stage. `checked` elements are `finite` plus `nonfinite`.

    `maximum_absolute_finite` is a float for inexact leaves, 0.0 where no element is finite; an int for integer leaves;
    None for those without a magnitude (typed keys, float0).
    """

    stage: str
    path: str
    dtype: str
    checked: int
    nan: int
    positive_infinity: int
    negative_infinity: int
    maximum_absolute_finite: int | float | None

    @property
    def nonfinite(self) -> int:
        return self.nan + self.positive_infinity + self.negative_infinity

    @property
    def finite(self) -> int:
        return self.checked - self.nonfinite

    def to_json(self) -> dict[str, Any]:
        """A JSON object of the fields; every number in it is finite."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, value: Any) -> LeafCount:
        """The inverse of `to_json`.

        Raises:
            ContractError: the object is of another form.
        """
        return cls(**checked_fields(value, _LEAF_FIELDS))


@dataclass(frozen=True, slots=True)
class StageTotal:
    """The sum over the leaves of one stage. The magnitude is over inexact leaves only: ids and keys have no scale."""

    stage: str
    checked: int
    nan: int
    positive_infinity: int
    negative_infinity: int
    maximum_absolute_finite: float

    @property
    def nonfinite(self) -> int:
        return self.nan + self.positive_infinity + self.negative_infinity

    @property
    def finite(self) -> int:
        return self.checked - self.nonfinite


@dataclass(frozen=True, slots=True)
class Tally:
    """Every leaf's counts of one step (or shard), and which stages were measured, in order."""

    leaves: tuple[LeafCount, ...]
    stages: tuple[str, ...]

    def total(self, stage: str) -> StageTotal:
        """The sum over a measured stage.

        Raises:
            KeyError: the stage was not measured.
        """
        if stage not in self.stages:
            raise KeyError(stage)
        leaves = [leaf for leaf in self.leaves if leaf.stage == stage]
        magnitudes = [x for leaf in leaves if isinstance(x := leaf.maximum_absolute_finite, float)]
        return StageTotal(
            stage,
            sum(leaf.checked for leaf in leaves),
            sum(leaf.nan for leaf in leaves),
            sum(leaf.positive_infinity for leaf in leaves),
            sum(leaf.negative_infinity for leaf in leaves),
            max(magnitudes, default=0.0),
        )

    @property
    def first_nonfinite(self) -> str | None:
        """The earliest stage that holds a NaN or an infinity, or None."""
        bad = {leaf.stage for leaf in self.leaves if leaf.nonfinite}
        return next((stage for stage in STAGES if stage in bad), None)

    def to_json(self) -> dict[str, Any]:
        """`{"stages": [name…], "leaves": [leaf…]}`, with finite numbers only."""
        return {"stages": list(self.stages), "leaves": [leaf.to_json() for leaf in self.leaves]}

    @classmethod
    def from_json(cls, value: Any) -> Tally:
        """The inverse of `to_json`.

        Raises:
            ContractError: the object is of another form.
        """
        fields = checked_fields(value, {"stages": (list,), "leaves": (list,)})
        if fields["stages"] != [stage for stage in STAGES if stage in fields["stages"]]:
            raise ContractError("/stages must be stages, in order")
        return cls(tuple(map(LeafCount.from_json, fields["leaves"])), tuple(fields["stages"]))
