"""Names of leaves: the path through a pytree as text."""

from __future__ import annotations

from typing import Any

from jax.tree_util import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey


def leaf_path(path: tuple[Any, ...]) -> str:
    """`params/dense/kernel` for a key path of JAX; a key's own `~` and `/` become `~0` and `~1`, as in a JSON Pointer.

    The root itself, a stage that is one array, has the empty path.
    """
    return "/".join(map(path_part, path))


def path_part(entry: Any) -> str:
    """One key of a path as text."""
    value: object = entry
    if isinstance(entry, GetAttrKey):
        value = entry.name
    elif isinstance(entry, SequenceKey):
        value = entry.idx
    elif isinstance(entry, DictKey | FlattenedIndexKey):
        value = entry.key
    try:
        text = str(value)
    except ValueError:
        # An int of more digits than Python turns to decimal text.
        text = hex(value) if isinstance(value, int) else type(value).__name__
    return text.replace("~", "~0").replace("/", "~1")
