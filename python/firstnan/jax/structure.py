"""Pytrees as plain data: leaves as tensors and numbers, containers as a list of nodes. No pickle, no code.

A tree is rebuilt in one of two ways. From a template (`like=`), any pytree at all: its leaves are matched by path. By
itself, a tree of dict, OrderedDict, list, tuple, None, NamedTuples and dataclasses registered with JAX: a class is
looked up by its name among the modules already imported, so that opening a stranger's bundle runs nothing of the
stranger's choosing (`savedclasses`).
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import OrderedDict
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from firstnan import ContractError
from firstnan.jax.formats import numpy_dtype
from firstnan.jax.paths import leaf_path
from firstnan.jax.savedclasses import build_dataclass, build_namedtuple
from firstnan.jax.savedform import check_saved_tree, is_plain_key, is_plain_static
from firstnan.jax.tensorfile import Array
from firstnan.jax.tensorheader import MAX_AXES, is_shape, stored_form
from firstnan.printable import printable

_PYTHON_VALUES: Final = {"bool": bool, "int": int, "float": float, "complex": complex, "str": str}
_NUMBERED: Final = re.compile(r".*#[0-9]+", re.DOTALL | re.ASCII)
_ELSEWHERE: Final = "other processes hold part of it, so take it from a checkpoint of the step, or let the step replicate it"
_DECIMAL_BITS: Final = 2_000  # within the 640 digits that Python turns to text and back whatever its limit is set to
_MAX_INT_BITS: Final = 1 << 20


def pack(tree: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """A pytree as a JSON object, `{"leaves": […], "nodes": […]}`, and the tensors that it names.

    A leaf that has no bytes here (an object, an array that other processes hold part of) is recorded as `absent` with
    the reason; only a template can fill it in. An array that several processes hold whole is saved by each.

    Raises:
        ContractError: a leaf was donated, so its bytes are gone.
    """
    leaves: list[dict[str, Any]] = []
    tensors: dict[str, Array] = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        name = leaf_path(path)
        description, tensor = _describe_leaf(leaf, name)
        if tensor is not None:
            key = _tensor_name(name, len(leaves), tensors)
            description["tensor"] = key
            tensors[key] = tensor
        leaves.append({"path": name} | description)
    return {"leaves": leaves, "nodes": _describe_nodes(tree)}, tensors


def _tensor_name(path: str, number: int, taken: dict[str, Array]) -> str:
    """A name in the tensor file for the leaf of that number: its path (`.` for the root), numbered where it must be.

    No two leaves get the same. A name that ends in `#` and digits was numbered, since a path that ends so is numbered
    too; after its last `#` stands the leaf's number, which no other leaf has. A name that does not end so is a path
    that was not taken.
    """
    name = path or "."
    if name in taken or name == "__metadata__" or _NUMBERED.fullmatch(name):
        return f"{name}#{number}"
    return name


def unpack(
    structure: Any,
    tensors: dict[str, Array],
    *,
    like: Any = None,
    import_types: bool = False,
    place: str = "the saved tree: ",
) -> Any:
    """The pytree that `pack` took apart.

    Args:
        structure: what `pack` gave; a stranger's JSON value is checked whole before anything is made of it.
        tensors: what `pack` gave, as read back.
        like: a pytree of the same paths, of arrays or `jax.ShapeDtypeStruct`s; its containers are used, and the
            sharding of its JAX arrays.
        import_types: import the modules that the structure names. It runs their code: for bundles you trust.
        place: begins the message about a damaged field, as its file and the pointer to `structure`.

    Raises:
        ContractError: the structure is damaged, does not match `like`, or has a part that only `like` can rebuild.
    """
    forms = {name: stored_form(tensor.dtype.name, tensor.shape) for name, tensor in tensors.items()}
    check_saved_tree(structure, forms, place)
    if like is not None:
        return _fill_template(structure["leaves"], tensors, like)
    leaves = [_restore_leaf(leaf, tensors) for leaf in structure["leaves"]]
    return _build_nodes(structure["nodes"], leaves, import_types)


def _describe_leaf(leaf: Any, path: str) -> tuple[dict[str, Any], Array | None]:
    if isinstance(leaf, jax.Array | np.ndarray) and not is_shape([*leaf.shape]):
        return {"kind": "absent", "reason": f"an array of more than {MAX_AXES} axes has no portable form"}, None
    if isinstance(leaf, jax.Array):
        if leaf.is_deleted():
            raise ContractError(f"leaf {path!r} was donated to a computation, so its bytes are gone")
        if not leaf.is_fully_addressable:
            # Typed keys cannot be put back on devices of other processes (JAX 0.10's device_put).
            if not leaf.is_fully_replicated or jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
                return {"kind": "absent", "reason": _ELSEWHERE, "shape": [*leaf.shape]}, None
            # Each process has all of it: on any of its devices.
            leaf = leaf.addressable_data(0)
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return {"kind": "key", "impl": str(jax.random.key_impl(leaf))}, np.asarray(jax.random.key_data(leaf))
        array = np.asarray(leaf)
        return _describe_array("jax", array) | {"weak_type": bool(leaf.weak_type)}, array
    if isinstance(leaf, np.ndarray | np.generic):
        array = np.asarray(leaf)
        if array.dtype == jax.dtypes.float0:
            return {"kind": "float0", "shape": [*array.shape]}, None
        if _has_numpy_dtype(array) and type(leaf) is np.ndarray:
            return _describe_array("numpy", array), array
        if _has_numpy_dtype(array) and isinstance(leaf, np.generic):
            return _describe_array("scalar", array), array
    name = type(leaf).__name__
    if type(leaf) is float:
        return {"kind": "python", "type": name, "value": leaf.hex()}, None
    if type(leaf) is int and leaf.bit_length() > _DECIMAL_BITS:
        if leaf.bit_length() > _MAX_INT_BITS:
            return {"kind": "absent", "reason": f"an int of more than {_MAX_INT_BITS} bits has no portable form"}, None
        return {"kind": "python", "type": name, "value": hex(leaf)}, None
    if type(leaf) is _PYTHON_VALUES.get(name):
        return {"kind": "python", "type": name, "value": str(leaf)}, None
    return {"kind": "absent", "reason": f"a {name} has no portable form"}, None


def _has_numpy_dtype(array: Array) -> bool:
    try:
        return numpy_dtype(array.dtype.name).newbyteorder("=") == array.dtype.newbyteorder("=")
    except KeyError:
        return False


def _describe_array(kind: str, array: Array) -> dict[str, Any]:
    return {"kind": kind, "dtype": array.dtype.name, "shape": [*array.shape]}


def _restore_leaf(leaf: dict[str, Any], tensors: dict[str, Array]) -> Any:
    kind = leaf["kind"]
    if kind == "python":
        return _python_value(leaf["type"], leaf["value"])
    if kind == "float0":
        return np.zeros(leaf["shape"], jax.dtypes.float0)
    if kind == "absent":
        return _Absent(leaf["path"], leaf["reason"])
    tensor = tensors[leaf["tensor"]]
    if kind == "key":
        try:
            return jax.random.wrap_key_data(jnp.asarray(tensor), impl=leaf["impl"])
        except (ValueError, TypeError):
            raise ContractError(
                f"leaf {leaf['path']!r} is a key of {printable(leaf['impl'])}: JAX has no such keys of that many words"
            ) from None
    dtype = numpy_dtype(leaf["dtype"])
    if tensor.dtype != dtype:
        tensor = tensor.view(dtype)
    array = tensor.reshape(leaf["shape"])
    if kind == "numpy":
        return array
    if kind == "scalar":
        return array[()]
    restored = jnp.asarray(array.item()) if leaf["weak_type"] and not leaf["shape"] else jnp.asarray(array)
    restored = restored if restored.dtype == dtype else jnp.asarray(array)
    if restored.dtype != dtype:
        raise ContractError(f"leaf {leaf['path']!r} is {leaf['dtype']}: set jax_enable_x64 to read it")
    return restored


def _python_value(name: str, text: str) -> Any:
    if name == "float":
        return float.fromhex(text)
    if name == "int":
        return int(text, 16 if "x" in text else 10)
    return text == "True" if name == "bool" else _PYTHON_VALUES[name](text)


@dataclasses.dataclass(frozen=True)
class _Absent:
    path: str
    reason: str


def _fill_template(leaves: list[dict[str, Any]], tensors: dict[str, Array], like: Any) -> Any:
    wanted, treedef = jax.tree_util.tree_flatten_with_path(like)
    for stored, (path, _) in zip(leaves, wanted, strict=False):
        if stored["path"] != leaf_path(path):
            raise ContractError(f"the saved tree has leaf {stored['path']!r} where `like` has {leaf_path(path)!r}")
    if len(leaves) != len(wanted):
        raise ContractError(f"the saved tree has {len(leaves)} leaves and `like` has {len(wanted)}")
    filled = [
        _fit(_restore_leaf(leaf, tensors), wanted_leaf, leaf["path"])
        for leaf, (_, wanted_leaf) in zip(leaves, wanted, strict=True)
    ]
    return jax.tree_util.tree_unflatten(treedef, filled)


def _fit(leaf: Any, wanted: Any, path: str) -> Any:
    if isinstance(leaf, _Absent):
        if isinstance(wanted, jax.ShapeDtypeStruct):
            raise ContractError(f"leaf {path!r} is not in the bundle ({printable(leaf.reason)}) and `like` has no value for it")
        return wanted
    form = (np.shape(leaf), getattr(leaf, "dtype", None))
    if hasattr(wanted, "dtype") and form != (np.shape(wanted), wanted.dtype):
        raise ContractError(f"leaf {path!r} was saved as {form[1]}{form[0]}, not as `like` has it")
    return jax.device_put(leaf, wanted.sharding) if isinstance(wanted, jax.Array) else leaf


def _describe_nodes(tree: Any) -> list[dict[str, Any]]:
    """The containers and leaves in the order of a walk, parents first; a stack of our own, as deep as JAX can flatten."""
    nodes: list[dict[str, Any]] = []
    leaves = itertools.count()
    waiting: list[tuple[Any, list[int]]] = [(tree, [])]
    while waiting:
        part, siblings = waiting.pop()
        siblings.append(len(nodes))
        children = jax.tree_util.tree_flatten_with_path(part, is_leaf=lambda inner, part=part: inner is not part)[0]
        if len(children) == 1 and children[0][0] == ():
            nodes.append({"kind": "leaf", "leaf": next(leaves)})
            continue
        numbers: list[int] = []
        nodes.append(_describe_container(part, [path[0] for path, _ in children]) | {"children": numbers})
        waiting += [(child, numbers) for _, child in reversed(children)]
    return nodes


def _describe_container(tree: Any, keys: list[Any]) -> dict[str, Any]:
    kind = type(tree)
    if tree is None:
        return {"kind": "none"}
    if kind is list or kind is tuple:
        return {"kind": kind.__name__}
    if kind is dict or kind is OrderedDict:
        names = [key.key for key in keys]
        if all(map(is_plain_key, names)):
            return {"kind": "dict" if kind is dict else "ordered_dict", "keys": names, "order": list(tree)}
    name = f"{kind.__module__}:{kind.__qualname__}"
    fields = [key.name for key in keys if isinstance(key, jax.tree_util.GetAttrKey)]
    if len(fields) < len(keys):
        return {"kind": "opaque", "type": name}
    if isinstance(tree, tuple) and [*getattr(tree, "_fields", ())] == fields:
        return {"kind": "namedtuple", "type": name, "fields": fields}
    if dataclasses.is_dataclass(kind):
        declared = {field.name for field in dataclasses.fields(kind)}
        static = {field: getattr(tree, field, ...) for field in sorted(declared.difference(fields))}
        if declared.issuperset(fields) and is_plain_static(static):
            return {"kind": "dataclass", "type": name, "fields": fields, "static": static}
    return {"kind": "opaque", "type": name}


def _build_nodes(nodes: list[dict[str, Any]], leaves: list[Any], import_types: bool) -> Any:
    built: dict[int, Any] = {}
    for number in range(len(nodes) - 1, -1, -1):
        node = nodes[number]
        if node["kind"] == "leaf":
            built[number] = leaves[node["leaf"]]
            absent = built[number]
            if type(absent) is _Absent:
                raise ContractError(f"leaf {absent.path!r} is not in the bundle ({printable(absent.reason)}): give `like`")
            continue
        children = [built.pop(child) for child in node["children"]]
        built[number] = _build_container(node, children, import_types)
    return built[0]


def _build_container(node: dict[str, Any], children: list[Any], import_types: bool) -> Any:
    kind = node["kind"]
    if kind == "none":
        return None
    if kind in ("list", "tuple"):
        return children if kind == "list" else tuple(children)
    if kind in ("dict", "ordered_dict"):
        items = dict(zip(node["keys"], children, strict=True))
        ordered = {key: items[key] for key in node["order"]}
        return ordered if kind == "dict" else OrderedDict(ordered)
    name = node["type"]
    if kind == "opaque":
        raise ContractError(f"the saved tree has a {printable(name)}, which only a template rebuilds: give `like`")
    if kind == "namedtuple":
        return build_namedtuple(name, node["fields"], children, import_types)
    return build_dataclass(name, dict(zip(node["fields"], children, strict=True)) | node["static"], import_types)
