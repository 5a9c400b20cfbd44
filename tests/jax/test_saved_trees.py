"""Pytrees to files and back, without pickle: every dtype, the usual containers, and damage of every kind."""

import dataclasses
import json
from collections import OrderedDict
from contextlib import suppress
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from firstnan import ContractError
from firstnan.jax.formats import FORMATS, INTEGERS, numpy_dtype
from firstnan.jax.structure import pack, unpack
from firstnan.jax.tensorfile import read_tensors, write_tensors


class Pair(NamedTuple):
    left: Any
    right: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Layer:
    weight: Any
    name: str = dataclasses.field(metadata={"static": True}, default="dense")


@jax.tree_util.register_pytree_node_class
class Opaque:
    def __init__(self, value):
        self.value = value

    def tree_flatten(self):
        return (self.value,), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


def through_files(tree, folder, **how):
    structure, tensors = pack(tree)
    with open(folder / "tree.safetensors", "wb") as file:
        write_tensors(file, tensors)
    return unpack(json.loads(json.dumps(structure)), read_tensors(folder / "tree.safetensors"), **how)


def same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert type(a) is type(b)
        if isinstance(a, int | float | complex | str) and not isinstance(a, np.generic):
            assert repr(a) == repr(b)
            continue
        if isinstance(a, jax.Array) and jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            assert a.dtype == b.dtype
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        assert getattr(a, "dtype", None) == getattr(b, "dtype", None)
        assert getattr(a, "weak_type", None) == getattr(b, "weak_type", None)
        assert np.shape(a) == np.shape(b)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("name", sorted(FORMATS.keys() | INTEGERS | {"complex64", "complex128"}))
def test_every_dtype_comes_back_bit_for_bit(name, tmp_path):
    if name in ("int1", "uint1", "int2", "uint2"):
        tree = {"a": np.zeros(3, numpy_dtype(name))}
    else:
        width = numpy_dtype(name).itemsize
        raw = np.random.default_rng(0).integers(0, 2 if name == "bool" else 256, (3, 5 * width), np.uint8)
        raw &= (1 << (FORMATS[name].bits if name in FORMATS else 8)) - 1 if width == 1 and name != "bool" else 255
        tree = {
            "a": raw.view(numpy_dtype(name)),
            "scalar": raw.view(numpy_dtype(name))[0, 0],
            "empty": np.zeros((0, 2), numpy_dtype(name)),
        }
    back = through_files(tree, tmp_path)
    same(back, tree)
    assert back["a"].dtype.name == np.dtype(numpy_dtype(name)).name


def test_leaves_of_every_kind_come_back(tmp_path):
    tree = {
        "key": jax.random.split(jax.random.key(3), 2),
        "rbg": jax.random.key(3, impl="rbg"),
        "weak": jnp.asarray(2.5),
        "strong": jnp.asarray(np.float32(2.5)),
        "bf16": jnp.array([1.5, jnp.nan], jnp.bfloat16),
        "float0": np.zeros((2, 3), jax.dtypes.float0),
        "number": -0.0,
        "nan": float("nan"),
        "big": 10**30,
        "flag": True,
        "z": 1 - 2j,
        "text": "sample-7",
        "numpy": np.float16(3),
        "strided": np.arange(12.0).reshape(3, 4)[:, ::2],
        "swapped": np.arange(3, dtype=">f4"),
    }
    back = through_files(tree, tmp_path)
    assert back.pop("swapped").tolist() == tree.pop("swapped").tolist()
    same(back, tree)


@pytest.mark.parametrize(
    "tree",
    [
        None,
        (),
        jnp.ones(2),
        {"b": [1.0, (2.0, None)], "a": {}},
        {3: 1.0, 1: 2.0},
        OrderedDict(z=1.0, a=[2.0]),
        Pair(jnp.ones(1), {"x": Pair(1, 2)}),
        [Layer(jnp.zeros(2), "first"), Layer(None)],
        {"a/b": 1.0, "a~1b": 2.0, "": jnp.ones(1)},
        {"": {"": jnp.ones(1)}, "/": jnp.ones(2)},
    ],
    ids=str,
)
def test_containers_come_back_by_themselves(tree, tmp_path):
    back = through_files(tree, tmp_path)
    same(back, tree)
    if isinstance(tree, dict):
        assert list(back) == list(tree)


def test_optax_states_come_back_by_themselves(tmp_path):
    params = {"w": jnp.ones((2, 3)), "b": jnp.zeros(3, jnp.bfloat16)}
    optimizer = optax.MultiSteps(
        optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(1e-3, 10))), 2
    )
    same(through_files((params, optimizer.init(params)), tmp_path), (params, optimizer.init(params)))


def test_a_template_rebuilds_what_cannot_rebuild_itself(tmp_path):
    tree = {"o": Opaque(jnp.arange(3.0)), "act": jax.nn.relu}
    with pytest.raises(ContractError, match=r"give `like`"):
        through_files(tree, tmp_path)
    like = {"o": Opaque(jnp.zeros(3)), "act": jax.nn.gelu}
    back = through_files(tree, tmp_path, like=like)
    assert back["o"].value.tolist() == [0.0, 1.0, 2.0]
    assert back["act"] is jax.nn.gelu
    shapes = {"o": Opaque(jax.ShapeDtypeStruct((3,), jnp.float32)), "act": jax.nn.relu}
    assert through_files(tree, tmp_path, like=shapes)["o"].value.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("like", "words"),
    [
        ({"a": jnp.zeros(3)}, "has 2 leaves and `like` has 1"),
        ({"a": jnp.zeros(3), "c": jnp.zeros(2)}, "'b' where `like` has 'c'"),
        ({"a": jnp.zeros(4), "b": jnp.zeros(2)}, "leaf 'a' was saved as"),
        ({"a": jnp.zeros(3), "b": jnp.zeros(2, jnp.int32)}, "leaf 'b' was saved as"),
    ],
)
def test_a_template_that_does_not_fit_is_refused_by_leaf(like, words, tmp_path):
    with pytest.raises(ContractError, match=words):
        through_files({"a": jnp.ones(3), "b": jnp.ones(2)}, tmp_path, like=like)


def test_a_donated_leaf_is_refused_by_name():
    x = jnp.ones(3)
    x.delete()
    with pytest.raises(ContractError, match="'a/0' was donated"):
        pack({"a": [x]})


def test_a_class_that_is_not_imported_is_not_imported(tmp_path):
    structure, tensors = pack(Pair(1.0, 2.0))
    structure["nodes"][0]["type"] = "this:Nothing"
    with pytest.raises(ContractError, match="this:Nothing: import this first"):
        unpack(structure, tensors)
    import sys

    assert "this" not in sys.modules
    structure["nodes"][0]["type"] = "os:system"
    with pytest.raises(ContractError, match="does not define"):
        unpack(structure, tensors)
    structure["nodes"][0]["type"] = "fractions:Fraction"
    with pytest.raises(ContractError, match="no longer a NamedTuple"):
        unpack(structure, tensors, import_types=True)


def test_another_library_reads_the_file(tmp_path):
    tree = {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3),
        "half": np.ones(3, np.float16),
        "n": np.arange(4),
        "flag": np.array([True]),
    }
    tree["bf16"] = np.ones(2, ml_dtypes.bfloat16)
    through_files(tree, tmp_path)
    loaded = load_file(tmp_path / "tree.safetensors")
    assert set(loaded) == set(tree)
    for name, array in tree.items():
        assert loaded[name].dtype == array.dtype
        assert np.array_equal(loaded[name], array)


def saved(folder):
    structure, tensors = pack({"a": [jnp.ones(3), jnp.zeros((2, 2), jnp.bfloat16)], "k": jax.random.key(0), "n": Pair(1, 2.5)})
    with open(folder / "tree.safetensors", "wb") as file:
        write_tensors(file, tensors)
    return structure, tensors, folder / "tree.safetensors"


def test_a_tensor_file_that_is_cut_anywhere_is_refused(tmp_path):
    *_, path = saved(tmp_path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ContractError):
            read_tensors(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(ContractError, match="belong to no tensor"):
        read_tensors(path)


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_a_damaged_tensor_header_is_refused_or_read(data, tmp_path_factory):
    *_, path = saved(tmp_path_factory.mktemp("damaged"))
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(whole)
    with suppress(ContractError):
        read_tensors(path)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 2**70)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "leaf", "jax", "a/0", "dict"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["kind", "leaf", "path", "shape"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


@given(data=st.data())
@settings(max_examples=400, deadline=None)
def test_a_damaged_structure_is_refused_or_read(data, tmp_path_factory):
    structure, tensors, _ = saved(tmp_path_factory.mktemp("damaged"))
    structure = json.loads(json.dumps(structure))
    like = data.draw(
        st.sampled_from([None, {"a": [jnp.ones(3), jnp.zeros((2, 2), jnp.bfloat16)], "k": jax.random.key(0), "n": Pair(1, 2.5)}])
    )
    path = data.draw(st.sampled_from(list(places(structure))[1:]))
    target = structure
    for key in path[:-1]:
        target = target[key]
    if data.draw(st.booleans()):
        del target[path[-1]]
    else:
        target[path[-1]] = data.draw(JSON)
    with suppress(ContractError):
        unpack(structure, tensors, like=like)
