"""Pytrees as plain data: leaves as tensors and numbers, containers as a list of nodes. No pickle, no code.

A tree is rebuilt in one of two ways. From a template (`like=`), any pytree at all: its leaves are matched by path. By
itself, a tree of dict, OrderedDict, list, tuple, None, NamedTuples and dataclasses: a class is looked up by its name
among the modules already imported, so that opening a stranger's bundle runs nothing of the stranger's choosing.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections import OrderedDict
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from firstnan import ContractError
from firstnan.jax.formats import numpy_dtype
from firstnan.jax.paths import leaf_path
from firstnan.jax.tensorfile import Array

_PYTHON_VALUES: Final = {"bool": bool, "int": int, "float": float, "complex": complex, "str": str}


def pack(tree: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """A pytree as a JSON object, `{"leaves": […], "nodes": […]}`, and the tensors that it names.

    A leaf that has no bytes here (an object, an array that other processes hold part of) is recorded as `absent` with
    the reason; only a template can fill it in.

    Raises:
        ContractError: a leaf was donated, so its bytes are gone.
    """
    leaves: list[dict[str, Any]] = []
    tensors: dict[str, Array] = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        name = leaf_path(path)
        description, tensor = _describe_leaf(leaf, name)
        if tensor is not None:
            key = name or "."
            if key in tensors or key == "__metadata__":
                key = f"{key}#{len(leaves)}"
            description["tensor"] = key
            tensors[key] = tensor
        leaves.append({"path": name} | description)
    nodes: list[dict[str, Any]] = []
    _add_nodes(tree, nodes, iter(range(len(leaves))))
    return {"leaves": leaves, "nodes": nodes}, tensors


def unpack(structure: dict[str, Any], tensors: dict[str, Array], *, like: Any = None, import_types: bool = False) -> Any:
    """The pytree that `pack` took apart.

    Args:
        structure: what `pack` gave.
        tensors: what `pack` gave, as read back.
        like: a pytree of the same paths, of arrays or `jax.ShapeDtypeStruct`s; its containers are used, and the
            sharding of its JAX arrays.
        import_types: import the modules that the structure names. It runs their code: for bundles you trust.

    Raises:
        ContractError: the structure is damaged, does not match `like`, or has a part that only `like` can rebuild.
    """
    try:
        if like is not None:
            return _fill_template(structure["leaves"], tensors, like)
        leaves = [_restore_leaf(leaf, tensors) for leaf in structure["leaves"]]
        return _build_nodes(structure["nodes"], leaves, import_types)
    except ContractError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        raise ContractError(f"the structure of the saved tree is damaged ({type(error).__name__})") from None


def _describe_leaf(leaf: Any, path: str) -> tuple[dict[str, Any], Array | None]:
    if isinstance(leaf, jax.Array):
        if leaf.is_deleted():
            raise ContractError(f"leaf {path!r} was donated to a computation, so its bytes are gone")
        if not leaf.is_fully_addressable:
            return {"kind": "absent", "reason": "other processes hold part of it", "shape": [*leaf.shape]}, None
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
        return jax.random.wrap_key_data(jnp.asarray(tensor), impl=leaf["impl"])
    dtype = numpy_dtype(leaf["dtype"])
    if tensor.dtype != dtype:
        tensor = tensor.view(dtype)
    array = tensor.reshape(leaf["shape"])
    if kind == "numpy":
        return array
    if kind == "scalar":
        return array[()]
    if kind != "jax":
        raise KeyError(kind)
    restored = jnp.asarray(array.item()) if leaf["weak_type"] and not leaf["shape"] else jnp.asarray(array)
    restored = restored if restored.dtype == dtype else jnp.asarray(array)
    if restored.dtype != dtype:
        raise ContractError(f"leaf {leaf['path']!r} is {leaf['dtype']}: set jax_enable_x64 to read it")
    return restored


def _python_value(name: str, text: str) -> Any:
    if name == "float":
        return float.fromhex(text)
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
            raise ContractError(f"leaf {path!r} is not in the bundle ({leaf.reason}) and `like` has no value for it")
        return wanted
    form = (np.shape(leaf), getattr(leaf, "dtype", None))
    if hasattr(wanted, "dtype") and form != (np.shape(wanted), wanted.dtype):
        raise ContractError(f"leaf {path!r} was saved as {form[1]}{form[0]}, not as `like` has it")
    return jax.device_put(leaf, wanted.sharding) if isinstance(wanted, jax.Array) else leaf


def _add_nodes(tree: Any, nodes: list[dict[str, Any]], leaf_numbers: Any) -> int:
    number = len(nodes)
    node: dict[str, Any] = {}
    nodes.append(node)
    children = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda part: part is not tree)[0]
    if len(children) == 1 and children[0][0] == ():
        node |= {"kind": "leaf", "leaf": next(leaf_numbers)}
        return number
    node |= _describe_container(tree, [path[0] for path, _ in children])
    node["children"] = [_add_nodes(child, nodes, leaf_numbers) for _, child in children]
    return number


def _describe_container(tree: Any, keys: list[Any]) -> dict[str, Any]:
    kind = type(tree)
    if tree is None:
        return {"kind": "none"}
    if kind is list or kind is tuple:
        return {"kind": kind.__name__}
    if kind is dict or kind is OrderedDict:
        names = [key.key for key in keys]
        if all(type(name) in (str, int, bool) for name in names):
            return {"kind": "dict" if kind is dict else "ordered_dict", "keys": names, "order": list(tree)}
    name = f"{kind.__module__}:{kind.__qualname__}"
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return {"kind": "namedtuple", "type": name, "fields": [*tree._fields]}
    if dataclasses.is_dataclass(kind) and all(isinstance(key, jax.tree_util.GetAttrKey) for key in keys):
        names = [key.name for key in keys]
        fields = {field.name for field in dataclasses.fields(kind)}
        static = {field: getattr(tree, field, ...) for field in sorted(fields.difference(names))}
        if fields.issuperset(names) and all(type(value) in (str, int, bool, type(None)) for value in static.values()):
            return {"kind": "dataclass", "type": name, "fields": names, "static": static}
    return {"kind": "opaque", "type": name}


def _build_nodes(nodes: list[dict[str, Any]], leaves: list[Any], import_types: bool) -> Any:
    built: dict[int, Any] = {}
    for number in range(len(nodes) - 1, -1, -1):
        node = nodes[number]
        if node["kind"] == "leaf":
            built[number] = leaves[node["leaf"]]
            if isinstance(absent := built[number], _Absent):
                raise ContractError(f"leaf {absent.path!r} is not in the bundle ({absent.reason}): give `like`")
            continue
        # A child stands after its parent and is taken once, so no cycle can be written down.
        children = [built.pop(child) for child in node["children"]]
        built[number] = _build_container(node, children, import_types)
    if set(built) != {0}:
        raise KeyError
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
    if kind == "opaque":
        raise ContractError(f"the saved tree has a {node['type']}, which only a template rebuilds: give `like`")
    cls = _find_class(node["type"], import_types)
    if kind == "namedtuple":
        if not (issubclass(cls, tuple) and list(getattr(cls, "_fields", ())) == node["fields"]):
            raise ContractError(f"{node['type']} is no longer a NamedTuple of the same fields: give `like`")
        return tuple.__new__(cls, children)
    values = dict(zip(node["fields"], children, strict=True)) | node["static"]
    if kind != "dataclass" or not dataclasses.is_dataclass(cls):
        raise KeyError(kind)
    if {field.name for field in dataclasses.fields(cls)} != set(values):
        raise ContractError(f"{node['type']} no longer has the same fields: give `like`")
    # As JAX's own unflattening may: no __init__ of the class runs on values from a file.
    instance = object.__new__(cls)
    for name, value in values.items():
        object.__setattr__(instance, name, value)
    return instance


def _find_class(name: str, import_types: bool) -> type:
    module_name, _, qualname = name.partition(":")
    module = importlib.import_module(module_name) if import_types else sys.modules.get(module_name)
    if module is None:
        raise ContractError(f"the saved tree has a {name}: import {module_name} first, or give `like`")
    found: Any = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise ContractError(f"the saved tree has a {name}, which {module_name} does not define: give `like`")
    return found
