"""What a worker is asked, as plain JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from firstnan.arguments import refused_argument, shown_name
from firstnan.errors import ContractError
from firstnan.records import WorkerConfiguration


def default_config(**changes: Any) -> dict[str, Any]:
    """A whole worker configuration: the defaults of `WorkerConfiguration` with these fields changed.

    Raises:
        ContractError: an unknown name, or a value out of its bounds.
    """
    return asked_of_worker(changes)


def asked_of_worker(changes: object) -> dict[str, Any]:
    """The whole configuration from a mapping of the fields that differ from the defaults; None is no difference.

    Raises:
        ContractError: it is no mapping, has an unknown name, or a value is out of its bounds.
    """
    if changes is None:
        changes = {}
    if not isinstance(changes, Mapping):
        raise refused_argument("config", "type", "has the wrong type", "mapping")
    given = dict(changes)
    names = {field.name for field in dataclasses.fields(WorkerConfiguration)}
    for name in given:
        if name not in names:
            shown = shown_name(name)
            raise ContractError(
                f"worker-configuration: /{shown} is not a name of this record",
                kind="unknown_name",
                layer="shape",
                pointer=f"/{shown}",
                record="worker-configuration",
            )
    return dataclasses.asdict(WorkerConfiguration(**given))
