""".npy and .npz files as numpy writes them, and damaged ones."""

import contextlib
import io
import random
import zipfile

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scan_files import arrays, expected, told

import firstnan
from firstnan import ContractError
from firstnan.checkpoints.npy_header import NoNumbers, decode_npy_header, read_npy_header
from firstnan.checkpoints.npz import BLOCK_BYTES

SAVERS = {"stored": np.savez, "deflated": np.savez_compressed}


def variants():
    """The arrays that numpy saves by name, in either order and both byte orders."""
    given = {name: array for name, array in arrays().items() if array.dtype.kind != "V"}
    given |= {f"{name}-fortran": np.asfortranarray(array) for name, array in given.items()}
    given |= {f"{name}-big": array.astype(array.dtype.newbyteorder(">")) for name, array in given.items()}
    return given


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("saver", SAVERS)
def test_an_npz_of_numpy(tmp_path, saver, threads):
    given = variants()
    SAVERS[saver](tmp_path / "model.npz", **given)
    scanned = firstnan.scan(tmp_path / "model.npz", threads=threads)
    assert scanned.not_counted == ()
    assert {tensor.name: told(tensor.counts) for tensor in scanned.tensors} == {n: expected(a) for n, a in given.items()}
    assert {tensor.name: tensor.shape for tensor in scanned.tensors} == {name: array.shape for name, array in given.items()}


@pytest.mark.parametrize("name", ["long", "half-fortran-big", "double-fortran", "scalar", "empty", "truth"])
@pytest.mark.parametrize("threads", [1, 2])
def test_an_npy_of_numpy(tmp_path, name, threads):
    array = variants()[name]
    np.save(tmp_path / "w.npy", array)
    scanned = firstnan.scan(tmp_path / "w.npy", threads=threads)
    (tensor,) = scanned.tensors
    assert (tensor.file, tensor.name, tensor.shape, told(tensor.counts)) == ("w.npy", "w", array.shape, expected(array))
    assert scanned.complete


def test_a_large_array_in_fortran_order_is_told_in_c_order(tmp_path):
    array = np.ones((3, 500, 601), np.float32, order="F")
    array[1, 2, 3] = array[0, 499, 600] = np.nan
    np.savez(tmp_path / "w.npz", w=array)
    np.save(tmp_path / "w.npy", array)
    assert array.nbytes > 2 * BLOCK_BYTES
    for name in ("w.npz", "w.npy"):
        for threads in (1, 2):
            (tensor,) = firstnan.scan(tmp_path / name, threads=threads).tensors
            assert tensor.counts.first_nonfinite == 499 * 601 + 600


def test_a_member_in_the_form_of_large_archives(tmp_path):
    with zipfile.ZipFile(tmp_path / "w.npz", "w") as archive, archive.open("w.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array(file, np.array([1, np.inf]))
    (tensor,) = firstnan.scan(tmp_path / "w.npz").tensors
    assert tensor.counts.positive_infinity == 1


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_format(tmp_path, version):
    with (tmp_path / "w.npy").open("wb") as file:
        np.lib.format.write_array(file, np.array([1, np.nan]), version=version)
    assert firstnan.scan(tmp_path / "w.npy").nan == 1


def test_raw_bytes_need_a_word(tmp_path):
    array = np.array([1, np.nan, -3], ml_dtypes.bfloat16)
    np.savez(tmp_path / "w.npz", w=array, f=array.astype(np.float32))
    scanned = firstnan.scan(tmp_path / "w.npz")
    assert [(entry.name, "--raw-dtype" in entry.reason) for entry in scanned.not_counted] == [("w", True)]
    assert [tensor.name for tensor in scanned.tensors] == ["f"]
    scanned = firstnan.scan(tmp_path / "w.npz", raw_dtypes=["bfloat16", "float8_e5m2"])
    assert told(scanned.tensors[0].counts) == expected(array)
    for wrong in (["float32"], ["float8_e5m2", "float8_e4m3fn"], [3]):
        with pytest.raises(ContractError, match="raw_dtypes"):
            firstnan.scan(tmp_path / "w.npz", raw_dtypes=wrong)


def test_what_holds_no_numbers_is_no_fault(tmp_path):
    np.savez(tmp_path / "w.npz", w=np.ones(3), s=np.array(["a", "b"]), d=np.array(["2026-12-03"], "M8[D]"), b=np.array([b"x"]))
    with zipfile.ZipFile(tmp_path / "w.npz", "a") as archive:
        archive.writestr("readme.txt", "text")
    scanned = firstnan.scan(tmp_path / "w.npz")
    assert {(entry.name, entry.kind) for entry in scanned.not_counted} == {
        (name, "no_numbers") for name in ("s", "d", "b", "readme.txt")
    }
    assert scanned.all_finite


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array([1, "a"], object), "pickled objects"),
        (np.zeros(2, [("a", "f4"), ("b", "f4")]), "not of several fields"),
        (np.ones(2, np.longdouble), "a dtype that is not counted"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, array, words):
    np.save(tmp_path / "w.npy", array, allow_pickle=True)
    np.savez(tmp_path / "w.npz", w=array, good=np.ones(2))
    for name in ("w.npy", "w.npz"):
        (refused,) = firstnan.scan(tmp_path / name).not_counted
        assert (refused.name, refused.kind) == ("w", "refused")
        assert words in refused.reason
    assert firstnan.scan(tmp_path / "w.npz").checked == 2


def test_the_size_of_an_npy_is_its_arrays(tmp_path):
    np.save(tmp_path / "w.npy", np.ones(100))
    data = (tmp_path / "w.npy").read_bytes()
    for cut in (*range(0, 128, 5), 127, 128, 500, len(data) - 1):
        (tmp_path / "w.npy").write_bytes(data[:cut])
        scanned = firstnan.scan(tmp_path / "w.npy")
        assert [entry.kind for entry in scanned.not_counted] == ["refused"]
        assert scanned.tensors == ()
    (tmp_path / "w.npy").write_bytes(data + b"x")
    scanned = firstnan.scan(tmp_path / "w.npy")
    assert scanned.checked == 100
    assert [entry.reason for entry in scanned.not_counted] == ["there are bytes after the array [maximum: 0]"]


def test_a_flipped_bit_costs_one_member(tmp_path):
    for saver in SAVERS.values():
        saver(tmp_path / "w.npz", a=np.arange(1000.0), b=np.arange(1000.0) * 2, c=np.ones(1))
        data = bytearray((tmp_path / "w.npz").read_bytes())
        with zipfile.ZipFile(tmp_path / "w.npz") as archive:
            member = archive.getinfo("b.npy")
        data[member.header_offset + 40 + member.compress_size // 2] ^= 1
        (tmp_path / "w.npz").write_bytes(data)
        scanned = firstnan.scan(tmp_path / "w.npz")
        assert [tensor.name for tensor in scanned.tensors] == ["a", "c"]
        assert [(entry.name, entry.kind) for entry in scanned.not_counted] == [("b", "refused")]


def test_a_name_twice_in_an_archive_is_neither(tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.ones(2))
    with zipfile.ZipFile(tmp_path / "w.npz", "w") as archive:
        for name in ("a.npy", "b.npy"):
            archive.writestr(name, buffer.getvalue())
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a.npy", buffer.getvalue())
    scanned = firstnan.scan(tmp_path / "w.npz")
    assert [tensor.name for tensor in scanned.tensors] == ["b"]
    assert {entry.reason for entry in scanned.not_counted} == {"its name comes twice in the archive"}


def test_an_archive_cut_anywhere_is_refused(tmp_path):
    np.savez_compressed(tmp_path / "w.npz", a=np.arange(300.0), b=np.ones(3))
    data = (tmp_path / "w.npz").read_bytes()
    for cut in range(0, len(data), 41):
        (tmp_path / "w.npz").write_bytes(data[:cut])
        scanned = firstnan.scan(tmp_path / "w.npz")
        assert [(entry.name, entry.kind) for entry in scanned.not_counted] == [(None, "refused")]


def test_any_damage_to_an_archive_is_told_or_harmless(tmp_path):
    """Whatever few bytes change, what is counted is what was written, by the CRC of its member."""
    given = {"a": np.arange(60.0), "b": np.array([1, np.nan], np.float32)}
    np.savez_compressed(tmp_path / "w.npz", **given)
    data = (tmp_path / "w.npz").read_bytes()
    rng = random.Random(5)
    for _ in range(1500):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        (tmp_path / "x.npz").write_bytes(damaged)
        for tensor in firstnan.scan(tmp_path / "x.npz", threads=1).tensors:
            assert told(tensor.counts) in [expected(array) for array in given.values()]


HEADER = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 40), }    \n"


@given(st.lists(st.tuples(st.integers(0, len(HEADER) - 1), st.integers(0, 255)), max_size=4), st.integers(0, 99))
def test_any_mutation_of_a_header_is_read_or_refused(changes, cut):
    text = bytearray(HEADER)
    for place, byte in changes:
        text[place] = byte
    try:
        header = decode_npy_header(bytes(text[: len(text) - cut if cut < 20 else None]), {})
    except (ContractError, NoNumbers):
        return
    assert header.data_bytes >= 0


@given(st.binary(max_size=200), st.sampled_from([b"", b"\x93NUMPY\x01\x00", b"\x93NUMPY\x02\x00", b"\x93NUMPY\x01\x00\x20\x00{"]))
def test_any_bytes_are_a_header_or_refused(data, start):
    with contextlib.suppress(ContractError, NoNumbers):
        read_npy_header(io.BytesIO(start + data).read, {2: "bfloat16"})


@given(st.lists(st.integers(0, 2**40), max_size=6), st.booleans(), st.sampled_from(["<f4", "|b1", ">i8", "<c16", "|u1"]))
def test_every_header_of_numpy_is_read(shape, fortran, descr):
    text = repr({"descr": descr, "fortran_order": fortran, "shape": tuple(shape)}).encode()
    layout = decode_npy_header(text, {}).layout
    assert (layout.shape, layout.fortran, layout.byte_swapped) == (tuple(shape), fortran, descr[0] == ">")
    assert layout.dtype == np.dtype(descr).name


@pytest.mark.parametrize("text", ["{'shape': (3), 'descr': '<f4', 'fortran_order': False}", "{'descr': '<f4'}", "{}", "",
                                  "{'descr': '<f4', 'fortran_order': 'True', 'shape': (3,)}",
                                  "{'descr': '<f4', 'descr': '<f4', 'fortran_order': True, 'shape': (3,)}",
                                  "{'descr': '<f4', 'fortran_order': True, 'shape': (9223372036854775808,)}",
                                  "{'descr': '<f4', 'fortran_order': True, 'shape': (-3,)}",
                                  "{'descr': '<f4', 'fortran_order': True, 'shape': (,)}"])  # fmt: skip
def test_a_header_that_is_none(text):
    with pytest.raises(ContractError):
        decode_npy_header(text.encode(), {})
