"""`count_finite_tree`: each leaf by its path, whatever holds it, and sums that are exact."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest
from dlpack_producer import Producer

import firstnan
from firstnan.jax import count_finite_tree, count_stages


def test_leaves_of_every_kind():
    weights = np.ones((3, 4), ml_dtypes.bfloat16)
    weights[1, 2] = np.nan
    tree = {
        "params": {"b": jnp.array([1.0, -np.inf]), "w": weights},
        "rows": [pa.array([1.0, None, 7.0]), memoryview(b"\x01\x02"), Producer(np.full(3, np.inf, np.float32), 2, 32)],
        "step": 12,
        "rate": 1e-3,
        "key": jax.random.key(3),
        "grad of step": np.zeros(2, jax.dtypes.float0),
        "nothing": None,
    }
    counts = count_finite_tree(tree, threads=2)
    assert list(counts.leaves) == ["grad of step", "key", "params/b", "params/w", "rate", "rows/0", "rows/1", "rows/2", "step"]
    assert counts.leaves["params/w"] == firstnan.count_finite(weights)
    assert [leaf.checked for leaf in counts.leaves.values()] == [2, 1, 2, 12, 1, 2, 2, 3, 1]
    assert (counts.checked, counts.nan, counts.positive_infinity, counts.negative_infinity) == (26, 1, 3, 1)
    assert (counts.nonfinite, counts.finite) == (5, 21)
    assert counts.maximum_absolute_finite == 12.0
    assert counts.first_nonfinite == ("params/b", 1)


def test_as_inside_jit():
    rng = np.random.default_rng(0)
    tree = {"a": rng.integers(0, 1 << 32, (50, 3), np.uint32).view(np.float32), "b": (np.arange(3), np.zeros((0, 2)))}
    counts, inside = count_finite_tree(tree), count_stages(input=tree).to_host()
    for leaf in inside.leaves:
        same = counts.leaves[leaf.path]
        assert (same.checked, same.nan, same.nonfinite) == (leaf.checked, leaf.nan, leaf.nonfinite)
        assert same.maximum_absolute_finite == leaf.maximum_absolute_finite


def test_a_tree_of_nothing_and_of_one_array():
    empty = count_finite_tree({})
    assert (empty.leaves, empty.checked, empty.maximum_absolute_finite, empty.first_nonfinite) == ({}, 0, 0.0, None)
    assert count_finite_tree(np.array([0.0, np.nan])).first_nonfinite == ("", 1)


@pytest.mark.parametrize(
    ("leaf", "error"),
    [
        ("text", TypeError),
        (object(), TypeError),
        (1 << 70, TypeError),
        (np.ma.masked_array([1.0]), TypeError),
        (pa.array(["a"]), TypeError),
        (Producer(np.ones(2, np.float32), 2, 32, device=2), BufferError),
    ],
)
def test_a_leaf_that_cannot_be_counted_is_named(leaf, error):
    with pytest.raises(error, match=r"^leaf 'a/1': "):
        count_finite_tree({"a": [1.0, leaf]})


def test_sums_beyond_64_bits_are_exact():
    """Broadcast arrays are counted without reading an element twice."""
    many = np.broadcast_to(np.float32(np.nan), (1 << 30, 1 << 30))
    counts = count_finite_tree([many] * 20)
    assert counts.checked == counts.nan == 20 << 60
    assert counts.first_nonfinite == ("0", 0)
