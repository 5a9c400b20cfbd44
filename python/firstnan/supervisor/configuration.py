"""What a worker is asked, as plain JSON."""

from __future__ import annotations

import dataclasses
from typing import Any

from firstnan.errors import ContractError
from firstnan.records import WorkerConfiguration


def default_config(**changes: Any) -> dict[str, Any]:
    """A whole worker configuration: the defaults of `WorkerConfiguration` with these fields changed.

    Raises:
        ContractError: an unknown name, or a value out of its bounds.
    """
    names = [field.name for field in dataclasses.fields(WorkerConfiguration)]
    if not changes.keys() <= set(names):
        raise ContractError("no such field of a worker configuration")
    return dataclasses.asdict(WorkerConfiguration(**changes))
