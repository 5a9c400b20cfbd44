"""Canonical bytes and identities of firstnan's records from json and hashlib: a strict reader, a writer with two profiles.

You may copy this file into your project: it needs nothing but Python 3.11 and stands under the Apache License 2.0
(SPDX-License-Identifier: Apache-2.0). What it does is written in docs/canonical.md of firstnan, and `make conformance`
holds it to every vector in schemas/vectors.

json.loads alone will not do: the last of two members of one name wins, NaN and Infinity are read, 1e999 is infinite,
and of an integer's digits the interpreter's own setting decides. A value here is what json.loads gives.
"""

import hashlib
import json
import math
import re
from typing import Any, Literal

Profile = Literal["record", "evidence"]
DEPTH = {"record": 16, "evidence": 256}
MAX_ITEMS = 4096
MAX_BYTES = 65536
MAX_DIGITS = 4300
STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)


class Refused(ValueError):
    """The text or the value has no canonical bytes."""


def read(data: bytes, profile: Profile = "evidence") -> Any:
    """The value of a JSON text: RFC 8259 to the letter, no name twice, within the depth of the profile."""
    try:
        text = data.decode("utf-8")
        _bound_depth(text, DEPTH[profile])
        return json.loads(text, object_pairs_hook=_members, parse_int=_integer, parse_float=_float, parse_constant=_constant)
    except Refused:
        raise
    except ValueError as error:
        raise Refused(str(error)) from None


def write(value: Any, profile: Profile, max_bytes: int = MAX_BYTES) -> bytes:
    """The canonical bytes of a value as `read` gives it."""
    record = profile == "record"
    items = _check(value, profile, 0)
    if record and items > MAX_ITEMS:
        raise Refused("too many values")
    # Sorting str compares code points, and a float's text is its repr.
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=not record, allow_nan=False)
    if record:
        try:
            out = text.encode("utf-8")
        except UnicodeEncodeError:
            raise Refused("a lone surrogate") from None
        if len(out) > max_bytes:
            raise Refused("too many bytes")
        return out
    return text.encode("ascii")


def canonicalize(data: bytes, profile: Profile, max_bytes: int = MAX_BYTES) -> bytes:
    """From JSON text to canonical bytes; `max_bytes` bounds those of the record profile."""
    return write(read(data, profile), profile, max_bytes)


def well_formed(value: Any) -> bool:
    """Whether no text in a value has a lone surrogate: no record may, though the evidence profile has bytes for one."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def sha256(canonical: bytes) -> str:
    """In lower-case hex: over the bytes of the record profile it is the digest of a record."""
    return hashlib.sha256(canonical).hexdigest()


def content_id(prefix: str, canonical: bytes) -> str:
    """PREFIX@sha256:HEX over canonical bytes of the evidence profile."""
    return f"{prefix}@sha256:{sha256(canonical)}"


def _bound_depth(text: str, limit: int) -> None:
    """Before json.loads, whose own bound is the interpreter's stack. The top value lies at 0."""
    depth = 0
    for character in re.findall(r"[^\s,:]", STRING.sub("0", text)):
        if character in "]}":
            depth -= 1
        elif depth > limit:
            raise Refused("nested too deep")
        elif character in "[{":
            depth += 1


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Refused("a name twice")
    return members


def _integer(token: str) -> int:
    if len(token.lstrip("-")) > MAX_DIGITS:
        raise Refused("an integer of too many digits")
    return int(token)


def _float(token: str) -> float:
    value = float(token)
    if math.isinf(value):
        raise Refused("a float beyond binary64")
    return value


def _constant(token: str) -> Any:
    raise Refused(f"{token} is not JSON")


def _check(value: Any, profile: Profile, depth: int) -> int:
    """How many values there are; each is of a type and in a range that the profile has."""
    if depth > DEPTH[profile]:
        raise Refused("nested too deep")
    if isinstance(value, dict):
        if not all(type(name) is str for name in value):
            raise Refused("a name that is not text")
        return 1 + sum(_check(member, profile, depth + 1) for member in value.values())
    if isinstance(value, list):
        return 1 + sum(_check(item, profile, depth + 1) for item in value)
    if type(value) is float and (profile == "record" or not math.isfinite(value)):
        raise Refused("a float that has no form")
    if type(value) is int and profile == "record" and not -(2**63) <= value < 2**63:
        raise Refused("an integer beyond 64 bits")
    if value is not None and type(value) not in (bool, int, float, str):
        raise Refused(f"no form for a {type(value).__name__}")
    return 1
