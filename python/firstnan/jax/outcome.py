"""What a step gave, checked for its form without waiting for the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from firstnan.jax.counts import StageCounts
from firstnan.jax.formats import FORMATS, INTEGERS


def step_outcome(outcome: Any, step_id: int) -> tuple[Any, StageCounts, Mapping[str, Any]]:
    """State, counts and aux.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(outcome, tuple) or len(outcome) not in (2, 3) or not isinstance(outcome[1], StageCounts):
        raise TypeError(f"step {step_id} must return (state, counts) or (state, counts, aux), counts from count_stages")
    state, counts, aux = outcome if len(outcome) == 3 else (*outcome, {})
    if np.ndim(counts.data) != 2:
        raise TypeError(f"step {step_id} returned stacked counts: give the loop those of one step")
    if not isinstance(aux, Mapping):
        raise TypeError(f"step {step_id} must return its aux as a dict")
    if not all(isinstance(name, str) and _is_text(name) for name in aux):
        raise TypeError(f"step {step_id} must return its aux as a dict whose names are text")
    if aux.get("loss_scale") is not None and not _is_number(aux["loss_scale"]):
        raise TypeError(f"step {step_id} must return the loss_scale in its aux as one real number")
    for name, axes in (("before_reduction", 3), ("after_reduction", 2)):
        told = aux.get(name)
        if told is not None and not (isinstance(told, StageCounts) and np.ndim(told.data) == axes):
            form = "counts of each shard from count_shards" if axes == 3 else "counts from count_stages"
            raise TypeError(f"step {step_id} must return the {name} in its aux as {form}")
    return state, counts, aux


def real_scalars(aux: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers and booleans of an aux dict, on the device or not."""
    return {name: value for name, value in aux.items() if _is_number(value) or _is_boolean(value)}


def as_float(number: Any) -> float:
    """A fetched scalar in binary64; an integer beyond it is the infinity on its side."""
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _is_number(value: Any) -> bool:
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return value.ndim == 0 and value.dtype.name != "bool" and (value.dtype.name in FORMATS or value.dtype.name in INTEGERS)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_boolean(value: Any) -> bool:
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return bool(value.ndim == 0 and value.dtype.name == "bool")
    return isinstance(value, bool)


def _is_text(name: str) -> bool:
    """Whether UTF-8 can hold it: a lone surrogate it cannot, and no reader would take the bundle."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
