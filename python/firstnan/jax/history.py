"""What is remembered of the last steps: how large each stage was, for the report and for plots."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from firstnan import ContractError
from firstnan.jax.fields import checked_fields
from firstnan.jax.tally import Tally

_FIELDS = {"step_id": (int,), "batch_index": (int,), "maximum": (dict,), "nonfinite": (dict,), "metrics": (dict,)}


@dataclass(frozen=True, slots=True)
class StepSummary:
    """One triaged step. `maximum` and `nonfinite` map each measured stage to its largest finite magnitude and to its
    non-finite count; `metrics` holds the scalars of the step's aux dict, `loss_scale` among them where it gave one."""

    step_id: int
    batch_index: int
    maximum: dict[str, float]
    nonfinite: dict[str, int]
    metrics: dict[str, float]

    @classmethod
    def of(cls, step_id: int, batch_index: int, tally: Tally, metrics: dict[str, float]) -> StepSummary:
        """The summary of a step's counts."""
        totals = {stage: tally.total(stage) for stage in tally.stages}
        return cls(
            step_id,
            batch_index,
            {stage: total.maximum_absolute_finite for stage, total in totals.items()},
            {stage: total.nonfinite for stage, total in totals.items()},
            metrics,
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON object; a metric that is not finite is the text `nan`, `inf` or `-inf`."""
        metrics = {name: x if math.isfinite(x) else str(x) for name, x in self.metrics.items()}
        return {name: getattr(self, name) for name in self.__slots__} | {"metrics": metrics}

    @classmethod
    def from_json(cls, value: Any) -> StepSummary:
        """The inverse of `to_json`.

        Raises:
            ContractError: the object is of another form.
        """
        fields = checked_fields(value, _FIELDS)
        metrics = {name: float(x) if x in ("nan", "inf", "-inf") else x for name, x in fields["metrics"].items()}
        for part, kind in (("maximum", float), ("nonfinite", int)):
            checked_fields(fields[part], dict.fromkeys(fields[part], (kind,)))
        if any(type(x) is not float for x in metrics.values()):
            raise ContractError("/metrics must hold numbers")
        return cls(**fields | {"metrics": metrics})
