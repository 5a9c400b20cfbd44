"""A stranger's structure.json names classes: what is looked up is data, and nothing of anyone's runs."""

import dataclasses
import json
import sys
import types
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest

from firstnan import ContractError
from firstnan.jax.structure import pack, unpack

RAN = []


class Hooked(type):
    def __getattribute__(cls, name):
        RAN.append(name)
        return super().__getattribute__(name)

    def __getattr__(cls, name):
        RAN.append(name)
        raise AttributeError(name)

    def __instancecheck__(cls, instance):
        RAN.append("isinstance")
        return True

    def __subclasscheck__(cls, subclass):
        RAN.append("issubclass")
        return True

    def __call__(cls, *args, **kwargs):
        RAN.append("call")
        return super().__call__(*args, **kwargs)


class Pair(NamedTuple):
    left: Any
    right: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(slots=True)
class Slotted:
    weight: Any
    name: str = dataclasses.field(metadata={"static": True}, default="dense")


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Watched:
    weight: Any

    def __post_init__(self):
        RAN.append("init")

    def __setattr__(self, name, value):
        RAN.append(f"set {name}")
        object.__setattr__(self, name, value)

    def __getattribute__(self, name):
        RAN.append(f"get {name}")
        return object.__getattribute__(self, name)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class WithProperty:
    weight: Any

    @property
    def weight(self):
        return self.__dict__["weight"]

    @weight.setter
    def weight(self, value):
        RAN.append("setter")
        self.__dict__["weight"] = value


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class WithFinalizer:
    weight: Any

    def __del__(self):
        RAN.append("del")


@dataclasses.dataclass
class Unregistered:
    weight: Any


class WithMetaclass(metaclass=Hooked):
    _fields = ("left", "right")

    class Inner(metaclass=Hooked):
        pass


class LookAlike(tuple):
    @property
    def _fields(self):
        return ("left", "right")


class Holder:
    @property
    def Pair(self):
        RAN.append("property")
        return Pair

    class Nested(NamedTuple):
        left: Any
        right: Any


class Proxy:
    @property
    def __class__(self):
        RAN.append("__class__")
        return type


proxy = Proxy()


def named(name, kind="namedtuple", fields=("left", "right"), static=None):
    """A saved tree of one container, as a stranger may write it."""
    structure, tensors = pack([jnp.ones(2) for _ in fields])
    node = {"kind": kind, "type": name, "fields": [*fields], "children": structure["nodes"][0]["children"]}
    structure["nodes"][0] = node if kind == "namedtuple" else node | {"static": static or {}}
    return json.loads(json.dumps(structure)), tensors


def refused(*args, words, **kwargs):
    # JAX imports parts of itself when it first makes an array.
    unpack(*named(f"{ME}:Pair"))
    before = set(sys.modules)
    RAN.clear()
    with pytest.raises(ContractError, match=words):
        unpack(*named(*args, **kwargs))
    assert RAN == []
    assert set(sys.modules) == before


ME = __name__


def test_no_module_is_imported_and_no_getattr_of_one_runs(monkeypatch):
    asked = []
    module = types.ModuleType("eager")
    module.__getattr__ = asked.append
    lazy = type("Lazy", (types.ModuleType,), {"__getattribute__": lambda self, name: asked.append(name)})("lazy")
    stand_in = type("StandIn", (), {"__getattr__": lambda self, name: asked.append(name)})()
    for name, value in (("eager", module), ("lazy", lazy), ("stand_in", stand_in)):
        monkeypatch.setitem(sys.modules, name, value)
        for kind, fields in (("namedtuple", ("left", "right")), ("dataclass", ("weight",))):
            refused(f"{name}:Anything.x", kind, fields, words="does not define")
    assert asked == []
    sys.modules.pop("numpy.f2py", None)
    refused("numpy:f2py.x", words="does not define")
    assert "numpy.f2py" not in sys.modules
    refused("this:Zen", words="import this first")
    refused("firstnan.jax:read_bundle", words="does not define")


@pytest.mark.parametrize(
    ("name", "kind", "fields", "words"),
    [
        (f"{ME}:Holder.Pair", "namedtuple", ("left", "right"), "does not define"),
        (f"{ME}:proxy", "namedtuple", ("left", "right"), "does not define"),
        (f"{ME}:proxy.x", "namedtuple", ("left", "right"), "does not define"),
        (f"{ME}:WithMetaclass", "namedtuple", ("left", "right"), "no longer a NamedTuple"),
        (f"{ME}:WithMetaclass", "dataclass", ("weight",), "not a dataclass that is registered"),
        (f"{ME}:WithMetaclass.Inner", "dataclass", ("weight",), "not a dataclass that is registered"),
        (f"{ME}:WithMetaclass.none", "dataclass", ("weight",), "does not define"),
        (f"{ME}:LookAlike", "namedtuple", ("left", "right"), "no longer a NamedTuple"),
        (f"{ME}:Pair", "namedtuple", ("left", "other"), "no longer a NamedTuple"),
        (f"{ME}:Pair", "dataclass", ("left", "right"), "not a dataclass that is registered"),
        (f"{ME}:Unregistered", "dataclass", ("weight",), "not a dataclass that is registered"),
        (f"{ME}:WithProperty", "dataclass", ("weight",), "runs code of the class"),
        (f"{ME}:WithFinalizer", "dataclass", ("weight",), "no longer has the same fields"),
        (f"{ME}:Slotted", "dataclass", ("weight",), "no longer has the same fields"),
        (f"{ME}:Slotted", "dataclass", ("weight", "__class__"), "no longer has the same fields"),
        ("builtins:int", "namedtuple", ("left", "right"), "no longer a NamedTuple"),
        ("builtins:tuple", "namedtuple", (), "no longer a NamedTuple"),
        ("os:environ", "namedtuple", (), "does not define"),
        ("os:system", "dataclass", ("weight",), "does not define"),
    ],
)
def test_a_strangers_class_is_refused_without_running_it(name, kind, fields, words):
    refused(name, kind, fields, words=words)


def test_a_hostile_name_is_refused_in_words_that_steer_no_terminal():
    for name in ("os\x1b[2J:x", "os:x\u202e", f"{ME}:Pair\x07"):
        with pytest.raises(ContractError) as caught:
            unpack(*named(name))
        assert str(caught.value).isprintable()


def test_what_is_registered_comes_back_without_running_it():
    tree = [Slotted(jnp.ones(2), "first"), Holder.Nested(1.0, Watched(jnp.zeros(1)))]
    structure, tensors = pack(tree)
    RAN.clear()
    back = unpack(json.loads(json.dumps(structure)), tensors)
    assert RAN == []
    assert jax.tree.structure(back) == jax.tree.structure(tree)
    assert back[0].name == "first"


def test_a_named_tuple_with_a_flattening_of_its_own_needs_a_template():
    class Odd(NamedTuple):
        left: Any
        right: Any

    jax.tree_util.register_pytree_with_keys(
        Odd,
        lambda odd: (((jax.tree_util.GetAttrKey("left"), odd.left),), odd.right),
        lambda right, children: Odd(*children, right),
    )
    tree = Odd(jnp.ones(2), "aux")
    structure, tensors = pack(tree)
    with pytest.raises(ContractError, match="only a template rebuilds"):
        unpack(structure, tensors)
    assert unpack(structure, tensors, like=tree).right == "aux"


def test_import_types_imports_a_module_and_names_one_that_fails(tmp_path, monkeypatch):
    (tmp_path / "later_pair.py").write_text("from typing import NamedTuple\nclass Later(NamedTuple):\n    left: int\n")
    monkeypatch.syspath_prepend(tmp_path)
    structure, tensors = named("later_pair:Later", fields=("left",))
    with pytest.raises(ContractError, match="import later_pair first"):
        unpack(structure, tensors)
    assert unpack(structure, tensors, import_types=True).left.tolist() == [1.0, 1.0]
    for absent in ("nowhere_at_all:X", ".relative:X", "a..b:X", " :X"):
        with pytest.raises(ContractError, match="cannot be imported"):
            unpack(*named(absent), import_types=True)
