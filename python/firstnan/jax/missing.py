"""The error where the packages of the extra `firstnan[jax]` are not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_PACKAGES = ("jax", "jaxlib", "numpy", "ml_dtypes")


@contextmanager
def needs_jax(what: str) -> Iterator[None]:
    """Says which extra brings what an import inside it lacks.

    Raises:
        ImportError: one of the extra's packages is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise ImportError(f"{what} needs {error.name}: pip install 'firstnan[jax]'", name=error.name) from error
