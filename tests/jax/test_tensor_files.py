"""Saved tensors: no two leaves share a name, and a forged header or structure is refused by the field that is wrong."""

import json
from collections import OrderedDict

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from firstnan import ContractError
from firstnan.jax.structure import pack, unpack
from firstnan.jax.tensorfile import read_tensors, write_tensors

NAMES = st.sampled_from(
    ["", ".", "#", "#0", "#1", ".#0", ".#1", ".#2", ".#2#1", "__metadata__", "__metadata__#0", "a/b", "\ud800"]
)


@given(st.lists(NAMES | st.text(max_size=3) | st.integers(), max_size=7, unique=True))
@example(["", ".#2", "."])
@example([".#2", "", "."])
@example(["__metadata__", "__metadata__#0"])
@example([3, "3", "3#1"])
@example([10**5000, 1])
@example([2**64, -(2**999)])
def test_no_two_leaves_share_a_tensor(keys):
    tree = OrderedDict((key, np.full(3, number)) for number, key in enumerate(keys))
    structure, tensors = pack(tree)
    assert len(tensors) == len(keys)
    like = OrderedDict((key, np.zeros(3, int)) for key in keys)
    structure = json.loads(json.dumps(structure))
    for back in (unpack(structure, tensors, like=like), *([] if 10**5000 in keys else [unpack(structure, tensors)])):
        assert [(key, leaf.tolist()) for key, leaf in back.items()] == [(key, [n] * 3) for n, key in enumerate(keys)]


def test_integers_of_any_length_come_back_or_are_marked_absent():
    tree = {"near": 2**2000 - 1, "far": -(10**5000), "both": [2**2000, -(2**2001)], "key": {2**1000: 1.0}}
    for (structure, tensors), value in ((pack(tree[name]), tree[name]) for name in ("near", "far", "both")):
        assert unpack(json.loads(json.dumps(structure)), tensors) == value
    with pytest.raises(ContractError, match="an int of more than 1048576 bits has no portable form"):
        unpack(*pack([1 << (1 << 21)]))
    with pytest.raises(ContractError, match="only a template rebuilds"):
        unpack(*pack(tree["key"]))
    assert unpack(*pack(tree["key"]), like={2**1000: 2.0}) == {2**1000: 1.0}


def test_an_array_of_too_many_axes_is_marked_absent():
    with pytest.raises(ContractError, match="more than 32 axes"):
        unpack(*pack([np.zeros((1,) * 33)]))
    with pytest.raises(ContractError, match="more than 32 axes"):
        unpack(*pack([np.zeros((1,) * 40, np.complex128)]))
    assert unpack(*pack([np.zeros((1,) * 32, np.complex128)]))[0].ndim == 32


def header_of(folder, change):
    """A tensor file of two tensors, its header changed."""
    path = folder / "state.safetensors"
    with open(path, "wb") as file:
        write_tensors(file, {"a": np.arange(4, dtype=np.float32), "b": np.arange(2, dtype=np.int64)})
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    text = change(header)
    text = json.dumps(header if text is None else text).encode() if not isinstance(text, bytes) else text
    path.write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + length :])
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda h: h["a"].update(shape=""), "state.safetensors: /a/shape must be a list"),
        (lambda h: h["a"].update(shape={}), "/a/shape must be a list"),
        (lambda h: h["a"].update(shape=[True, 4]), "/a/shape must be a list"),
        (lambda h: h["a"].update(shape=[-4]), "/a/shape must be a list"),
        (lambda h: h["a"].update(shape=[4.0]), "/a/shape must be a list"),
        (lambda h: h["a"].update(shape=[1 << 61, 0]), "/a/shape must be a list"),
        (lambda h: h["a"].update(shape=[1] * 34), "/a/shape must be a list"),
        (lambda h: h["a"].update(shape=[5]), "/a/data_offsets must span as many bytes"),
        (lambda h: h["a"].update(dtype="F128"), "/a/dtype must be one of BOOL"),
        (lambda h: h["a"].update(dtype=["F32"]), "/a/dtype must be one of BOOL"),
        (lambda h: h["a"].update(dtype="F64"), "/a/data_offsets must span as many bytes"),
        (lambda h: h["a"].update(data_offsets="ab"), "/a/data_offsets must be two integers"),
        (lambda h: h["a"].update(data_offsets=[0, 16, 16]), "/a/data_offsets must be two integers"),
        (lambda h: h["a"].update(data_offsets=[False, 16]), "/a/data_offsets must be two integers"),
        (lambda h: h["b"].update(data_offsets=[8, 24]), "/b/data_offsets must start at 16"),
        (lambda h: h["b"].update(data_offsets=[17, 33]), "/b/data_offsets must start at 16"),
        (lambda h: h["b"].update(shape=[3], data_offsets=[16, 40]), "/b/data_offsets must end within the file"),
        (lambda h: h["b"].update(shape=[1], data_offsets=[16, 24]), "belong to no tensor"),
        (lambda h: h.pop("b") and None, "belong to no tensor"),
        (lambda h: h.update(c={"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}), "must start at 16"),
        (lambda h: h.update(__metadata__={"x": "y"}), "/__metadata__ must have exactly the names"),
        (lambda h: h.update({"\x1b[2J/\u202e": 1}), r"/\\x1b\[2J~1\\u202e must have exactly the names"),
        (lambda h: [h], "it must be an object"),
        (lambda h: json.dumps(h).replace('"b"', '"a"').encode(), "the header is not one of safetensors: .*duplicate|twice"),
        (lambda h: b"[" * 100_000, "the header is not one of safetensors"),
        (lambda h: b'{"a":' + b"9" * 5000 + b"}", "the header is not one of safetensors"),
        (lambda h: b'{"a":\xff}', "the header is not one of safetensors"),
        (lambda h: b"", "the header is not one of safetensors"),
    ],
)
def test_a_forged_header_is_refused_by_its_field(change, words, tmp_path):
    with pytest.raises(ContractError, match=words) as caught:
        read_tensors(header_of(tmp_path, change))
    assert str(caught.value).isprintable()


def saved():
    return pack(
        {
            "a": [jnp.ones(3), np.float16(2)],
            "i": np.zeros(2, np.dtype(jnp.int4)),
            "k": jax.random.key(0),
            "n": 7,
            "o": OrderedDict(z=2.5),
        }
    )


def leaf(number, **members):
    return lambda s: s["leaves"][number].update(members)


def node(number, **members):
    return lambda s: s["nodes"][number].update(members)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s.clear(), "exactly the names leaves, nodes"),
        (lambda s: s.update(more=1), "exactly the names leaves, nodes"),
        (lambda s: s.update(leaves={}), "/leaves must be a list"),
        (lambda s: s.update(nodes=[]), "/nodes must not be empty"),
        (lambda s: s["leaves"].append(3), "/leaves/6/kind must be one of python"),
        (lambda s: s["leaves"].append(s["leaves"][4]), "/nodes must hold each of the 7 leaves once"),
        (lambda s: s["leaves"].append(s["leaves"][0]), "/leaves/6/tensor must name a tensor"),
        (lambda s: s["leaves"].pop(), "/nodes/8/leaf must be 5, of 5 leaves"),
        (leaf(0, kind=[]), "/leaves/0/kind must be one of"),
        (leaf(0, path=1), "/leaves/0/path must be a str"),
        (leaf(0, extra=1), "/leaves/0 must be an object of exactly the names"),
        (lambda s: s["leaves"][0].pop("weak_type"), "/leaves/0 must be an object of exactly the names"),
        (leaf(0, weak_type=0), "/leaves/0/weak_type must be a bool"),
        (leaf(0, shape=""), "/leaves/0/shape must be a list"),
        (leaf(0, shape=[3.0]), "/leaves/0/shape must be a list"),
        (leaf(0, shape=[True]), "/leaves/0/shape must be a list"),
        (leaf(0, shape=[4]), "/leaves/0/dtype and /shape must be those of its tensor"),
        (leaf(0, dtype="int32"), "/leaves/0/dtype and /shape must be those of its tensor"),
        (leaf(0, dtype="object"), "/leaves/0/dtype must be the name of a number's dtype"),
        (leaf(0, tensor="no\x1b"), "/leaves/0/tensor must name a tensor"),
        (leaf(1, shape=[1]), "/leaves/1/shape must be empty for a scalar"),
        (leaf(2, dtype="uint4"), "refused or read"),
        (leaf(3, tensor="a/0"), "/leaves/3/tensor must name a tensor"),
        (leaf(3, impl="no\x07such"), r"is a key of no\\x07such"),
        (leaf(3, impl="rbg"), "is a key of rbg"),
        (leaf(4, value="1_0"), "/leaves/4/value must be the text of a int"),
        (leaf(4, value="9" * 5000), "/leaves/4/value must be the text of a int"),
        (leaf(4, type="object"), "/leaves/4/type must be one of"),
        (leaf(4, type="bool"), "/leaves/4/value must be the text of a bool"),
        (leaf(5, value="2.5"), "/leaves/5/value must be the text of a float"),
        (leaf(5, value="0x1.0p+9999"), "/leaves/5/value must be the text of a float"),
        (node(3, leaf=-1), "/nodes/3/leaf must be 1, of 6 leaves"),
        (node(3, leaf=False), "/nodes/3/leaf must be a int"),
        (node(3, leaf=0), "/nodes/3/leaf must be 1, of 6 leaves"),
        (node(3, leaf=2), "/nodes/3/leaf must be 1, of 6 leaves"),
        (node(0, keys=["a"]), "/nodes/0/keys must be as many distinct"),
        (node(0, keys=["a", "a", "k", "n", "o"]), "/nodes/0/keys must be as many distinct"),
        (node(0, keys=[[], "i", "k", "n", "o"]), "/nodes/0/keys must be as many distinct"),
        (node(0, order=["a", "i", "k", "n", "x"]), "/nodes/0/order must hold exactly the keys"),
        (node(0, order=[{}, "i", "k", "n", "o"]), "/nodes/0/order must hold exactly the keys"),
        (node(0, children=[0, 4, 5, 6, 7]), "/nodes/0/children must be the nodes that follow"),
        (node(0, children=[1, 1, 5, 6, 7]), "/nodes/0/children must be the nodes that follow"),
        (node(0, children=[1, 5, 4, 6, 7]), "/nodes/0/children must be the nodes that follow"),
        (node(0, children=["1", 4, 5, 6, 7]), "/nodes/0/children must be the nodes that follow"),
        (node(1, children=[3, 2]), "/nodes/1/children must be the nodes that follow"),
        (node(1, children=[2]), "/nodes/0/children must be the nodes that follow"),
        (node(1, children=[2, 3, 4]), "/nodes/0/children must be the nodes that follow"),
        (node(7, children=[8, 1 << 70]), "/nodes/7/keys must be as many"),
        (lambda s: s["nodes"].append({"kind": "none", "children": []}), "/nodes must each be the child of a node"),
        (lambda s: s["nodes"].append({"kind": "leaf", "leaf": 6}), "/nodes/9/leaf must be 6, of 6 leaves"),
        (node(0, kind="set"), "/nodes/0/kind must be one of"),
        (node(1, kind="none"), "/nodes/1/children must be empty"),
    ],
)
def test_a_forged_structure_is_refused_by_its_field(change, words):
    structure, tensors = saved()
    structure = json.loads(json.dumps(structure))
    change(structure)
    if words == "refused or read":
        # Another dtype of as many bytes is not seen from the tensors.
        assert unpack(structure, tensors | {"i": tensors["i"].view(np.uint8)[:, None]})["i"].dtype.name == "uint4"
        return
    with pytest.raises(ContractError, match=words) as caught:
        unpack(structure, tensors, place="structure.json: /state")
    assert str(caught.value).isprintable()
