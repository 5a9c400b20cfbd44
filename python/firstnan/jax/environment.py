"""What a replay needs to know of the machine: versions, platform and flags. No host name, user or path."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from typing import Any

import jax
import ml_dtypes
import numpy as np

# Settings of JAX that can change a computed value.
_NUMERIC_SETTINGS = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_numpy_dtype_promotion",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_debug_nans",
    "jax_debug_infs",
    "jax_disable_jit",
    "jax_softmax_custom_jvp",
    "jax_allow_f16_reductions",
    "jax_disable_most_optimizations",
)


def describe_environment() -> dict[str, Any]:
    """A JSON object of versions, devices and settings. The value of an XLA flag that looks like a path is left out."""
    devices = jax.devices()
    return {
        "python": platform.python_version(),
        "jax": jax.__version__,
        "jaxlib": version("jaxlib"),
        "numpy": np.__version__,
        "ml_dtypes": ml_dtypes.__version__,
        "system": platform.system(),
        "machine": platform.machine(),
        "platform": devices[0].platform,
        "device_kind": devices[0].device_kind,
        "device_count": len(devices),
        "process_count": jax.process_count(),
        "settings": {name: _plain(getattr(jax.config, name, None)) for name in _NUMERIC_SETTINGS},
        "xla_flags": [_without_path(flag) for flag in os.environ.get("XLA_FLAGS", "").split()],
    }


def _plain(value: object) -> bool | str | None:
    return value if value is None or isinstance(value, bool) else str(value)


def _without_path(flag: str) -> str:
    name, _, value = flag.partition("=")
    return f"{name}=(path)" if os.sep in value or "/" in value else flag
