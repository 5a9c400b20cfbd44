"""The schemas as they travel inside the package: the text of each, by name."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

COMMON: Final = "common"
"""The shared definitions, which are no record."""
META: Final = "meta"
"""The meta-schema of firstnan's own keywords."""


def kinds() -> list[str]:
    """The kinds of record that `decode` takes, sorted."""
    names = (entry.name for entry in _folder().joinpath("v1").iterdir())
    return sorted(name.removesuffix(".json") for name in names if name.endswith(".json") and name != f"{COMMON}.json")


def schema_text(name: str) -> str:
    """The JSON text of one schema: a kind of record, `COMMON` or `META`.

    Raises:
        KeyError: there is no such schema.
    """
    if name == META:
        return _folder().joinpath("meta/record.json").read_text(encoding="utf-8")
    if name != COMMON and name not in kinds():
        raise KeyError(name)
    return _folder().joinpath(f"v1/{name}.json").read_text(encoding="utf-8")


def bundle_text() -> str:
    """The JSON text of every schema in one file, its rules listed by kind and path."""
    return _folder().joinpath("bundle.json").read_text(encoding="utf-8")


def _folder() -> Traversable:
    return resources.files("firstnan").joinpath("schemas")
