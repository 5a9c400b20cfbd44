"""`count_finite` of what hands its memory out by DLPack: numpy and JAX, and any type code, layout and version."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from dlpack_producer import PADDED, Producer
from hypothesis import given
from hypothesis import strategies as st

import firstnan

TYPES = {
    "int8": (0, 8), "int16": (0, 16), "int32": (0, 32), "int64": (0, 64), "uint8": (1, 8), "uint16": (1, 16),
    "uint32": (1, 32), "uint64": (1, 64), "float16": (2, 16), "float32": (2, 32), "float64": (2, 64), "bfloat16": (4, 16),
    "complex64": (5, 64), "complex128": (5, 128), "bool": (6, 8), "float8_e3m4": (7, 8), "float8_e4m3": (8, 8),
    "float8_e4m3b11fnuz": (9, 8), "float8_e4m3fn": (10, 8), "float8_e4m3fnuz": (11, 8), "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8), "float8_e8m0fnu": (14, 8), "float6_e2m3fn": (15, 6), "float6_e3m2fn": (16, 6),
    "float4_e2m1fn": (17, 4),
}  # fmt: skip
"""Code and bits of each type in dlpack.h, by the name of numpy or ml_dtypes."""


class OnlyDLPack:
    """Any library's array, of which nothing is seen but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


def random(name, shape, seed=0):
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    raw = np.random.default_rng(seed).integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8)
    return (raw[..., 0] > 127) if name == "bool" else raw.view(dtype)[..., 0]


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("version", [None, 1])
def test_every_type_code(name, version):
    if TYPES[name][1] < 8 and version is None:
        with pytest.raises(TypeError, match="packed"):
            firstnan.count_finite(Producer(random(name, (3,)), *TYPES[name], version=None))
        return
    for shape in [(), (0,), (5000,), (3, 1, 7)]:
        array = random(name, shape)
        producer = Producer(np.asarray(array), *TYPES[name], version=version, flags=PADDED)
        assert firstnan.count_finite(producer) == firstnan.count_finite(array)
        assert producer.exports == 1


@given(shape=st.lists(st.integers(0, 7), max_size=4), data=st.data())
def test_any_layout_that_a_tensor_may_have(shape, data):
    array = np.asarray(random("bfloat16", shape))
    whole = Producer(array, 4, 16, strides=False, offset=data.draw(st.integers(0, 64)))
    assert firstnan.count_finite(whole) == firstnan.count_finite(array)
    array = array.transpose(data.draw(st.permutations(range(array.ndim))))
    steps = st.sampled_from([slice(None), slice(1, None, 2), slice(None, None, -2)])
    array = np.asarray(array[tuple(data.draw(steps) for _ in range(array.ndim))])
    if data.draw(st.booleans()):
        array = np.broadcast_to(array, (2, *array.shape))
    assert firstnan.count_finite(Producer(array, 4, 16), threads=2) == firstnan.count_finite(array)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "int32", "uint8", "bool", "complex64", "float8_e4m3fn"])
def test_a_jax_array_by_dlpack_as_by_itself(name):
    array = jnp.asarray(random(name, (40, 3)))
    assert firstnan.count_finite(OnlyDLPack(array)) == firstnan.count_finite(array)


def test_a_numpy_array_that_cannot_be_written():
    array = random("float64", (30,))
    array.flags.writeable = False
    assert firstnan.count_finite(OnlyDLPack(array)) == firstnan.count_finite(array)


def test_memory_is_counted_where_it_lies():
    array = np.ones(1000, np.float32)
    producer = Producer(array, 2, 32)
    array[700] = np.nan
    assert firstnan.count_finite(producer).first_nonfinite == 700
    on_device = jnp.ones((1 << 16,), jnp.bfloat16)
    pointer = on_device.unsafe_buffer_pointer()
    assert on_device.__array__().__array_interface__["data"][0] == pointer


@pytest.mark.parametrize(("device", "name"), [(2, "CUDA"), (10, "ROCm"), (13, "managed"), (8, "Metal"), (99, "type 99")])
def test_a_device_is_refused_by_name_before_it_is_asked_for_memory(device, name):
    producer = Producer(np.ones(3, np.float32), 2, 32, device=device)
    with pytest.raises(BufferError, match=name):
        firstnan.count_finite(producer)
    assert producer.exports == 0


@pytest.mark.parametrize("device", [3, 11])
def test_pinned_memory_of_the_host_is_read(device):
    assert firstnan.count_finite(Producer(np.ones(3, np.float32), 2, 32, device=device)).checked == 3


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"code": 3, "bits": 64}, TypeError, "code 3 of 64 bits"),
        ({"code": 2, "bits": 80}, TypeError, "code 2 of 80 bits"),
        ({"code": 2, "bits": 32, "lanes": 4}, TypeError, "4 lanes"),
        ({"code": 17, "bits": 4, "flags": 0}, TypeError, "packed several to a byte"),
        ({"code": 0, "bits": 4, "flags": 0}, TypeError, "packed several to a byte"),
        ({"code": 2, "bits": 32, "version": 2}, BufferError, "DLPack 2"),
        ({"code": 2, "bits": 32, "version": None, "name": b"used_dltensor"}, BufferError, "consumed"),
    ],
)
def test_what_cannot_be_read_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        firstnan.count_finite(Producer(np.ones(3, np.float32), **options))


@pytest.mark.parametrize("change", ["negative", "strides", "null", "ndim"])
def test_a_tensor_out_of_bounds_is_refused(change):
    producer = Producer(np.ones((3, 2), np.float32), 2, 32)
    if change == "negative":
        producer.shape[0] = -1
    elif change == "strides":
        producer.strides[0] = 1 << 61
    elif change == "null":
        producer.struct.tensor.data = None
    else:
        producer.struct.tensor.ndim = -1
    with pytest.raises((ValueError, BufferError)):
        firstnan.count_finite(producer)


def test_an_error_of_the_producer_is_its_own():
    class Refuses(OnlyDLPack):
        def __dlpack__(self, **options):
            raise BufferError("requires gradient, use detach()")

    with pytest.raises(BufferError, match="detach"):
        firstnan.count_finite(Refuses(np.ones(2)))


@pytest.mark.parametrize("kind", [np.ndarray, jax.Array, float])
def test_a_class_is_no_array(kind):
    with pytest.raises(TypeError, match="class"):
        firstnan.count_finite(kind)
