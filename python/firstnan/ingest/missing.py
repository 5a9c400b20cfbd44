"""The libraries of the extra `ingest`, imported when they are needed."""

from __future__ import annotations

import importlib
from typing import Any


def needed(module: str) -> Any:
    """The module, or an error that says how to install it.

    Raises:
        ModuleNotFoundError: the extra is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        top = module.split(".")[0]
        if error.name is None or error.name.split(".")[0] != top:
            raise
        message = f"firstnan.ingest needs {top}; install it with: pip install 'firstnan[ingest]'"
        raise ModuleNotFoundError(message, name=error.name) from None
