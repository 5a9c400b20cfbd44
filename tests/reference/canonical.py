"""Both canonical profiles and the identities, over Python objects and over JSON text."""

import json
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import sha256

from .text import Refused, parse

MAX_BYTES, MAX_DEPTH, MAX_ITEMS, MAX_EVIDENCE_DEPTH = 65536, 16, 4096, 256
RECORD_TEXT = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, check_circular=False)
EVIDENCE_TEXT = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=False)


class Unsupported(TypeError):
    """The evidence profile has no form for this type."""


def canonical_record(value, *, max_bytes=MAX_BYTES):
    """The bytes of the record profile."""
    if type(max_bytes) is not int or not 1 <= max_bytes <= MAX_BYTES:
        raise Refused("max_bytes")
    out = RECORD_TEXT.encode(RecordWalk(max_bytes).plain(value, 0)).encode()
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
        if value is None or type(value) is bool:
            return value
        if isinstance(value, Enum):
            return self.plain(value.value, depth + 1)
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                raise Refused("integer range")
            return int(value)
        if not isinstance(value, (list, tuple, dict)) and (isinstance(value, type) or not is_dataclass(value)):
            raise Refused(type(value).__name__)
        if id(value) in self.path:
            raise Refused("cycle")
        self.path.add(id(value))
        if isinstance(value, (list, tuple)):
            out = [self.plain(member, depth + 1) for member in value]
        else:
            out = self.names(value, depth + 1)
        self.path.discard(id(value))
        return out

    def names(self, value, depth):
        out = {}
        for name, member in members_of(value):
            if not isinstance(name, str):
                raise Refused("a name that is no string")
            name = self.text(name)
            if name in out:
                raise Refused("a name twice")
            out[name] = self.plain(member, depth)
        return out

    def text(self, value):
        value = str.__str__(value)  # a subclass may say of itself what it is not
        if value.isascii():
            size = len(value)
        else:
            try:
                size = len(value.encode())
            except UnicodeEncodeError:
                raise Refused("lone surrogate") from None
        if size > self.max_bytes:
            raise Refused("max_bytes")
        return value


def members_of(value):
    """The names and members of a dict or a dataclass."""
    if isinstance(value, dict):
        return value.items()
    return [(field.name, getattr(value, field.name)) for field in fields(value)]


def canonical_evidence(value, records=()):
    """The bytes of the evidence profile; `records` are the dataclasses that it takes."""
    plain = EvidenceWalk(records).plain(value, 0)
    try:
        return EVIDENCE_TEXT.encode(plain).encode()
    except ValueError:  # not finite, or beyond the interpreter's digits
        raise Refused("number") from None


def content_id(prefix, payload, records=()):
    """`PREFIX@sha256:HEX` over the evidence profile's bytes."""
    return f"{prefix}@sha256:{sha256(canonical_evidence(payload, records)).hexdigest()}"


class EvidenceWalk:
    """Turns a value into plain dicts, lists and scalars, within the bounds of the evidence profile."""

    def __init__(self, records):
        self.records, self.path = records, set()

    def plain(self, value, depth):
        if depth > MAX_EVIDENCE_DEPTH:
            raise Refused("depth")
        if value is None or isinstance(value, (str, int, float)):
            return value
        if not isinstance(value, (list, tuple, dict)) and type(value) not in self.records:
            raise Unsupported(type(value).__name__)
        if id(value) in self.path:
            raise Refused("cycle")
        self.path.add(id(value))
        if isinstance(value, (list, tuple)):
            out = [self.plain(member, depth + 1) for member in value]
        else:
            out = self.names(value, depth + 1)
        self.path.discard(id(value))
        return out

    def names(self, value, depth):
        out = {}
        for name, member in members_of(value):
            if not isinstance(name, str):
                raise Unsupported("a name that is no string")
            name = str.__str__(name)
            if name in out:
                raise Refused("a name twice")
            out[name] = self.plain(member, depth)
        # A pair of lone surrogates and the character that they stand for have one escape.
        if not "".join(out).isascii() and len(set(map(json.dumps, out))) < len(out):
            raise Refused("two names with one text")
        return out


def canonicalize(data, *, profile):
    """JSON text to its canonical bytes in a profile."""
    value = parse(data)
    return canonical_record(value) if profile == "record" else canonical_evidence(value)
