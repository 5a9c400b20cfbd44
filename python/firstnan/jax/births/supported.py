"""The versions of JAX whose jaxprs `locate` can walk.

It reads the names and parameters of primitives, which JAX changes from one minor version to the next without notice; the
bounds are those of the extra `firstnan[jax]`.
"""

from __future__ import annotations

import jax

OLDEST, FIRST_UNKNOWN = (0, 10), (0, 11)


def require_supported_jax() -> None:
    """Refuses a JAX that another installer put in place of the extra's: a primitive read wrongly would be a wrong line.

    Raises:
        ImportError: the version is outside the bounds.
    """
    if not OLDEST <= jax.__version_info__[:2] < FIRST_UNKNOWN:
        bounds = f"jax >={'.'.join(map(str, OLDEST))},<{'.'.join(map(str, FIRST_UNKNOWN))}"
        raise ImportError(f"locate needs {bounds}, and this is {jax.__version__}: pip install 'firstnan[jax]'", name="jax")
