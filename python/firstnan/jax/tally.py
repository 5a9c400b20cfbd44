"""Counts as Python numbers: exact, comparable, and writable as JSON. Needs neither jax nor numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from firstnan import STAGES, ContractError
from firstnan.finite import Classified
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
# Only where a policy names the leaf, so that counts without missing elements are written as they always were.
_MISSING_FIELDS: Final = {"missing": (int,), "missing_values": (list,)}


@dataclass(frozen=True, slots=True)
class LeafCount(Classified):
    """One leaf of one stage. `checked` elements are `finite` plus `nonfinite`.

    `maximum_absolute_finite` is a float for inexact leaves, 0.0 where no element is finite; an int for integer leaves;
    None for those without a magnitude (typed keys, float0). `missing` of the elements are one of `missing_values`, the
    integers that a policy calls missing in this leaf, ascending; they are among the checked.
    """

    stage: str
    path: str
    dtype: str
    checked: int
    nan: int
    positive_infinity: int
    negative_infinity: int
    maximum_absolute_finite: int | float | None
    missing: int = 0
    missing_values: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """A JSON object of the fields; every number in it is finite. What is missing is told where it was counted."""
        told = {name: getattr(self, name) for name in _LEAF_FIELDS}
        return told | {"missing": self.missing, "missing_values": [*self.missing_values]} if self.missing_values else told

    @classmethod
    def from_json(cls, value: Any) -> LeafCount:
        """The inverse of `to_json`.

        Raises:
            ContractError: the object is of another form.
        """
        counted = isinstance(value, dict) and "missing_values" in value
        fields = checked_fields(value, _LEAF_FIELDS | _MISSING_FIELDS if counted else _LEAF_FIELDS)
        if not counted:
            return cls(**fields)
        values = fields["missing_values"]
        if any(type(one) is not int for one in values) or not values or values != sorted(set(values)):
            raise ContractError("/missing_values must be integers, ascending")
        if not fields["missing"] <= fields["checked"]:
            raise ContractError("/missing must not be above /checked")
        return cls(**fields | {"missing_values": tuple(values)})


@dataclass(frozen=True, slots=True)
class StageTotal(Classified):
    """The sum over the leaves of one stage. The magnitude is over inexact leaves only: ids and keys have no scale."""

    stage: str
    checked: int
    nan: int
    positive_infinity: int
    negative_infinity: int
    maximum_absolute_finite: float


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
