"""Every bit pattern of the small formats and any of the large ones, against what numpy and ml_dtypes say of the value."""

import math

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstnan.jax import LeafCount, count_stages
from firstnan.jax.formats import FORMATS, numpy_dtype
from firstnan.jax.structure import pack, unpack

SMALL = [name for name, layout in FORMATS.items() if layout.bits <= 16]
# ml_dtypes has these, JAX 0.10 does not.
NOT_IN_JAX = {"float8_e5m3fnu", "float6_e2m3fn", "float6_e3m2fn"}
count_jitted = jax.jit(lambda x: count_stages(input=x))


def expected(values):
    """NaN, +Inf, -Inf and the largest finite magnitude, by value."""
    with np.errstate(all="ignore"):  # numpy warns when it widens a signalling NaN
        wide = np.asarray(values).astype(np.float64)
    finite = np.abs(wide[np.isfinite(wide)])
    return (
        int(np.isnan(wide).sum()),
        int(np.isposinf(wide).sum()),
        int(np.isneginf(wide).sum()),
        float(finite.max()) if finite.size else 0.0,
    )


def told(counts):
    leaf: LeafCount = counts.to_host().leaves[0]
    return leaf.nan, leaf.positive_infinity, leaf.negative_infinity, leaf.maximum_absolute_finite


def patterns(name):
    layout = FORMATS[name]
    return np.arange(1 << layout.bits, dtype=f"uint{max(8, layout.bits)}").view(numpy_dtype(name))


def test_no_float_of_jax_or_ml_dtypes_is_missing():
    import ml_dtypes

    known = {name for name in dir(ml_dtypes) if name.startswith(("float", "bfloat"))}
    known |= {np.dtype(t).name for t in (np.float16, np.float32, np.float64)}
    assert set(FORMATS) == known


@pytest.mark.parametrize("name", SMALL)
def test_every_pattern_of_a_small_format_together(name):
    values = patterns(name)
    assert told(count_stages(input=values)) == expected(values)
    if name not in NOT_IN_JAX:
        assert told(count_jitted(jnp.asarray(values))) == expected(values)


@pytest.mark.parametrize("name", SMALL)
def test_every_pattern_of_a_small_format_by_itself(name):
    values = patterns(name)
    if name in NOT_IN_JAX:
        each = [count_stages(input=values[i : i + 1]) for i in range(len(values))]
    else:
        each = list(jax.jit(jax.vmap(lambda x: count_stages(input=x)))(jnp.asarray(values)[:, None]).unstack())
    with np.errstate(all="ignore"):
        wide = values.astype(np.float64)
    for value, counts in zip(wide, each, strict=True):
        nonfinite = (int(np.isnan(value)), int(value == np.inf), int(value == -np.inf))
        assert told(counts) == (*nonfinite, abs(float(value)) if np.isfinite(value) else 0.0)


@pytest.mark.parametrize("name", ["float32", "float64"])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_pattern_of_a_wide_format(name, data):
    layout = FORMATS[name]
    edges = [0, 1, layout.largest, layout.largest + 1, layout.largest + 2, layout.sign, layout.sign - 1]
    edges += [layout.sign | edge for edge in edges[:5]]
    drawn = data.draw(st.lists(st.sampled_from(edges) | st.integers(0, (1 << layout.bits) - 1), min_size=5, max_size=5))
    values = np.array(drawn, dtype=f"uint{layout.bits}").view(name)
    assert told(count_stages(input=values)) == expected(values)
    with jax.enable_x64(True):
        assert told(count_jitted(jnp.asarray(values))) == expected(values)


def test_float64_on_the_device_is_exact_where_64_bit_types_are_off():
    with jax.enable_x64(True):
        values = jnp.asarray([1e300, -5e-324, np.nan, np.inf, -np.inf])
    assert told(count_jitted(values)) == (1, 1, 1, 1e300)
    assert told(count_jitted(values[1:2])) == (0, 0, 0, 5e-324)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_subnormals_are_finite_and_keep_their_magnitude(name):
    tiny = np.array([1], dtype=f"uint{FORMATS[name].bits}").view(numpy_dtype(name))
    counted = told(count_jitted(jnp.asarray(tiny)))
    assert counted == (0, 0, 0, float(tiny.astype(np.float64)[0]))
    assert counted[3] > 0


@pytest.mark.parametrize("where", ["host", "device"])
@pytest.mark.parametrize("name", ["complex64", "complex128"])
def test_a_complex_element_counts_once(name, where):
    inf, nan = np.inf, np.nan
    values = [(nan, inf), (1, nan), (inf, -inf), (-inf, inf), (2, -inf), (3, -4), (1e30, 2e30)]
    array = np.array([complex(*value) for value in values], dtype=name)
    with jax.enable_x64(True):
        counts = count_jitted(jnp.asarray(array)) if where == "device" else count_stages(input=array)
    largest = float(np.float32(2e30)) if name == "complex64" else 2e30
    assert told(counts) == (2, 1, 2, largest)


@pytest.mark.parametrize(("name", "part"), [("complex32", np.float16), ("bcomplex32", ml_dtypes.bfloat16)])
def test_the_small_complex_numbers_of_ml_dtypes_count_as_their_parts_do(name, part):
    words = np.random.default_rng(0).integers(0, 1 << 16, (2, 4096, 3, 2), np.uint16)
    words[1] &= np.uint16(0xFFFF ^ (1 << np.finfo(np.float16).nmant))
    every = np.arange(1 << 16, dtype=np.uint16)
    words[0, :, 0, 0], words[0, :, 0, 1] = every[:4096], every[-4096:]
    array = words.view(numpy_dtype(name))[..., 0]
    for laid in (array, array[::-1, ::7, ::-1], array.T, array.byteswap().view(array.dtype.newbyteorder())):
        native = laid.astype(numpy_dtype(name)) if laid is not array else array
        with np.errstate(all="ignore"):  # numpy warns when it widens a signalling NaN
            parts = np.ascontiguousarray(native).view(part).reshape(*native.shape, 2).astype(np.float64)
        wide = parts.view(np.complex128)[..., 0]
        leaf = count_stages(input=laid).to_host().leaves[0]
        assert (leaf.dtype, told(count_stages(input=laid))) == (name, told(count_stages(input=wide)))
        assert leaf.nan > 0
    saved, tensors = pack({"z": array})
    assert saved["leaves"][0]["dtype"] == name
    assert unpack(saved, tensors)["z"].tobytes() == array.tobytes()


def test_the_magnitude_of_a_complex_number_does_not_overflow():
    near = np.float32(3e38)
    assert told(count_jitted(jnp.asarray([complex(near, near)], jnp.complex64)))[3] == float(near)


@pytest.mark.parametrize("name", ["int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_an_integer_leaf_is_finite_and_has_its_own_magnitude(name):
    with jax.enable_x64(True):
        limits = jnp.iinfo(name)
        values = jnp.asarray([limits.min, 0, limits.max], name)
        for counts in (count_jitted(values), count_stages(input=np.asarray(values))):
            assert told(counts) == (0, 0, 0, max(int(limits.max), -int(limits.min)))
            assert counts.to_host().total("input").maximum_absolute_finite == 0.0


def test_a_float_without_finite_elements_has_magnitude_zero():
    all_nan = jnp.full((3,), jnp.nan, jnp.float8_e8m0fnu)
    assert told(count_jitted(all_nan)) == (3, 0, 0, 0.0)
    assert math.copysign(1, told(count_jitted(jnp.asarray([-0.0])))[3]) == 1
