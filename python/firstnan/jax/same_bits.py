"""Which leaves of a pytree changed, bit for bit: a skipped step must leave the state as it was."""

from __future__ import annotations

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from firstnan.jax.formats import FORMATS
from firstnan.jax.paths import leaf_path


def changed_leaves(before: Any, after: Any) -> tuple[str, ...]:
    """The paths of the leaves whose bits differ; NaN equals itself, 0.0 and -0.0 do not. Compared where they live.

    A tree of another structure differs in every leaf that the other does not have at the same path.
    """
    old, new = (
        {leaf_path(path): leaf for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]} for tree in (before, after)
    )
    missing = [path for path in (*old, *new) if path not in old or path not in new]
    return tuple(dict.fromkeys([*missing, *(path for path in old if path in new and not _same(old[path], new[path]))]))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, jax.Array) and isinstance(other, jax.Array):
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            return False
        return bool(_same_device_bits(one, other))
    one, other = np.asarray(one), np.asarray(other)
    return (one.dtype, one.shape) == (other.dtype, other.shape) and one.tobytes() == other.tobytes()


@jax.jit
def _same_device_bits(one: jax.Array, other: jax.Array) -> jax.Array:
    if jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
        one, other = jax.random.key_data(one), jax.random.key_data(other)
    if jnp.issubdtype(one.dtype, jnp.complexfloating):
        return cast("jax.Array", _same_device_bits(one.real, other.real) & _same_device_bits(one.imag, other.imag))
    if jnp.issubdtype(one.dtype, jnp.floating):
        unsigned = f"uint{FORMATS[one.dtype.name].bits}"
        one, other = (lax.bitcast_convert_type(x, unsigned) for x in (one, other))
    return jnp.array_equal(one, other)
