"""safetensors files as their own package writes them, and every way in which one may be damaged."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file
from scan_files import FIRSTNAN, arrays, command, entry, expected, safetensors_bytes, told

import firstnan
from firstnan import ContractError
from firstnan.checkpoints import NotCounted
from firstnan.checkpoints.safetensors_header import MAX_AXES, decode_header, header_length


@pytest.mark.parametrize("threads", [1, 3])
def test_a_file_of_the_safetensors_package(tmp_path, threads):
    given = arrays()
    save_file(given, tmp_path / "model.safetensors", metadata={"format": "np"})
    scanned = firstnan.scan(tmp_path / "model.safetensors", threads=threads)
    assert scanned.not_counted == ()
    assert {tensor.name: told(tensor.counts) for tensor in scanned.tensors} == {n: expected(a) for n, a in given.items()}
    assert {tensor.name: (tensor.dtype, tensor.shape) for tensor in scanned.tensors} == {
        name: (array.dtype.name, array.shape) for name, array in given.items()
    }
    assert not scanned.all_finite
    assert scanned.complete
    assert scanned.nonfinite == sum(sum(expected(array)[1:4]) for array in given.values())
    assert scanned.worst_first()[0].counts.nonfinite == 2


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_every_pattern_of_the_small_types(tmp_path, name):
    stored = {"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0"}
    array = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, name))
    header = {"w": entry(0, 256, stored.get(name, name.upper().replace("FLOAT8", "F8")), [16, 16])}
    (tmp_path / "w.safetensors").write_bytes(safetensors_bytes(header, array.tobytes()))
    (tensor,) = firstnan.scan(tmp_path / "w.safetensors").tensors
    assert told(tensor.counts) == expected(array)


def test_two_elements_of_four_bits_in_a_byte(tmp_path):
    # Of the patterns of float4_e2m1fn 7 is 6, the largest.
    (tmp_path / "w.safetensors").write_bytes(safetensors_bytes({"w": entry(0, 8, "F4", [2, 8])}, bytes([0x07, 0x10] * 4)))
    (tensor,) = firstnan.scan(tmp_path / "w.safetensors").tensors
    assert (tensor.dtype, tensor.shape, told(tensor.counts)) == ("float4_e2m1fn", (2, 8), (16, 0, 0, 0, 6.0, None))


def shards(folder):
    """Two shards and their index."""
    save_file({"a": np.ones(3, np.float32)}, folder / "model-00001-of-00002.safetensors")
    save_file({"b": np.array([1, np.nan], np.float32)}, folder / "model-00002-of-00002.safetensors")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return index


def test_shards_by_folder_and_by_index(tmp_path):
    shards(tmp_path)
    for path in (tmp_path, tmp_path / "model.safetensors.index.json"):
        scanned = firstnan.scan(path)
        assert [(tensor.name, tensor.counts.nan) for tensor in scanned.tensors] == [("a", 0), ("b", 1)]
        assert scanned.complete


def test_what_an_index_lists_and_is_not_there(tmp_path):
    index = shards(tmp_path)
    index["weight_map"] |= {"c": "model-00002-of-00002.safetensors", "d": "gone.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    for path in (tmp_path, tmp_path / "model.safetensors.index.json"):
        scanned = firstnan.scan(path)
        assert len(scanned.tensors) == 2
        assert [(entry.file, entry.name) for entry in scanned.not_counted] == [
            ("gone.safetensors", None),
            ("model-00002-of-00002.safetensors", "c"),
        ]


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"weight_map": {"a": "../x.safetensors"}}', '{"weight_map": {"a": 3}}',
                                  '{"weight_map": []}', '{"weight_map": {"a": {}}}'])  # fmt: skip
def test_a_damaged_index_costs_no_shard_its_counts(tmp_path, text):
    shards(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(text)
    scanned = firstnan.scan(tmp_path)
    assert len(scanned.tensors) == 2
    assert [entry.file for entry in scanned.not_counted] == ["model.safetensors.index.json"]
    with pytest.raises(ContractError, match="the index must"):
        firstnan.scan(tmp_path / "model.safetensors.index.json")


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (entry(8, 16, "F33"), "dtype is unknown"),
        (entry(8, 16, "F6_E2M3", [10]), "dtype is unknown"),
        (entry(8, 16, ["F32"]), "dtype is unknown"),
        (entry(8, 16, shape=[3]), "data_offsets must span as many bytes"),
        (entry(8, 16, "F4", [15]), "shape and dtype must make whole bytes"),
        (entry(8, 16, shape=[-2]), "shape must be a list of integers from 0"),
        (entry(8, 16, shape=[True, 2]), "shape must be a list"),
        (entry(8, 16, shape=[1] * MAX_AXES + [2]), "shape must be a list"),
        (entry(8, 24), "data_offsets must end within the file's bytes of tensors [maximum: 16]"),
        (entry(4, 12), "data_offsets must start where the tensor before ends [minimum: 8]"),
        (entry(8, 16) | {"data_offsets": [16, 8]}, "data_offsets must span"),
        (entry(8, 16) | {"data_offsets": [8, 16.0]}, "data_offsets must be two integers"),
        (entry(8, 16) | {"data_offsets": [8, 16, 24]}, "data_offsets must be two integers"),
        (entry(8, 16) | {"more": 1}, "its entry must be an object"),
        ({"dtype": "F32"}, "its entry must be an object"),
        ([], "its entry must be an object"),
        (None, "its entry must be an object"),
    ],
)
def test_a_damaged_tensor_is_told_and_the_others_counted(tmp_path, bad, words):
    data = np.array([1, np.nan, np.inf, 4], np.float32).tobytes()
    (tmp_path / "w.safetensors").write_bytes(safetensors_bytes({"bad": bad, "good": entry(0, 8)}, data))
    scanned = firstnan.scan(tmp_path / "w.safetensors")
    assert [(tensor.name, told(tensor.counts)) for tensor in scanned.tensors] == [("good", (2, 1, 0, 0, 1.0, 1))]
    ((place, reason),) = [((entry.file, entry.name, entry.kind), entry.reason) for entry in scanned.not_counted]
    assert place == ("w.safetensors", "bad", "refused")
    assert words in reason
    assert not scanned.complete


def test_a_name_that_comes_twice_is_neither(tmp_path):
    text = b'{"a": %s, "b": %s, "a": %s}' % tuple(json.dumps(entry(*at)).encode() for at in ((0, 4), (4, 8), (8, 12)))
    (tmp_path / "w.safetensors").write_bytes(safetensors_bytes(text, bytes(12)))
    scanned = firstnan.scan(tmp_path / "w.safetensors")
    assert [tensor.name for tensor in scanned.tensors] == ["b"]
    assert [(entry.name, entry.reason) for entry in scanned.not_counted] == [("a", "its name comes more than once in the header")]


def test_bytes_of_no_tensor_are_told(tmp_path):
    (tmp_path / "w.safetensors").write_bytes(safetensors_bytes({"a": entry(4, 8), "b": entry(8, 12)}, bytes(16)))
    scanned = firstnan.scan(tmp_path / "w.safetensors")
    assert len(scanned.tensors) == 2
    assert scanned.not_counted == (NotCounted("w.safetensors", None, "refused", "8 bytes belong to no tensor [maximum: 0]"),)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "shorter than the 8 bytes"),
        (b"1234567", "shorter than the 8 bytes"),
        ((10**8 + 1).to_bytes(8, "little"), "longer than the format allows [size: 100,000,000 bytes]"),
        ((3).to_bytes(8, "little") + b"{}", "ends beyond the file [size: 10 bytes]"),
        (safetensors_bytes(b"{"), "not JSON"),
        (safetensors_bytes(b'{"a": NaN}'), "not JSON"),
        (safetensors_bytes(b"\xff\xfe{}"), "not JSON"),
        (safetensors_bytes(b"[" * 100_000), "not JSON"),
        (safetensors_bytes(b'{"a": ' + b"9" * 5000 + b"}"), "not JSON"),
        (safetensors_bytes(b"[]"), "must be an object"),
        (safetensors_bytes(b"3"), "must be an object"),
    ],
)
def test_a_header_that_cannot_be_read(tmp_path, data, words):
    (tmp_path / "w.safetensors").write_bytes(data)
    (refused,) = firstnan.scan(tmp_path / "w.safetensors").not_counted
    assert (refused.name, refused.kind) == (None, "refused")
    assert words in refused.reason


VALID = safetensors_bytes({"__metadata__": {"k": "v"}, "a": entry(0, 8), "bb": entry(8, 12), "c": entry(12, 12)})


@given(st.lists(st.tuples(st.integers(0, len(VALID) - 9), st.integers(0, 255)), max_size=4), st.integers(0, 40), st.data())
def test_any_mutation_of_a_header_is_read_or_refused(changes, data_bytes, data):
    text = bytearray(VALID[8:])
    for place, byte in changes:
        text[place] = byte
    cut = data.draw(st.integers(0, len(text)))
    try:
        header = decode_header(bytes(text[:cut] if cut % 3 == 0 else text), data_bytes)
    except ContractError:
        return
    places = sorted((entry.start, entry.end) for entry in header.entries)
    assert all(0 <= start <= end <= data_bytes for start, end in places)
    spans = [place for place in places if place[0] < place[1]]
    assert all(one[1] <= two[0] for one, two in pairwise(spans))


def test_many_names_that_come_twice_take_no_longer(tmp_path):
    text = b",".join(b'"%d": %s' % (number, json.dumps(entry(0, 0)).encode()) for number in range(20_000))
    start = time.perf_counter()
    header = decode_header(b"{" + text + b"," + text + b"}", 0)
    assert (len(header.entries), len(header.refused)) == (0, 20_000)
    assert time.perf_counter() - start < 10


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["F32", "BF16", "F4"]) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["dtype", "shape", "data_offsets"]), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4), st.integers(0, 2**63))
def test_any_json_is_a_header_or_refused(header, data_bytes):
    try:
        decoded = decode_header(json.dumps(header, allow_nan=True).encode(), data_bytes)
    except ContractError:
        return
    assert len(decoded.entries) + len([name for name, _ in decoded.refused if name is not None]) == len(
        header.keys() - {"__metadata__"}
    )


@given(st.binary(max_size=12), st.integers(0, 2**64))
def test_any_prefix_is_a_length_within_the_file_or_refused(prefix, size):
    with contextlib.suppress(ContractError):
        assert 0 <= header_length(prefix, size) <= max(0, size - 8)


def test_a_file_cut_anywhere_keeps_what_is_whole(tmp_path):
    path = tmp_path / "model.safetensors"
    given = {name: np.full(1000, index, np.float32) for index, name in enumerate("abcdef")}
    save_file(given, path)
    whole = path.stat().st_size
    data = whole - 6 * 4000
    for size in range(whole, 0, -1777):
        os.truncate(path, size)
        scanned = firstnan.scan(path)
        assert len(scanned.tensors) == max(0, size - data) // 4000
        assert scanned.complete == (size == whole)
        assert all(entry.kind == "refused" for entry in scanned.not_counted)


def test_a_file_that_is_cut_while_it_is_read_is_refused_and_not_a_signal(tmp_path):
    path = tmp_path / "model.safetensors"
    code = f"""
import firstnan, os
cut = []
def progress(done, total):
    if not cut:
        os.truncate({str(path)!r}, 1 << 20)
        cut.append(done)
scanned = firstnan.scan({str(path)!r}, threads=1, progress=progress)
print(len(cut), [(x.name, x.kind, x.reason) for x in scanned.not_counted])
"""
    with path.open("wb") as file:
        size = 4 << 30  # a hole: it takes no room on the disk
        file.write(safetensors_bytes({"w": entry(0, size)}))
        file.truncate(file.tell() + size)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "1 [('w', 'refused', 'the file was cut while it was read [maximum: 1048576 bytes]')]\n"


def test_it_stops_at_a_ctrl_c(tmp_path):
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        size = 1 << 40
        file.write(safetensors_bytes({"w": entry(0, size)}))
        file.truncate(file.tell() + size)
    process = subprocess.Popen([*FIRSTNAN, "scan", path], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"firstnan: interrupted\n")


def test_a_file_without_a_suffix_is_known_by_its_first_bytes(tmp_path):
    save_file({"a": np.ones(3, np.float32)}, tmp_path / "blob")
    assert firstnan.scan(tmp_path / "blob").all_finite
    (tmp_path / "other").write_bytes(b"something else")
    with pytest.raises(ContractError, match="is no checkpoint of these kinds"):
        firstnan.scan(tmp_path / "other")


def test_names_steer_no_terminal(tmp_path):
    save_file({"a\x1b[2J\u202e": np.array([np.nan], np.float32)}, tmp_path / "m.safetensors")
    done = command("scan", tmp_path / "m.safetensors")
    assert b"\x1b" not in done.stdout
    assert "\u202e".encode() not in done.stdout
    assert json.loads(command("scan", "--json", tmp_path / "m.safetensors").stdout)["tensors"][0]["name"] == "a\x1b[2J\u202e"
