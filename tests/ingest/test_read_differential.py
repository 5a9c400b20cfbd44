"""Tables of the core against the same job in plain Python, on files of every sort of line."""

import hashlib
from typing import Any

import plain
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lines import ENVELOPE as ENVELOPED
from lines import KINDS, TELEMETRY, files

from firstnan._core import LineReader

ENVELOPE = [f"envelope_{name}" for name in plain.ENVELOPE]


def tables(text: bytes, *, threads: int | None = None, **options: Any) -> dict[str, Any]:
    """As `plain.table`, by the core, and every pyarrow table."""
    reader = LineReader(text, name="lines", **options)
    rows: dict[str, list[Any]] = {}
    refused, seen, whole = [], b"", []
    counts = dict.fromkeys(("lines", "records", "quarantined", "blank"), 0)
    while (shard := reader.next_shard()) is not None:
        assert shard.start == len(seen)
        part = text[shard.start:shard.start + shard.bytes]
        assert hashlib.sha256(part).hexdigest() == shard.sha256
        assert shard.first_line == counts["lines"] + 1
        assert shard.ended == part.endswith(b"\n")
        seen += part
        decoded = shard.decode(threads=threads)
        assert decoded.lines == shard.lines == decoded.records + decoded.quarantined + decoded.blank
        for name in counts:
            counts[name] += getattr(decoded, name)
        for kind in decoded.kinds:
            table = pa.table(decoded.table(kind))
            table.validate(full=True)
            whole.append((kind, table))
            assert set(table["line_source"].to_pylist()) == {"lines"}
            envelopes = zip(*(table[name].to_pylist() for name in ENVELOPE), strict=True)
            rows.setdefault(kind, []).extend(
                (number, offset, digest, None if envelope[0] is None else envelope)
                for number, offset, digest, envelope in zip(
                    table["line_number"].to_pylist(), table["line_offset"].to_pylist(), table["record_sha256"].to_pylist(),
                    envelopes, strict=True))
        quarantine = pa.table(decoded.quarantine())
        quarantine.validate(full=True)
        whole.append(("quarantine", quarantine))
        for row in quarantine.to_pylist():
            refused.append(tuple(row[name] for name in ("line_number", "line_offset", "raw", "raw_bytes", "kind", "layer")))
            assert row["message"]
            assert row["error"]
            assert row["pointer"] == "" or row["pointer"].startswith("/")
    assert seen == text
    return {"rows": rows, "quarantine": refused, "counts": counts, "whole": whole}


def same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours["counts"] == theirs["counts"]
    assert ours["rows"] == theirs["rows"]
    assert len(ours["quarantine"]) == len(theirs["quarantine"])
    for mine, other in zip(ours["quarantine"], theirs["quarantine"], strict=True):
        assert mine[:4] == other[:4]
        if other[5] is not None:  # plain Python knows
            assert mine[4:] == other[4:], mine


@settings(max_examples=300, deadline=None)
@given(text=files(), shard_bytes=st.sampled_from([1, 100, 1000, 4096, 1 << 24]), threads=st.sampled_from([1, 2, 7, None]),
       max_line_bytes=st.sampled_from([1, 500, 2000, 1 << 20]), kind=st.sampled_from([None, None, None, *KINDS]),
       hash_ahead=st.booleans())
def test_every_line_ends_where_plain_python_puts_it(text, shard_bytes, threads, max_line_bytes, kind, hash_ahead):
    ours = tables(text, shard_bytes=shard_bytes, threads=threads, max_line_bytes=max_line_bytes, kind=kind,
                  hash_ahead=hash_ahead)
    same(ours, plain.table(text, kind=kind, max_line_bytes=max_line_bytes))


@settings(max_examples=50, deadline=None)
@given(text=files(), shard_bytes=st.integers(1, 5000), threads=st.integers(1, 5))
def test_shards_and_threads_change_nothing_in_the_tables(text, shard_bytes, threads):
    def joined(whole: list[tuple[str, pa.Table]]) -> dict[str, list[dict[str, Any]]]:
        out: dict[str, list[dict[str, Any]]] = {}
        for kind, table in whole:
            out.setdefault(kind, []).extend(table.to_pylist())
        return {kind: rows for kind, rows in out.items() if rows}

    assert joined(tables(text, shard_bytes=shard_bytes, threads=threads)["whole"]) == joined(tables(text)["whole"])


def test_every_piece_of_a_large_shard_comes_in_its_place():
    """Pieces are of 1 MiB: this has several, with long lines between, and is decoded by more threads than pieces."""
    telemetry = plain.json.dumps(plain.BUNDLE["x-firstnan-kinds"]).encode()[:500]
    good = plain.json.dumps(TELEMETRY).encode()
    lines = []
    for index in range(9000):
        lines.append(good.replace(b'"step_id": 1842', b'"step_id": %d' % index) if index % 7 else telemetry)
        if index % 3000 == 1:
            lines.append(b"x" * 1_300_000)
            lines.append(b"")
    text = b"\n".join(lines)
    theirs = plain.table(text)
    assert theirs["counts"]["records"] > 7000
    for shard_bytes, threads in ((1 << 30, 9), (1 << 20, 2), (3_000_000, 1)):
        same(tables(text, shard_bytes=shard_bytes, threads=threads), theirs)


@settings(max_examples=200, deadline=None)
@given(text=files(), kind=st.sampled_from([None, None, *KINDS]))
@example(text=b"".join(plain.json.dumps(one).encode() + b"\n" for one in (
    {"envelope": ENVELOPED, "record": TELEMETRY}, {"envelope": ENVELOPED, "record": {**TELEMETRY, "step_id": -1}, **TELEMETRY},
)), kind=None)
def test_why_a_line_is_refused_does_not_depend_on_the_lines_before(text, kind):
    def refused(text: bytes) -> list[tuple[Any, ...]]:
        names = ("raw", "kind", "layer", "error", "pointer", "message")
        whole = tables(text, kind=kind)["whole"]
        return [tuple(row[name] for name in names) for of, table in whole if of == "quarantine" for row in table.to_pylist()]

    for row in refused(text):
        assert refused(row[0]) == [row]


@pytest.mark.parametrize("blank", [b" ", b"  ", b"\t", b"\r", b"\x0b", b"\x0c", b"\x1f", b"\x85", b"\xc2\xa0", b"\xe2\x80\xa8"])
@pytest.mark.parametrize("enveloped", [False, True])
def test_white_space_is_that_of_json_also_where_a_line_is_like_the_one_before(blank, enveloped):
    record, envelope = plain.json.dumps(TELEMETRY).encode(), plain.json.dumps(ENVELOPED).encode()
    parts = [b"{", b'"envelope"', b":", envelope, b",", b'"record"', b":", record, b"}"] if enveloped else [record]
    whole = b"".join(parts)
    written = [b"".join([*parts[:place], blank, *parts[place:]]) for place in range(len(parts) + 1)]
    text = b"\n".join([whole, *(line for one in written for line in (one, whole))])
    theirs = plain.table(text)
    assert theirs["counts"]["records"] == len(parts) + 2 + (len(parts) + 1) * (blank.strip(b" \t\r") == b"")
    same(tables(text), theirs)


@pytest.mark.parametrize("tail", [b"", b"\n", b"\nshort", b"\n\n"])
@pytest.mark.parametrize("length", [1 << 18, (1 << 18) + 1, 1_000_000, 5_000_001])
def test_a_line_that_is_far_too_long(length, tail):
    text = b'{"a":1}\n' + b"x" * length + tail
    ours = tables(text, max_line_bytes=100)
    same(ours, plain.table(text, max_line_bytes=100))
    assert (2, 8, b"x" * 100, length, None, "wire") in ours["quarantine"]
