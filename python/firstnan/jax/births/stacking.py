"""Elements of a scanned array, and an array of the outputs of a scan's iterations."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def take(value: Any, index: int, axis: int) -> Any:
    """The element at an index along an axis."""
    place = (slice(None),) * axis + (index,)
    return value[place] if _on_device_only(value) else np.asarray(value)[place]


def stack(values: list[Any], axis: int) -> Any:
    """Values of one shape and dtype along a new axis. On the host, since one operation of many operands compiles long."""
    if _on_device_only(values[0]):
        return jnp.stack(values, axis)
    return np.stack([np.asarray(value) for value in values], axis)


def _on_device_only(value: Any) -> bool:
    return isinstance(value, jax.Array) and bool(jnp.issubdtype(value.dtype, jax.dtypes.prng_key))
