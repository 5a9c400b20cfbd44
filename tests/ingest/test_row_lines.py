"""Rows of Arrow as lines: byte for byte what Python alone writes; and what it refuses, this refuses."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lines import EXAMPLES, KINDS, TELEMETRY, files
from plain_rows import lines_of

import firstnan
from firstnan._core import LineReader, RowLines, table_of_kind

INTEGERS = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63}
UNSIGNED = {pa.uint8(): 8, pa.uint16(): 16, pa.uint32(): 32, pa.uint64(): 64}
FLOATS = {pa.float16(): 16, pa.float32(): 32, pa.float64(): 64}
TEXTS = (pa.string(), pa.large_string(), pa.string_view())
ODD = st.sampled_from('"\\\n\r\x00\x7f\x85\u2028\U0001f600')
TEXT = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), ODD), max_size=6)
DIGITS = st.one_of(st.integers().map(str), st.integers(-(10**40), 10**40).map(str), st.sampled_from(["-0", "007", "-00", "0"]))
# Names of every meaning: of a pair, of an item, of an envelope, of a place, of a union, and none.
NAMES = ("x", "x_integer", "item", "item_integer", "y_integer", "envelope_rank", "envelope_a", "line_number", "run_id", 'q"\n')


def sized(data: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.one_of(data, data, data, st.none()), min_size=5, max_size=5)


@st.composite
def plain_columns(draw: st.DrawFn) -> pa.Array:
    """Five values of one type, some of them null."""
    match draw(st.integers(0, 6)):
        case 0:
            of, bits = draw(st.sampled_from(list(INTEGERS.items())))
            return pa.array(draw(sized(st.integers(-(1 << bits), (1 << bits) - 1))), of)
        case 1:
            of, bits = draw(st.sampled_from(list(UNSIGNED.items())))
            return pa.array(draw(sized(st.integers(0, (1 << bits) - 1))), of)
        case 2:
            of, bits = draw(st.sampled_from(list(FLOATS.items())))
            return pa.array(draw(sized(st.floats(width=bits))), of)  # type: ignore[arg-type]
        case 3:
            return pa.array(draw(sized(TEXT)), draw(st.sampled_from(TEXTS)))
        case 4:
            return pa.array(draw(sized(st.booleans())))
        case 5:
            return pa.nulls(5, draw(st.sampled_from([pa.null(), pa.date32(), pa.binary(), pa.decimal128(5)])))
        case _:
            return pa.array(draw(sized(TEXT)), draw(st.sampled_from(TEXTS[:2]))).dictionary_encode()


@st.composite
def columns(draw: st.DrawFn, depth: int = 2) -> pa.Array:
    """As `plain_columns`, or lists of every layout, or structs, of these."""
    shape = draw(st.integers(0, 6)) if depth else 0
    if shape < 3:
        return draw(plain_columns())
    if shape == 3:
        return draw(structs(depth))
    values = pa.concat_arrays([inner := draw(columns(depth - 1)), inner])
    if shape == 4:
        return pa.FixedSizeListArray.from_arrays(values, 2)
    ends = sorted(draw(st.lists(st.integers(0, 10), min_size=6, max_size=6)))
    mask = pa.array(draw(st.lists(st.booleans(), min_size=5, max_size=5)))
    if shape == 5:
        made = draw(st.sampled_from([pa.ListArray, pa.LargeListArray]))
        return made.from_arrays(ends, values, mask=mask)
    made, of = draw(st.sampled_from([(pa.ListViewArray, pa.int32()), (pa.LargeListViewArray, pa.int64())]))
    sizes = [end - start for start, end in pairwise(ends)]
    return made.from_arrays(pa.array(ends[:-1], of), pa.array(sizes, of), values, mask=mask)


@st.composite
def members(draw: st.DrawFn, depth: int, *, names: st.SearchStrategy[list[str]]) -> dict[str, pa.Array]:
    """Columns by name; beside a float, one of its digits."""
    found: dict[str, pa.Array] = {}
    for name in draw(names):
        base = found.get(name.removesuffix("_integer"))
        if name.endswith("_integer") and base is not None:
            if pa.types.is_floating(base.type):
                found[name] = draw(sized(DIGITS).map(pa.array) | sized(st.integers(-(2**63), 2**63 - 1)).map(pa.array))
        elif not name.endswith("_integer") or name.removesuffix("_integer") not in NAMES:
            found[name] = draw(columns(0 if name.startswith("envelope_") else depth))
    return found


def structs(depth: int) -> st.SearchStrategy[pa.Array]:
    pairs = st.sampled_from([["x"], ["item", "item_integer"], ["x", "x_integer", "run_id"]])
    names = st.permutations(NAMES[:5]).map(list) | pairs

    def struct(fields: dict[str, pa.Array], mask: list[bool]) -> pa.Array:
        return pa.StructArray.from_arrays(list(fields.values()), list(fields), mask=pa.array(mask))

    made = members(depth - 1, names=names).filter(bool)
    return st.builds(struct, made, st.lists(st.booleans(), min_size=5, max_size=5))


BATCHES = members(2, names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True)).filter(bool)


def lines_of_rows(rows: Any, kind: str | None = None) -> bytes:
    reader = RowLines(rows, kind=kind)
    return b"".join(iter(reader.next_lines, None))


def same(batch: pa.RecordBatch, kind: str | None = None) -> bytes:
    ours = lines_of_rows(batch, kind)
    assert ours == b"".join(lines_of(batch, kind))
    return ours


@given(BATCHES, st.booleans(), st.sampled_from([None, "stage-message"]), st.integers(0, 4), st.integers(0, 5))
def test_columns_of_any_type_are_written_as_python_writes_them(found, ours, kind, start, length):
    if ours:
        found["record_sha256"] = pa.array([b"x"] * 5)
    batch = pa.RecordBatch.from_pydict(found)
    same(batch, kind)
    assert same(batch.slice(start, length), kind).count(b"\n") == min(length, 5 - start)


@given(files())
def test_tables_of_ours_become_the_lines_that_they_came_from(text):
    reader = LineReader(text, name="x")
    while (shard := reader.next_shard()) is not None:
        decoded = shard.decode()
        for kind in decoded.kinds:
            for batch in pa.table(decoded.table(kind)).to_batches():
                again = LineReader(same(batch), name="x").next_shard().decode()
                table = pa.table(again.table(kind))
                assert table.column("record_sha256").to_pylist() == batch.column("record_sha256").to_pylist()
                fields = [name for name in batch.schema.names if not name.startswith(("line_", "record_", "envelope_"))]
                same(batch.select(fields))


@pytest.mark.parametrize("kind", KINDS)
def test_examples_as_columns(kind):
    for example in EXAMPLES[kind]:
        same(pa.RecordBatch.from_pylist([example]))
    assert same(pa.RecordBatch.from_pylist([], pa.table(table_of_kind(kind)).schema)) == b""


def test_one_column_of_text_is_lines_in_any_layout():
    texts = [json.dumps(TELEMETRY, indent=1), None, "", "é\n", "{"]
    expected = same(pa.RecordBatch.from_pydict({"text": pa.array(texts)}))
    assert expected.count(b"\n") == len(texts)
    for column in (*(pa.array(texts, of) for of in TEXTS), pa.array(texts).dictionary_encode()):
        assert lines_of_rows(pa.RecordBatch.from_pydict({"text": column})) == expected


@pytest.mark.parametrize(("column", "pointer"), [
    ({"run_id": pa.array([b"x"])}, "/run_id"),
    ({"a": pa.array([1]), "when": pa.array([0], pa.timestamp("s"))}, "/when"),
    ({"x.1": pa.array([1], pa.date32())}, "/?"),
    ({"a": pa.array([{"b": [b"x"]}])}, "/b"),
    ({"a": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))}, "/a"),
])  # fmt: skip
def test_what_json_has_no_form_for_is_refused_by_the_name_of_its_column(column, pointer):
    with pytest.raises(firstnan.ContractError) as refused:
        lines_of_rows(pa.RecordBatch.from_pydict(column))
    assert (refused.value.kind, refused.value.layer, refused.value.pointer) == ("unsupported", "wire", pointer)


def test_digits_are_digits():
    for text in ("", "-", "1_0", " 1", "+1", "x", "٣"):
        with pytest.raises(firstnan.ContractError, match="digits"):
            lines_of_rows(pa.RecordBatch.from_pydict({"x": pa.array([1.0]), "x_integer": pa.array([text])}))
    for wrong in (1, "no stream"):
        with pytest.raises(AttributeError):
            lines_of_rows(wrong)
    with pytest.raises(firstnan.ContractError, match="kind"):
        lines_of_rows(pa.RecordBatch.from_pydict({"x": [1]}), kind="none")


def test_lines_come_in_parts_of_a_bounded_size():
    texts = ["x" * 300_000] * 10 + ["y" * 3_000_000] + [""] * 10
    table = pa.table({"text": pa.chunked_array([texts[:7], [], texts[7:]])})
    reader = RowLines(table)
    parts = list(iter(reader.next_lines, None))
    assert b"".join(parts).decode() == "".join(f"{text}\n" for text in texts)
    assert [part.count(b"\n") for part in parts] == [4, 3, 4, 10]
    assert reader.next_lines() is None
