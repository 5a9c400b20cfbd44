"""Files of lines for hypothesis: records of every kind, bare and enveloped, mutated, and what is no record at all."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from plain import BUNDLE, SCHEMAS

EXAMPLES: dict[str, list[dict[str, Any]]] = {
    kind: json.loads((SCHEMAS / f"v1/{kind}.json").read_text(encoding="utf-8"))["examples"] for kind in BUNDLE["x-firstnan-kinds"]
}
KINDS = sorted(EXAMPLES)
TELEMETRY = EXAMPLES["stage-telemetry"][0]
ODD = st.sampled_from([0, -1, 5.0, 1e400, -0.0, 2**70, None, True, "", "\x00", "é", "\ud800", [], {}, "a" * 200, [[1]]])
ENVELOPE = {"kind": "stage-telemetry", "rank": 1, "world_size": 8, "attempt": 0, "sequence": 7, "source": "host-1"}
WRITTEN = st.sampled_from([
    {}, {"separators": (",", ":")}, {"separators": (" , ", "\t:  ")}, {"ensure_ascii": False}, {"sort_keys": True},
])


@st.composite
def objects(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A record, in one of five a member of it changed."""
    kind = draw(st.sampled_from([*KINDS, *["stage-telemetry"] * 10]))
    record = dict(draw(st.sampled_from(EXAMPLES[kind])))
    if draw(st.integers(0, 4)) == 0:
        name = draw(st.sampled_from(sorted(record)))
        change = draw(st.integers(0, 3))
        if change == 0:
            del record[name]
        elif change == 1:
            record[draw(st.sampled_from(["extra", "run_id", "envelope", "kind"]))] = draw(ODD)
        else:
            record[name] = draw(ODD)
    return kind, record


def text(value: Any, **options: Any) -> bytes:
    return json.dumps(value, **options).encode("utf-8", "surrogatepass")


@st.composite
def bare(draw: st.DrawFn) -> bytes:
    return text(draw(objects())[1], **draw(WRITTEN))


@st.composite
def in_envelope(draw: st.DrawFn) -> bytes:
    kind, record = draw(objects())
    envelope = {**ENVELOPE, "kind": kind, "rank": draw(st.integers(0, 9)), "sequence": draw(st.integers(0, 2**53 - 1))}
    if draw(st.integers(0, 5)) == 0:
        envelope[draw(st.sampled_from(sorted(envelope)))] = draw(st.one_of(ODD, st.sampled_from(["nothing", "envelope"])))
    line: dict[str, Any] = {"envelope": envelope, "record": record}
    match draw(st.integers(0, 9)):
        case 0:
            del line[draw(st.sampled_from(["envelope", "record"]))]
        case 1:
            line["more"] = 1
        case 2:
            line = {"record": record, "envelope": envelope}
    return text(line, **draw(WRITTEN))


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """A byte of a line changed, or the line cut, doubled or with a member twice."""
    line = draw(st.one_of(bare(), in_envelope()))
    place = draw(st.integers(0, len(line) - 1))
    match draw(st.integers(0, 4)):
        case 0:
            return line[:place]
        case 1:
            return line[:place] + draw(st.binary(min_size=1, max_size=2)).replace(b"\n", b"") + line[place + 1:]
        case 2:
            return line + line
        case 3:
            return b"\xef\xbb\xbf" + line
        case _:
            return line.rstrip(b" }") + b', "run_id": "again"}'


OTHER = st.sampled_from([
    b"", b" ", b"\t\r", b"\r", b"\x00", b"\xff\xfe", b"{}", b"[]", b"5", b"null", b'"text"', b'{"a":1}', b"[" * 300, b"NaN",
    b'{"run_id":1}', b'{"envelope":{}}', b'{"record":null,"envelope":null}', b"x" * 3000, b'{"a":' * 260 + b"1" + b"}" * 260,
])
LINES = st.one_of(bare(), bare(), bare(), in_envelope(), in_envelope(), broken(), OTHER)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    lines = draw(st.lists(LINES, max_size=30))
    ends = draw(st.lists(st.sampled_from([b"\n", b"\n", b"\r\n"]), min_size=len(lines), max_size=len(lines)))
    whole = b"".join(line + end for line, end in zip(lines, ends, strict=True))
    start = draw(st.sampled_from([b"", b"", b"", b"\xef\xbb\xbf"]))
    return start + (whole[:-1] if whole and draw(st.booleans()) else whole)
