"""Checking the form of a JSON object that was read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firstnan import ContractError


def checked_fields(value: Any, kinds: Mapping[str, tuple[type, ...]]) -> dict[str, Any]:
    """The object itself, if it has exactly these names with values of exactly these types (bool is no int), none of
    them a negative integer.

    Raises:
        ContractError: it does not; the name is given, the value never.
    """
    if not isinstance(value, dict) or value.keys() != kinds.keys():
        raise ContractError(f"an object must have exactly the names {', '.join(kinds)}")
    for name, allowed in kinds.items():
        if type(value[name]) not in allowed or (type(value[name]) is int and value[name] < 0):
            raise ContractError(f"/{name} must be {' or '.join(kind.__name__ for kind in allowed)}, and not negative")
    return value
