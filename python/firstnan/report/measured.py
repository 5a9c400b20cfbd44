"""What a page shows beside the records: counts of leaves and the last steps, checked before they are drawn.

Both come from files that no schema covers, so their form is looked at here: a name of text, counts that are integers,
magnitudes that are finite.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firstnan.errors import ContractError
from firstnan.records import STAGES


@dataclass(frozen=True)
class Leaf:
    """One leaf of a stage: how many elements were checked, how many of them are not finite, and the largest that is."""

    path: str
    dtype: str
    checked: int
    nan: int
    positive_infinity: int
    negative_infinity: int
    maximum_absolute_finite: float | None

    @property
    def nonfinite(self) -> int:
        return self.nan + self.positive_infinity + self.negative_infinity


@dataclass(frozen=True)
class Step:
    """One step: the largest finite magnitude of each stage, and the stages that had a non-finite element."""

    step_id: int
    maximum: Mapping[str, float]
    nonfinite: Mapping[str, int]


def leaves_of(counts: Mapping[str, Any], stage: str) -> list[Leaf]:
    """The leaves of one stage, those with most non-finite elements first, else in the order given.

    Raises:
        ContractError: the counts are of another form.
    """
    leaves = []
    for index, leaf in enumerate(sequence(counts, "leaves", "")):
        at = f"/leaves/{index}"
        if text(leaf, "stage", at) == stage:
            largest = leaf.get("maximum_absolute_finite")
            leaves.append(
                Leaf(
                    path=text(leaf, "path", at),
                    dtype=text(leaf, "dtype", at),
                    checked=integer(leaf, "checked", at),
                    nan=integer(leaf, "nan", at),
                    positive_infinity=integer(leaf, "positive_infinity", at),
                    negative_infinity=integer(leaf, "negative_infinity", at),
                    maximum_absolute_finite=None if largest is None else real(largest, f"{at}/maximum_absolute_finite"),
                )
            )
    return sorted(leaves, key=lambda leaf: -leaf.nonfinite)


def steps_of(history: Sequence[Any]) -> list[Step]:
    """The steps, in the order given.

    Raises:
        ContractError: the history is of another form.
    """
    steps = []
    for index, step in enumerate(history):
        at = f"/{index}"
        step_id = integer(step, "step_id", at)
        maximum, nonfinite = (step.get(name) for name in ("maximum", "nonfinite"))
        if not isinstance(maximum, Mapping) or not isinstance(nonfinite, Mapping):
            raise refused(at, "an object with maximum and nonfinite")
        steps.append(
            Step(
                step_id,
                {stage: real(maximum[stage], f"{at}/maximum/{stage}") for stage in STAGES if stage in maximum},
                {stage: integer(nonfinite, stage, f"{at}/nonfinite") for stage in STAGES if stage in nonfinite},
            )
        )
    return steps


def sequence(value: Any, name: str, at: str) -> Sequence[Any]:
    member = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(member, (str, bytes)) or not isinstance(member, Sequence):
        raise refused(f"{at}/{name}", "an array")
    return member


def text(value: Any, name: str, at: str) -> str:
    member = value.get(name) if isinstance(value, Mapping) else None
    if not isinstance(member, str):
        raise refused(f"{at}/{name}", "a string")
    return member


def integer(value: Any, name: str, at: str) -> int:
    member = value.get(name) if isinstance(value, Mapping) else None
    if type(member) is not int or member < 0 or member >= 1 << 63:
        raise refused(f"{at}/{name}", "an integer from 0 to 2^63 - 1")
    return member


def real(value: Any, at: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise refused(at, "a finite number, at least 0")
    try:
        return float(value)
    except OverflowError:
        raise refused(at, "a finite number, at least 0") from None


def refused(pointer: str, bound: str) -> ContractError:
    return ContractError(
        f"{pointer or 'the value'} has the wrong type [type: {bound}]",
        kind="type", layer="shape", pointer=pointer, bound=bound,
    )
