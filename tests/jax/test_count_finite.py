"""`firstnan.count_finite` against numpy with ml_dtypes, and against the counts that are made inside jit."""

import array as arrays
import ctypes
import os
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import firstnan
from firstnan.jax import count_stages
from firstnan.jax.formats import COMPLEX_PARTS, FORMATS, INTEGERS, numpy_dtype

CTYPES = {"b": ctypes.c_int8, "H": ctypes.c_uint16, "q": ctypes.c_int64, "f": ctypes.c_float, "d": ctypes.c_double}
NAMES = sorted({*FORMATS, *COMPLEX_PARTS, *INTEGERS})


def from_numpy(array):
    """(checked, nan, +Inf, -Inf, largest, first) by numpy's own arithmetic, element by element of the values."""
    array = np.asarray(array)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        values = array.astype(np.complex128 if "complex" in array.dtype.name else np.float64).reshape(-1)
    nan = np.isnan(values)
    first_infinite = np.where(np.isinf(values.real), values.real, values.imag)
    positive, negative = ~nan & (first_infinite == np.inf), ~nan & (first_infinite == -np.inf)
    bad = nan | positive | negative
    good = values[~bad]
    largest = max(np.abs(good.real).max(initial=0.0), np.abs(good.imag).max(initial=0.0))
    return (values.size, nan.sum(), positive.sum(), negative.sum(), largest, int(bad.argmax()) if bad.any() else None)


def row(counts):
    return (counts.checked, counts.nan, counts.positive_infinity, counts.negative_infinity,
            counts.maximum_absolute_finite, counts.first_nonfinite)  # fmt: skip


def random(name, shape, seed=0):
    dtype = numpy_dtype(name)
    raw = np.random.default_rng(seed).integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8)
    return (raw[..., 0] > 127) if name == "bool" else raw.view(dtype)[..., 0]


@pytest.mark.parametrize("name", [name for name in NAMES if numpy_dtype(name).itemsize <= 2 and name != "bool"])
def test_every_pattern_of_a_small_type_by_itself(name):
    dtype = numpy_dtype(name)
    patterns = np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        values = patterns.astype(np.float64)
    for element, value in zip(patterns, values, strict=True):
        bad = not np.isfinite(value)
        expected = (1, np.isnan(value), value == np.inf, value == -np.inf, 0.0 if bad else abs(value), 0 if bad else None)
        assert row(firstnan.count_finite(np.array(element))) == expected


@pytest.mark.parametrize("name", NAMES)
def test_as_numpy_and_as_inside_jit(name):
    for seed, array in enumerate([random(name, (5000,)), random(name, (3, 7)), random(name, (0, 3)), random(name, ())]):
        counts = firstnan.count_finite(array)
        assert row(counts) == from_numpy(array), seed
        leaf = count_stages(input=array).to_host().leaves[0]
        told = (leaf.checked, leaf.nan, leaf.positive_infinity, leaf.negative_infinity, float(leaf.maximum_absolute_finite))
        assert row(counts)[:5] == told, seed


@pytest.mark.parametrize("name", ["complex32", "bcomplex32"])
def test_the_complex_types_of_ml_dtypes(name):
    array = np.array([1 - 2j, complex(np.inf, np.nan), complex(0, -np.inf)], np.complex64).astype(getattr(ml_dtypes, name))
    assert row(firstnan.count_finite(array)) == (3, 1, 0, 1, 2.0, 1)


@given(
    name=st.sampled_from(["float8_e4m3fn", "bfloat16", "float32", "float64", "complex128", "int16"]),
    shape=st.lists(st.integers(0, 9), max_size=4),
    data=st.data(),
)
def test_any_layout(name, shape, data):
    array = np.asarray(random(name, shape, data.draw(st.integers(0, 9))))
    array = array.transpose(data.draw(st.permutations(range(array.ndim))))
    steps = st.sampled_from([slice(None), slice(None, None, -1), slice(1, None, 2), slice(None, None, -3)])
    array = array[tuple(data.draw(steps) for _ in range(array.ndim))]
    if data.draw(st.booleans()):
        array = np.broadcast_to(array, (3, *array.shape))
    array = np.asarray(array)
    array.flags.writeable = False
    assert row(firstnan.count_finite(array, threads=data.draw(st.integers(1, 3)))) == from_numpy(array)


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "complex64", "complex128", "int16", "uint32", "int64"])
def test_the_other_byte_order(name):
    array = random(name, (999,))
    swapped = array.astype(array.dtype.newbyteorder())
    for view in (swapped, swapped[::-2], memoryview(swapped)):
        assert row(firstnan.count_finite(view)) == from_numpy(np.asarray(view))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_many_blocks_and_threads(threads):
    array = np.ones((1 << 22) + 3, np.float32)
    array[[1_234_567, 4_000_000]] = [-np.inf, np.nan]
    assert row(firstnan.count_finite(array, threads=threads)) == (array.size, 1, 0, 1, 1.0, 1_234_567)
    turned = array[: 1 << 22].reshape(1 << 11, 1 << 11).T
    assert row(firstnan.count_finite(turned, threads=threads)) == from_numpy(turned)


def test_the_largest_of_64_bits_is_found_below_the_high_half():
    for order in (1, -1):
        array = np.array([1.0, np.nextafter(1.0, 2), 1.0 + 1e-12][::order])
        assert firstnan.count_finite(array).maximum_absolute_finite == 1.0 + 1e-12


def test_subnormals_and_the_most_negative_integer():
    assert firstnan.count_finite(np.array([5e-324])).maximum_absolute_finite == 5e-324
    assert firstnan.count_finite(np.array([-(2**63)])).maximum_absolute_finite == 2.0**63


def test_a_jax_array_and_a_memoryview():
    array = jnp.array([1, np.nan, 3], jnp.bfloat16)
    assert row(firstnan.count_finite(array)) == (3, 1, 0, 0, 3.0, 1)
    assert row(firstnan.count_finite(memoryview(b"\x01\xff"))) == (2, 0, 0, 0, 255.0, None)


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "complex64", "complex128", "bool", "int8", "uint64"])
def test_a_buffer_without_a_dimension(name):
    low = -np.inf if name.startswith("float") else 1
    for array in (np.array(3, name), np.array(3, np.dtype(name).newbyteorder()), np.array(low, name)):
        assert row(firstnan.count_finite(memoryview(array))) == from_numpy(array)
    with pytest.raises(TypeError):
        firstnan.count_finite(memoryview(np.zeros((), "M8[s]").view("V8")))


@pytest.mark.parametrize("letter", "bBhHiIlLqQfd")
def test_the_formats_of_python_itself(letter):
    values = arrays.array(letter, [1, 2, 3])
    assert row(firstnan.count_finite(values)) == (3, 0, 0, 0, 3.0, None)
    assert row(firstnan.count_finite(memoryview(values)[::-2])) == (2, 0, 0, 0, 3.0, None)
    if letter in CTYPES:
        assert row(firstnan.count_finite((CTYPES[letter] * 2)(4, 5))) == (2, 0, 0, 0, 5.0, None)


def test_a_sharded_jax_array_is_counted_once_and_in_its_own_order():
    code = """
import jax, numpy as np, firstnan
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
x = np.ones((4, 6), np.float32)
x[3, 1] = np.nan
x[1, 5] = np.inf
for spec in (P("a", "b"), P(None, "b"), P("a"), P()):
    counts = firstnan.count_finite(jax.device_put(x, NamedSharding(mesh, spec)))
    assert (counts.checked, counts.nan, counts.positive_infinity, counts.first_nonfinite) == (24, 1, 1, 11), (spec, counts)
"""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | flags)


def test_a_process_that_forks_after_counting_and_meanwhile_goes_on_counting():
    code = """
import os, threading, numpy as np, firstnan
x = np.ones(1 << 23, np.float32)
firstnan.count_finite(x, threads=2)
stop = threading.Event()
def goes_on():
    while not stop.is_set():
        firstnan.count_finite(x, threads=2)
other = threading.Thread(target=goes_on)
other.start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        os._exit(0 if firstnan.count_finite(x, threads=2).checked == x.size else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
other.join()
assert firstnan.count_finite(x, threads=2).checked == x.size
"""
    subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", code], check=True, timeout=120)


def test_another_thread_goes_on_while_one_counts():
    array = np.ones(1 << 26, np.float32)
    ticks, started, stop = [0], threading.Event(), threading.Event()

    def tick():
        while not stop.is_set():
            ticks[0] += 1
            started.set()
            time.sleep(0)

    interval = sys.getswitchinterval()
    other = threading.Thread(target=tick)
    other.start()
    started.wait()
    # Longer than the test: a thread that does not let the interpreter go by itself keeps it.
    sys.setswitchinterval(1000)
    try:
        before = ticks[0]
        for _ in range(3):
            firstnan.count_finite(array, threads=1)
        during = ticks[0] - before
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        other.join()
    assert during > 0


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (np.array([object()]), TypeError),
        (np.array(["a"]), TypeError),
        (np.array([1], "M8[s]"), TypeError),
        (np.zeros(2, [("a", "f4")]), TypeError),
        (np.ma.masked_array([1.0], [True]), TypeError),
        (np.zeros(1, np.longdouble), TypeError),
        ([1.0], TypeError),
        (None, TypeError),
        (1.0, TypeError),
        (jax.random.key(0), TypeError),
    ],
)
def test_what_holds_no_number_is_refused(value, error):
    with pytest.raises(error):
        firstnan.count_finite(value)


def test_a_traced_array_is_refused():
    with pytest.raises(TypeError, match="count_stages"):
        jax.jit(lambda x: firstnan.count_finite(x).checked)(jnp.ones(2))


@pytest.mark.parametrize("threads", [0, -1, 1025, True, 1.0, "2"])
def test_a_number_of_threads_out_of_bounds(threads):
    with pytest.raises(ValueError, match="from 1 to 1,024"):
        firstnan.count_finite(b"a", threads=threads)
