"""The form of a saved tree in structure.json, and whether it fits the tensors beside it. Needs neither jax nor numpy.

What `structure.pack` writes passes here, and what passes here can be rebuilt with no other question than whether its
classes are still what they were. So a stranger's file is refused by the field that is wrong, before anything is built.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from firstnan import ContractError
from firstnan.jax.formats import COMPLEX_PARTS, FORMATS, INTEGERS
from firstnan.jax.tensorheader import SHAPE_BOUND, header_place, is_shape, stored_form

MAX_KEY_BITS: Final = 1000
"""The most bits of an int that is a key or a static field: strict JSON has no number beyond binary64."""

Stored = tuple[str, tuple[int, ...]]
"""The format's dtype and the shape of a tensor as stored."""

_COMMON: Final = {"kind": str, "path": str}
_LEAVES: Final[dict[str, dict[str, type]]] = {
    "python": {"type": str, "value": str},
    "float0": {"shape": list},
    "absent": {"reason": str},
    "key": {"impl": str, "tensor": str},
    "jax": {"dtype": str, "shape": list, "weak_type": bool, "tensor": str},
    "numpy": {"dtype": str, "shape": list, "tensor": str},
    "scalar": {"dtype": str, "shape": list, "tensor": str},
}
_NODES: Final[dict[str, dict[str, type]]] = {
    "leaf": {"leaf": int},
    "none": {"children": list},
    "list": {"children": list},
    "tuple": {"children": list},
    "dict": {"keys": list, "order": list, "children": list},
    "ordered_dict": {"keys": list, "order": list, "children": list},
    "namedtuple": {"type": str, "fields": list, "children": list},
    "dataclass": {"type": str, "fields": list, "static": dict, "children": list},
    "opaque": {"type": str, "children": list},
}
# As `float.hex` writes it: exponents from -1022 to +1023.
_FLOAT: Final = re.compile(r"-?0x[01]\.[0-9a-f]{1,13}p(?:[+-][0-9]{1,3}|[+-]10[01][0-9]|[+-]102[0-2]|\+1023)|nan|-?inf", re.ASCII)
_PART: Final = r"[+-]?(?:[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?|inf|nan)"
_VALUES: Final = {
    "bool": re.compile("True|False"),
    # In decimal as far as Python reads it whatever its limit; longer ones in hexadecimal, which takes linear time.
    "int": re.compile(r"-?(?:[0-9]{1,640}|0x[0-9a-f]{1,262144})", re.ASCII),
    "float": _FLOAT,
    "complex": re.compile(rf"\((?:{_PART})?{_PART}j\)|{_PART}j", re.ASCII),
    "str": re.compile(".*", re.DOTALL),
}
_TYPE: Final = re.compile(r"[^:]{1,1000}:[^:]{1,1000}", re.DOTALL)


class SavedTreeMismatch(ContractError):
    """A saved tree is of the right form, and not the one of the tensors beside it."""


def check_saved_tree(tree: Any, tensors: Mapping[str, Stored], place: str) -> None:
    """Refuses a saved tree that `pack` does not write, or that does not fit its tensors.

    Args:
        tree: the JSON value.
        tensors: the form of each tensor beside it; the leaves must name each of them once.
        place: begins each message, such as `structure.json: /state`.

    Raises:
        ContractError: names the field and what it must be.
        SavedTreeMismatch: likewise, where it is the tensors that say otherwise.
    """
    _members(tree, {"leaves": list, "nodes": list}, place)
    unnamed = dict(tensors)
    for number, leaf in enumerate(tree["leaves"]):
        _check_leaf(leaf, unnamed, f"{place}/leaves/{number}")
    if unnamed:
        raise SavedTreeMismatch(f"{place}/leaves must name every tensor, and none names {header_place(min(unnamed))}")
    _check_nodes(tree["nodes"], len(tree["leaves"]), f"{place}/nodes")


def _members(value: Any, kinds: Mapping[str, type], place: str, optional: str = "") -> None:
    if not isinstance(value, dict) or value.keys() - {optional} != kinds.keys():
        raise ContractError(f"{place} must be an object of exactly the names {', '.join(kinds)}")
    for name, kind in kinds.items():
        if type(value[name]) is not kind:
            raise ContractError(f"{place}/{name} must be a {kind.__name__}")


def _kind(value: Any, kinds: Mapping[str, Any], place: str) -> str:
    kind = value.get("kind") if isinstance(value, dict) else None
    if type(kind) is not str or kind not in kinds:
        raise ContractError(f"{place}/kind must be one of {', '.join(kinds)}")
    return kind


def _check_leaf(leaf: Any, unnamed: dict[str, Stored], place: str) -> None:
    kind = _kind(leaf, _LEAVES, place)
    _members(leaf, _COMMON | _LEAVES[kind], place, optional="shape" if kind == "absent" else "")
    if kind == "python":
        if leaf["type"] not in _VALUES:
            raise ContractError(f"{place}/type must be one of {', '.join(_VALUES)}")
        if not _VALUES[leaf["type"]].fullmatch(leaf["value"]):
            raise ContractError(f"{place}/value must be the text of a {leaf['type']}")
    if "shape" in leaf and not is_shape(leaf["shape"]):
        raise ContractError(f"{place}/shape {SHAPE_BOUND}")
    if "dtype" in leaf and leaf["dtype"] not in FORMATS.keys() | COMPLEX_PARTS.keys() | INTEGERS:
        raise ContractError(f"{place}/dtype must be the name of a number's dtype")
    if kind == "scalar" and leaf["shape"]:
        raise ContractError(f"{place}/shape must be empty for a scalar")
    if "tensor" in leaf:
        stored = unnamed.pop(leaf["tensor"], None)
        if stored is None:
            raise SavedTreeMismatch(f"{place}/tensor must name a tensor of the file that no leaf before it names")
        if "dtype" in leaf and stored != stored_form(leaf["dtype"], tuple(leaf["shape"])):
            raise SavedTreeMismatch(f"{place}/dtype and /shape must be those of its tensor")
        # The words of a key are uint32 along the last axis; how many, its implementation says.
        if kind == "key" and (stored[0] != "U32" or not stored[1]):
            raise SavedTreeMismatch(f"{place}/tensor must name the words of a key: U32, with an axis")


def _check_nodes(nodes: list[Any], leaves: int, place: str) -> None:
    if not nodes:
        raise ContractError(f"{place} must not be empty: the first is the root")
    used = 0
    for number, node in enumerate(nodes):
        here = f"{place}/{number}"
        kind = _kind(node, _NODES, here)
        _members(node, {"kind": str} | _NODES[kind], here)
        if kind != "leaf":
            _check_container(kind, node, here)
        elif node["leaf"] != used or used >= leaves:
            raise ContractError(f"{here}/leaf must be {used}, of {leaves} leaves: they stand in the order of the walk")
        else:
            used += 1
    if used != leaves:
        raise ContractError(f"{place} must hold each of the {leaves} leaves once")
    # In the order of a walk the first child follows its parent, and each other what its elder brother ends with: so the
    # nodes are one tree, and no cycle can be written down.
    last = list(range(len(nodes)))
    for number in range(len(nodes) - 1, -1, -1):
        for child in nodes[number].get("children", ()):
            if type(child) is not int or child != last[number] + 1 or child >= len(nodes):
                raise ContractError(f"{place}/{number}/children must be the nodes that follow it in the order of a walk")
            last[number] = last[child]
    if last[0] != len(nodes) - 1:
        raise ContractError(f"{place} must each be the child of a node, but for the first")


def _check_container(kind: str, node: dict[str, Any], place: str) -> None:
    children = len(node["children"])
    if kind == "none" and children:
        raise ContractError(f"{place}/children must be empty for a none")
    if kind in ("dict", "ordered_dict"):
        keys = node["keys"]
        if not all(is_plain_key(key) for key in keys) or len(set(keys)) != len(keys) or len(keys) != children:
            raise ContractError(f"{place}/keys must be as many distinct strings, integers or booleans as children")
        if not all(map(is_plain_key, node["order"])) or sorted(map(_typed, keys)) != sorted(map(_typed, node["order"])):
            raise ContractError(f"{place}/order must hold exactly the keys")
    if "type" in node and not _TYPE.fullmatch(node["type"]):
        raise ContractError(f"{place}/type must be a module and a class, as module:name")
    if "fields" in node:
        fields = node["fields"]
        if any(type(name) is not str for name in fields) or len(set(fields)) != len(fields) or len(fields) != children:
            raise ContractError(f"{place}/fields must be as many distinct names as children")
    if "static" in node and (not node["static"].keys().isdisjoint(node["fields"]) or not is_plain_static(node["static"])):
        raise ContractError(f"{place}/static must hold strings, integers, booleans or null, under names not in fields")


def is_plain_key(key: object) -> bool:
    """Whether a dict's key can be written down: text, a bool, or an int within MAX_KEY_BITS."""
    return type(key) in (str, bool) or (type(key) is int and key.bit_length() <= MAX_KEY_BITS)


def is_plain_static(static: Mapping[str, object]) -> bool:
    """Whether the fields of a dataclass that are no leaves can be written down."""
    return all(value is None or is_plain_key(value) for value in static.values())


def _typed(key: object) -> tuple[str, str]:
    return type(key).__name__, str(key)
