"""The same job in plain Python: json for the names, `firstnan.decode` for the verdict, hashlib for the identity."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import firstnan
from firstnan import _core

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"
BUNDLE = json.loads((SCHEMAS / "bundle.json").read_text(encoding="utf-8"))
ENVELOPE = ("rank", "world_size", "attempt", "sequence", "source")
LAYERS = ("shape", "rule", "wire")


def name_sets() -> list[tuple[str | None, frozenset[str]]]:
    """The closed sets of names of every kind, unions by their records; None is an enveloped line."""
    found: list[tuple[str | None, frozenset[str]]] = [(None, frozenset({"envelope", "record"}))]
    by_id = {schema["$id"]: schema for schema in BUNDLE["$defs"].values()}

    def records(schema: dict[str, Any]) -> list[dict[str, Any]]:
        if "properties" in schema and "oneOf" not in schema:
            return [schema]
        here = [one["$ref"].removeprefix("#/$defs/") for one in schema["oneOf"]]
        return [record for name in here for record in records(schema["$defs"][name])]

    for kind, entry in sorted(BUNDLE["x-firstnan-kinds"].items()):
        found += [(kind, frozenset(record["properties"])) for record in records(by_id[entry["schema"]])]
    return found


NAME_SETS = name_sets()
UNKNOWN = object()


def nearest(names: frozenset[str]) -> object:
    """The kind of these names (None: an enveloped line), or UNKNOWN."""
    for kind, known in NAME_SETS:
        if known == names:
            return kind
    ranked = [(-len(known & names), len(known ^ names), index) for index, (_, known) in enumerate(NAME_SETS) if known & names]
    return NAME_SETS[min(ranked)[2]][0] if ranked else UNKNOWN


def refusal(kind: str, text: bytes) -> firstnan.ContractError | None:
    try:
        _core.validate(kind, text)
    except firstnan.ContractError as error:
        return error
    return None


def split(text: bytes) -> list[tuple[int, bytes]]:
    """Offset and bytes of each line, without its end."""
    lines, offset = [], 0
    for line in text.split(b"\n"):
        lines.append((offset, line))
        offset += len(line) + 1
    return lines[:-1] if text.endswith(b"\n") or not text else lines


def pairs(text: bytes) -> Any:
    """What `json` reads, an object as the list of its members so that a name twice is seen; Infinity and NaN are not JSON."""

    def constant(name: str) -> None:
        raise ValueError(name)

    return json.loads(text.decode("utf-8", "strict"), object_pairs_hook=Members, parse_constant=constant)


class Members(list):  # type: ignore[type-arg]
    """The members of an object."""


def judged(line: bytes, given: str | None) -> tuple[str, Any]:
    """`("blank", None)`, `("record", (kind, envelope, canonical bytes))` or `("refused", (kind, layer))`.

    The layer is None where plain Python does not tell which.
    """
    if not line.strip(b" \t\r"):
        return "blank", None
    try:
        value = pairs(line)
    except (ValueError, RecursionError):
        return "refused", (given, "wire" if given is None else None)
    if given is None and deep(line):
        return "refused", (None, "wire")
    names = frozenset(name for name, _ in value) if isinstance(value, Members) else None
    kind = nearest(names) if names is not None else UNKNOWN
    if kind is None and names is not None:
        return enveloped(line, value, names, given)
    if given is not None:
        kind = given
    if kind is UNKNOWN:
        return "refused", (None, "shape")
    assert isinstance(kind, str)
    error = refusal(kind, line)
    if error is not None:
        return "refused", (kind, error.layer)
    return "record", (kind, None, firstnan.encode(firstnan.decode(kind, line)))


def enveloped(line: bytes, value: Members, names: frozenset[str], given: str | None) -> tuple[str, Any]:
    if names != {"envelope", "record"}:
        return "refused", (None, "shape")
    parts = dict(value)
    texts = {name: json.dumps(plain(member), ensure_ascii=True).encode() for name, member in parts.items()}
    if len(value) != 2 or any(twice(member) for member in parts.values()):
        return "refused", (None, None)
    error = refusal("envelope", texts["envelope"])
    if error is not None and error.layer == "shape":
        return "refused", (None, "shape")
    envelope = plain(parts["envelope"])
    kind = envelope["kind"]
    if kind not in _core.kinds() or given not in (None, kind):
        return "refused", (None, None)
    errors = [one for one in (error, refusal(kind, texts["record"])) if one is not None]
    if errors:
        return "refused", (kind, min((one.layer for one in errors), key=LAYERS.index))
    return "record", (kind, envelope, firstnan.encode(firstnan.decode(kind, texts["record"])))


def deep(line: bytes) -> bool:
    """Is it the one line of `lines.OTHER` that nests deeper than 256?"""
    return line.count(b'{"a":') >= 260 or line.count(b"[") >= 300


def twice(value: Any) -> bool:
    if isinstance(value, Members):
        return len({name for name, _ in value}) < len(value) or any(twice(member) for _, member in value)
    return isinstance(value, list) and any(twice(item) for item in value)


def plain(value: Any) -> Any:
    if isinstance(value, Members):
        return {name: plain(member) for name, member in value}
    return [plain(item) for item in value] if isinstance(value, list) else value


def table(text: bytes, *, kind: str | None = None, max_line_bytes: int = 1 << 20) -> dict[str, Any]:
    """Rows by kind as (line, offset, digest, envelope), the quarantine as (line, offset, raw, whole length, kind, layer),
    and the counts."""
    rows: dict[str, list[Any]] = {}
    refused, counts = [], dict.fromkeys(("lines", "records", "quarantined", "blank"), 0)
    for number, (offset, line) in enumerate(split(text), 1):
        counts["lines"] += 1
        if len(line) > max_line_bytes:
            counts["quarantined"] += 1
            refused.append((number, offset, line[:max_line_bytes], len(line), kind, "wire"))
            continue
        verdict, found = judged(line, kind)
        if verdict == "blank":
            counts["blank"] += 1
        elif verdict == "record":
            counts["records"] += 1
            of, envelope, canonical = found
            digest = hashlib.sha256(canonical).digest()
            rows.setdefault(of, []).append((number, offset, digest, envelope and tuple(envelope[name] for name in ENVELOPE)))
        else:
            counts["quarantined"] += 1
            refused.append((number, offset, line, len(line), *found))
    return {"rows": rows, "quarantine": refused, "counts": counts}
