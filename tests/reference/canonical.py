"""Both canonical profiles and the identities, over Python objects and over JSON text."""

import json
import math
import re
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import sha256

MAX_BYTES, MAX_DEPTH, MAX_ITEMS, MAX_EVIDENCE_DEPTH, MAX_DIGITS = 65536, 16, 4096, 256, 4300
SURROGATE = re.compile("[\ud800-\udfff]")


class Refused(ValueError):
    """The contract refuses this."""


class Unsupported(TypeError):
    """The evidence profile has no form for this type."""


def canonical_record(value, *, max_bytes=MAX_BYTES):
    """The bytes of the record profile."""
    if type(max_bytes) is not int or not 1 <= max_bytes <= MAX_BYTES:
        raise Refused("max_bytes")
    plain = RecordWalk(max_bytes).plain(value, 0)
    out = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    if len(out) > max_bytes:
        raise Refused("max_bytes")
    return out


def contract_digest(value):
    """SHA-256 of the record profile's bytes."""
    return sha256(canonical_record(value)).hexdigest()


class RecordWalk:
    """Turns a value into plain dicts, lists and scalars, within the bounds of the record profile."""

    def __init__(self, max_bytes):
        self.max_bytes, self.items, self.path = max_bytes, 0, set()

    def plain(self, value, depth):
        self.items += 1
        if depth > MAX_DEPTH or self.items > MAX_ITEMS:
            raise Refused("depth or items")
        if isinstance(value, Enum):
            return self.plain(value.value, depth + 1)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                raise Refused("integer range")
            return int(value)
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, (list, tuple, dict)) or is_dataclass(value) and not isinstance(value, type):
            if id(value) in self.path:
                raise Refused("cycle")
            self.path.add(id(value))
            out = self.container(value, depth + 1)
            self.path.discard(id(value))
            return out
        raise Refused(type(value).__name__)

    def container(self, value, depth):
        if isinstance(value, (list, tuple)):
            return [self.plain(member, depth) for member in value]
        if isinstance(value, dict):
            members = value.items()
        else:
            members = ((field.name, getattr(value, field.name)) for field in fields(value))
        out = {}
        for name, member in members:
            if not isinstance(name, str):
                raise Refused("a name that is no string")
            name = self.text(name)
            if name in out:
                raise Refused("a name twice")
            out[name] = self.plain(member, depth)
        return out

    def text(self, value):
        try:
            size = len(str.encode(value))
        except UnicodeEncodeError:
            raise Refused("lone surrogate") from None
        if size > self.max_bytes:
            raise Refused("max_bytes")
        return str.__str__(value)


def canonical_evidence(value, records=()):
    """The bytes of the evidence profile; `records` are the dataclasses that it takes."""
    plain = EvidenceWalk(records).plain(value, 0)
    try:
        return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    except ValueError as error:  # not finite, or beyond the interpreter's digits
        raise Refused(str(error)) from None


def content_id(prefix, payload, records=()):
    """`PREFIX@sha256:HEX` over the evidence profile's bytes."""
    return f"{prefix}@sha256:{sha256(canonical_evidence(payload, records)).hexdigest()}"


class EvidenceWalk:
    """Turns a value into plain dicts, lists and scalars, within the bounds of the evidence profile."""

    def __init__(self, records):
        self.records, self.path = tuple(records), set()

    def plain(self, value, depth):
        if depth > MAX_EVIDENCE_DEPTH:
            raise Refused("depth")
        if value is None or isinstance(value, (bool, str, int)):
            return value
        if isinstance(value, float):
            if not math.isfinite(value):
                raise Refused("not finite")
            return value
        if not isinstance(value, (list, tuple, dict)) and type(value) not in self.records:
            raise Unsupported(type(value).__name__)
        if id(value) in self.path:
            raise Refused("cycle")
        self.path.add(id(value))
        if isinstance(value, (list, tuple)):
            out = [self.plain(member, depth + 1) for member in value]
        else:
            is_dict = isinstance(value, dict)
            members = value.items() if is_dict else ((f.name, getattr(value, f.name)) for f in fields(value))
            out = {}
            for name, member in members:
                if not isinstance(name, str):
                    raise Unsupported("a name that is no string")
                out[str.__str__(name)] = self.plain(member, depth + 1)
            if len({json.dumps(name) for name in out}) != (len(value) if is_dict else len(out)):
                raise Refused("two names with one text")
        self.path.discard(id(value))
        return out


def parse(data, *, digits=None):
    """Strict JSON: UTF-8, no BOM, no duplicate name, only the literals true, false and null."""
    if isinstance(data, (bytes, bytearray)):
        try:
            data = bytes(data).decode()
        except UnicodeDecodeError:
            raise Refused("encoding") from None
    if data.startswith("\ufeff"):
        raise Refused("byte order mark")
    if SURROGATE.search(data):
        raise Refused("a lone surrogate in the text itself")
    try:
        return DECODER.decode(data)
    except (ValueError, RecursionError) as error:
        raise Refused(str(error)) from None


def unique(members):
    out = dict(members)
    if len(out) != len(members):
        raise Refused("a name twice")
    return out


def refuse_constant(name):
    raise Refused(name)


def finite_float(text):
    value = float(text)
    if math.isinf(value):
        raise Refused("overflow")
    return value


DECODER = json.JSONDecoder(object_pairs_hook=unique, parse_constant=refuse_constant, parse_float=finite_float)


def canonicalize(data, *, profile):
    """JSON text to its canonical bytes in a profile."""
    value = parse(data)
    return canonical_record(value) if profile == "record" else canonical_evidence(value)
