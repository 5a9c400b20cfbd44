"""`count_finite` of Arrow arrays: nulls are not elements, whatever lies under them; slices, chunks, bits."""

import ctypes

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import firstnan

NUMBERS = {
    "int8": pa.int8(), "uint8": pa.uint8(), "int16": pa.int16(), "uint16": pa.uint16(), "int32": pa.int32(),
    "uint32": pa.uint32(), "int64": pa.int64(), "uint64": pa.uint64(), "float16": pa.float16(), "float32": pa.float32(),
    "float64": pa.float64(),
}  # fmt: skip


def patterns(name, length, seed=0):
    dtype = np.dtype(name)
    return np.random.default_rng(seed).integers(0, 256, length * dtype.itemsize, dtype=np.uint8).view(dtype)


def expected(values, valid):
    """Of the values that are valid, but with the index among all."""
    counts = firstnan.count_finite(values[valid])
    bad = valid & ~np.isfinite(values)
    first = int(bad.argmax()) if bad.any() else None
    return (counts.checked, counts.nan, counts.positive_infinity, counts.negative_infinity,
            counts.maximum_absolute_finite, first)  # fmt: skip


def row(counts):
    return (counts.checked, counts.nan, counts.positive_infinity, counts.negative_infinity,
            counts.maximum_absolute_finite, counts.first_nonfinite)  # fmt: skip


def over(values, valid, offset=0):
    """An Arrow array on the memory of both, where a null lies over whatever the pattern is."""
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    buffers = [bits, pa.py_buffer(values)]
    return pa.Array.from_buffers(NUMBERS[values.dtype.name], len(values) - offset, buffers, offset=offset)


@given(name=st.sampled_from(sorted(NUMBERS)), length=st.integers(0, 6000), offset=st.integers(0, 70),
       present=st.floats(0, 1), seed=st.integers(0, 99), data=st.data())  # fmt: skip
def test_any_array_of_numbers(name, length, offset, present, seed, data):
    offset = min(offset, length)
    values = patterns(name, length, seed)
    valid = np.random.default_rng(seed).random(length) < present
    threads = data.draw(st.integers(1, 3))
    assert row(firstnan.count_finite(over(values, valid, offset), threads=threads)) == expected(values[offset:], valid[offset:])
    everything = np.ones(length - offset, bool)
    assert row(firstnan.count_finite(over(values, None, offset))) == expected(values[offset:], everything)


@given(values=st.lists(st.none() | st.booleans(), max_size=90), start=st.integers(0, 40))
def test_booleans_are_bits(values, start):
    there = [value for value in values[start:] if value is not None]
    counts = firstnan.count_finite(pa.array(values, pa.bool_())[start:])
    assert row(counts) == (len(there), 0, 0, 0, float(any(there)), None)


@given(parts=st.lists(st.lists(st.none() | st.floats(width=32), max_size=9), max_size=5))
def test_chunks_are_one_array(parts):
    values = [value for part in parts for value in part]
    chunked = pa.chunked_array([pa.array(part, pa.float32()) for part in parts], pa.float32())
    assert firstnan.count_finite(chunked) == firstnan.count_finite(pa.array(values, pa.float32()))


def test_nulls_over_nan_are_no_nan():
    values = np.array([np.nan, 1, -np.inf, 2], np.float32)
    assert row(firstnan.count_finite(over(values, np.array([0, 1, 1, 1], bool)))) == (3, 0, 0, 1, 2.0, 2)
    assert row(firstnan.count_finite(over(values, np.zeros(4, bool)))) == (0, 0, 0, 0, 0.0, None)


def test_an_array_is_read_where_it_lies_and_its_memory_is_given_back():
    values = np.ones(1 << 20)
    before = pa.total_allocated_bytes()
    array = pa.chunked_array([pa.array(values), pa.array(values)])
    held = pa.total_allocated_bytes()
    for _ in range(3):
        assert firstnan.count_finite(array).checked == 2 << 20
        assert firstnan.count_finite(array.chunk(0)).checked == 1 << 20
    assert pa.total_allocated_bytes() == held
    del array
    assert pa.total_allocated_bytes() == before


def test_many_elements_with_nulls_on_threads():
    values = np.ones(3 << 20, np.float32)
    values[[5, 1 << 20, (2 << 20) + 1]] = np.nan
    valid = np.ones(values.size, bool)
    valid[[5, 6, 7]] = False
    for threads in (1, 2, 5):
        counts = firstnan.count_finite(over(values, valid), threads=threads)
        assert row(counts) == (values.size - 3, 2, 0, 0, 1.0, 1 << 20)


class Extended(pa.ExtensionType):
    def __init__(self):
        super().__init__(pa.uint16(), "firstnan.tests.bfloat16")

    def __arrow_ext_serialize__(self):
        return b"some bytes"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()


@pytest.mark.parametrize(
    ("array", "what"),
    [
        (pa.array(["a"]), "strings"),
        (pa.array(["a"], pa.large_string()), "strings"),
        (pa.array(["a"], pa.string_view()), "strings"),
        (pa.array([b"a"]), "bytes"),
        (pa.array([b"a"], pa.binary(1)), "bytes"),
        (pa.array([1, 2, 1]).dictionary_encode(), "dictionary"),
        (pa.array([[1.0]]), "nested"),
        (pa.array([[1.0]], pa.list_(pa.float32(), 1)), "nested"),
        (pa.array([{"a": 1.0}]), "nested"),
        (pa.table({"a": [1.0]}), "nested"),
        (pa.record_batch({"a": [1.0]}), "nested"),
        (pa.chunked_array([["a"]]), "strings"),
        (pa.array([1], pa.decimal128(5, 2)), "decimals"),
        (pa.array([1], pa.timestamp("s")), "dates, times"),
        (pa.array([1], pa.duration("s")), "durations"),
        (pa.nulls(3), "nulls alone"),
        (pa.ExtensionArray.from_storage(Extended(), pa.array([1], pa.uint16())), "extension type"),
        (pa.chunked_array([pa.ExtensionArray.from_storage(Extended(), pa.array([1], pa.uint16()))]), "extension type"),
    ],
)
def test_other_arrays_are_refused_by_what_they_are(array, what):
    with pytest.raises(TypeError, match=what):
        firstnan.count_finite(array)


class Stream(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("get_schema", "get_next", "get_last_error", "release", "private")]


def test_a_stream_that_fails_says_why():
    """A producer's own stream, whose next array cannot be had: the C structure of a real one with another `get_next`."""
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = pa.chunked_array([[1.0]]).__arrow_c_stream__()
    stream = Stream.from_address(get_pointer(capsule, b"arrow_array_stream"))
    next_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    error_type = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    text = ctypes.create_string_buffer(b"the disk is full")
    fails, tells = next_type(lambda *_: 5), error_type(lambda _: ctypes.addressof(text))
    stream.get_next, stream.get_last_error = (ctypes.cast(function, ctypes.c_void_p).value for function in (fails, tells))

    class Producer:
        def __arrow_c_stream__(self, requested_schema=None):
            return capsule

    with pytest.raises(ValueError, match="error 5: the disk is full"):
        firstnan.count_finite(Producer())


def test_what_was_released_is_refused():
    array = pa.array([1.0])
    capsules = array.__arrow_c_array__()
    pa.Array._import_from_c_capsule(*capsules)

    class Producer:
        def __arrow_c_array__(self, requested_schema=None):
            return capsules

    with pytest.raises((ValueError, BufferError)):
        firstnan.count_finite(Producer())
