"""`count_finite` of tensors of a real PyTorch: `make torch` runs this, since PyPI's PyTorch brings gigabytes of CUDA."""

import ctypes

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import firstnan

FLOATS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}
OTHERS = ["int8", "int16", "int32", "int64", "uint8", "complex64", "complex128"]


def tensor_of_bits(name, raw):
    """The tensor and the numpy array of the same bytes."""
    dtype = np.dtype(FLOATS.get(name, name))
    array = raw[: raw.size // dtype.itemsize * dtype.itemsize].view(dtype)
    tensor = torch.empty(array.size, dtype=getattr(torch, name))
    assert tensor.element_size() == dtype.itemsize
    fill(tensor, array)
    return tensor, array


def fill(tensor, array):
    """Bytes into the tensor's memory, without PyTorch's own reading of numpy."""
    ctypes.memmove(tensor.data_ptr(), array.ctypes.data, array.nbytes)


@pytest.mark.parametrize("name", [*FLOATS, *OTHERS])
@given(raw=st.binary(min_size=16, max_size=4096))
def test_any_bits_count_as_they_do_in_numpy(name, raw):
    tensor, array = tensor_of_bits(name, np.frombuffer(raw, np.uint8))
    assert firstnan.count_finite(tensor) == firstnan.count_finite(array)


@given(data=st.data(), shape=st.lists(st.integers(0, 6), min_size=1, max_size=4))
def test_any_view_counts_as_it_does_in_numpy(data, shape):
    size = int(np.prod(shape))
    bits = np.random.default_rng(size).integers(0, 1 << 16, size, dtype=np.uint16)
    tensor, array = torch.empty(shape, dtype=torch.bfloat16), bits.view(ml_dtypes.bfloat16).reshape(shape)
    fill(tensor, array)
    order = data.draw(st.permutations(range(len(shape))))
    steps = tuple(slice(data.draw(st.integers(0, 3)), None, data.draw(st.integers(1, 3))) for _ in shape)
    assert firstnan.count_finite(tensor.permute(order)[steps]) == firstnan.count_finite(array.transpose(order)[steps])


def test_a_large_tensor_is_counted_where_it_lies():
    tensor = torch.ones(1 << 24)
    tensor[12345], tensor[1 << 23] = float("nan"), float("-inf")
    counts = firstnan.count_finite(tensor)
    assert (counts.checked, counts.nan, counts.negative_infinity, counts.first_nonfinite) == (1 << 24, 1, 1, 12345)
    tensor[12345] = 0.0
    assert firstnan.count_finite(tensor).first_nonfinite == 1 << 23


def test_a_parameter_is_counted_once_it_is_detached():
    weights = torch.nn.Linear(3, 2).weight
    with pytest.raises(Exception, match="grad"):
        firstnan.count_finite(weights)
    assert firstnan.count_finite(weights.detach()).finite == 6


def test_a_gradient_that_overflowed_is_found():
    scale = torch.tensor(3e38, requires_grad=True)
    (scale * 10 * scale).backward()
    counts = firstnan.count_finite(scale.grad)
    assert (counts.nonfinite, counts.positive_infinity) == (1, 1)
