"""Classes named in a saved tree: looked up and filled without running anything of theirs.

A stranger's file names the class, so a look-up must be one of data only. `getattr` on a module may call its
`__getattr__`, which may import; on a class, a descriptor or a hook of its metaclass. Here the dictionaries themselves
are read, through the slots of `module` and `type`, which nothing can override.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from types import GetSetDescriptorType, MemberDescriptorType, ModuleType, SimpleNamespace
from typing import Any, Final, cast

import jax

from firstnan import ContractError
from firstnan.printable import printable

_MODULE_DICT: Final = cast("MemberDescriptorType", vars(ModuleType)["__dict__"])
_CLASS_DICT: Final = cast("GetSetDescriptorType", vars(type)["__dict__"])
_CLASS_MRO: Final = cast("MemberDescriptorType", vars(type)["__mro__"])
_MISSING: Final = object()


def build_namedtuple(name: str, fields: list[str], children: list[Any], import_types: bool) -> Any:
    """A NamedTuple of the class `module:name`, if it still has those fields.

    Raises:
        ContractError: there is no such class, or it is another.
    """
    cls = _find_class(name, import_types)
    declared = _static_attribute(cls, "_fields") if issubclass(cls, tuple) else None
    if type(declared) is not tuple or list(declared) != fields or _has_finalizer(cls):
        raise ContractError(f"{printable(name)} is no longer a NamedTuple of the same fields: give `like`")
    return tuple.__new__(cls, children)


def build_dataclass(name: str, values: dict[str, Any], import_types: bool) -> Any:
    """An instance of the dataclass `module:name`, registered with JAX, if it still has exactly those fields.

    Its `__init__` does not run, as it may not when JAX unflattens; nor does a property's setter.

    Raises:
        ContractError: there is no such class, it is another, or a field of it cannot be set without running code.
    """
    cls = _find_class(name, import_types)
    shown = printable(name)
    declared = _static_attribute(cls, "__dataclass_fields__")
    # A class that JAX does not know is no node of a tree: a stranger named it.
    if type(declared) is not dict or issubclass(cls, tuple) or not jax.tree_util.default_registry.is_node(cls):
        raise ContractError(f"{shown} is not a dataclass that is registered with JAX: register it first, or give `like`")
    if not all(type(field) is dataclasses.Field for field in declared.values()):
        raise ContractError(f"{shown} is not a dataclass: give `like`")
    # `dataclasses.fields` of the class would go through its metaclass.
    named = {field.name for field in dataclasses.fields(cast("Any", SimpleNamespace(__dataclass_fields__=declared)))}
    if named != set(values) or _has_finalizer(cls):
        raise ContractError(f"{shown} no longer has the same fields: give `like`")
    for field in values:
        descriptor = _static_attribute(cls, field)
        if type(descriptor) is not MemberDescriptorType and _is_data_descriptor(descriptor):
            raise ContractError(f"{shown}: setting field {printable(field)!r} runs code of the class: give `like`")
    try:
        instance = object.__new__(cls)
        for field, value in values.items():
            object.__setattr__(instance, field, value)
    except (TypeError, AttributeError):
        raise ContractError(f"{shown} cannot be made without its own code: give `like`") from None
    return instance


def _find_class(name: str, import_types: bool) -> type:
    module_name, _, qualname = name.partition(":")
    shown = printable(name)
    if import_types:
        try:
            importlib.import_module(module_name)
        except (ImportError, ValueError, TypeError) as error:
            raise ContractError(f"the saved tree has a {shown}, whose module cannot be imported: {error}") from None
    found: Any = sys.modules.get(module_name)
    if found is None:
        raise ContractError(f"the saved tree has a {shown}: import {printable(module_name)} first, or give `like`")
    # What stands in for a module, as a lazy one may, has no dictionary that can be read without asking it.
    names = _MODULE_DICT.__get__(found) if issubclass(type(found), ModuleType) else {}
    for part in qualname.split("."):
        found = names.get(part)
        # `isinstance` would ask a proxy for its __class__.
        if not issubclass(type(found), type):
            raise ContractError(f"the saved tree has a {shown}, a class that its module does not define: give `like`")
        names = _CLASS_DICT.__get__(found)
    return cast("type", found)


def _static_attribute(cls: type, name: str) -> Any:
    for base in _CLASS_MRO.__get__(cls):
        found = _CLASS_DICT.__get__(base).get(name, _MISSING)
        if found is not _MISSING:
            return found
    return _MISSING


def _is_data_descriptor(found: Any) -> bool:
    return any(_static_attribute(type(found), hook) is not _MISSING for hook in ("__set__", "__delete__"))


def _has_finalizer(cls: type) -> bool:
    return _static_attribute(cls, "__del__") is not _MISSING
