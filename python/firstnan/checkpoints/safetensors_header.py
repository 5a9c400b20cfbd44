"""The header of a safetensors file: an 8-byte little-endian length, then JSON.

Each tensor is judged by itself, so that a damaged entry costs no other tensor its counts.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, Final, NamedTuple

from firstnan.checkpoints.dtypes import BITS, HALVES, SAFETENSORS
from firstnan.checkpoints.results import Layout
from firstnan.errors import ContractError

MAX_HEADER_BYTES: Final = 100_000_000
"""The format's own limit."""
MAX_AXES: Final = 64
_MAX_EXTENT: Final = 1 << 63


class Entry(NamedTuple):
    """A tensor whose bytes are `start..end` after the header."""

    name: str
    layout: Layout
    start: int
    end: int


class Header(NamedTuple):
    """The tensors that can be counted, in the order of their bytes; and what is wrong, with the tensor's name if of one."""

    entries: list[Entry]
    refused: list[tuple[str | None, str]]


class _Object(list[tuple[str, Any]]):
    """A JSON object with every name that the text has, twice or not."""


def header_length(prefix: bytes, size: int) -> int:
    """The length of the JSON text of a file of `size` bytes, from its first 8 bytes.

    Raises:
        ContractError: there are fewer, or the header would be longer than the file or the format's limit.
    """
    length = int.from_bytes(prefix[:8], "little")
    if len(prefix) < 8:
        raise _refused("the file is shorter than the 8 bytes of a header's length", "size", "8 bytes")
    if length > MAX_HEADER_BYTES:
        raise _refused("the header is longer than the format allows", "size", f"{MAX_HEADER_BYTES:,} bytes")
    if length > size - 8:
        raise _refused("the header ends beyond the file", "size", f"{size:,} bytes")
    return length


def decode_header(text: bytes, data_bytes: int) -> Header:
    """The tensors of a header, before `data_bytes` bytes of data.

    A tensor is refused whose entry is malformed, of an unknown dtype, not as long as dtype and shape say, beyond the file,
    or within the bytes of a tensor before it.

    Raises:
        ContractError: the whole header cannot be read.
    """
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_Object, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise _refused("the header is not JSON", "syntax", "UTF-8, RFC 8259") from None
    if not isinstance(header, _Object):
        raise _refused("the header must be an object", "type", "object")
    entries: list[Entry] = []
    refused: list[tuple[str | None, str]] = []
    times = Counter(name for name, _ in header)
    for name, value in dict(header).items():
        if times[name] > 1:
            # Which of them is meant cannot be known.
            refused.append((name, "its name comes more than once in the header"))
        elif name != "__metadata__":
            try:
                entries.append(_entry(name, value, data_bytes))
            except ContractError as error:
                refused.append((name, str(error)))
    return _without_overlaps(entries, refused, data_bytes)


def _without_overlaps(entries: list[Entry], refused: list[tuple[str | None, str]], data_bytes: int) -> Header:
    apart: list[Entry] = []
    end = gaps = 0
    for entry in sorted(entries, key=lambda entry: (entry.start, entry.end)):
        if entry.start < end and entry.start < entry.end:
            refused.append((entry.name, f"data_offsets must start where the tensor before ends [minimum: {end}]"))
            continue
        gaps += max(0, entry.start - end)
        end = max(end, entry.end)
        apart.append(entry)
    gaps += data_bytes - end
    # What belongs to a refused tensor is not known.
    if gaps and not refused:
        refused.append((None, f"{gaps:,} bytes belong to no tensor [maximum: 0]"))
    return Header(apart, refused)


def _entry(name: str, value: Any, data_bytes: int) -> Entry:
    fields = dict(value) if isinstance(value, _Object) else {}
    if fields.keys() != {"dtype", "shape", "data_offsets"} or len(fields) != len(value):
        raise ContractError("its entry must be an object of dtype, shape and data_offsets, each once")
    dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if type(dtype) is not str or dtype not in SAFETENSORS:
        raise ContractError(f"dtype is unknown [enum: {', '.join(SAFETENSORS)}]")
    if type(shape) is not list or len(shape) > MAX_AXES or not all(map(_is_size, shape)):
        raise ContractError(f"shape must be a list of integers from 0 [maximum: 2^63 - 1 each, {MAX_AXES} of them]")
    if type(offsets) is not list or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise ContractError("data_offsets must be two integers from 0 [maximum: 2^63 - 1]")
    start, end = offsets
    known = SAFETENSORS[dtype]
    bits = math.prod(shape) * BITS[known]
    if bits % 8:
        raise ContractError("shape and dtype must make whole bytes [multiple: 8 bits]")
    if end - start != bits // 8:
        raise ContractError("data_offsets must span as many bytes as dtype and shape have")
    if end > data_bytes:
        raise ContractError(f"data_offsets must end within the file's bytes of tensors [maximum: {data_bytes}]")
    return Entry(name, Layout(known, tuple(shape), halves=known in HALVES), start, end)


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MAX_EXTENT


def _no_constant(_: str) -> None:
    raise ValueError


def _refused(words: str, kind: str, bound: str) -> ContractError:
    return ContractError(f"{words} [{kind}: {bound}]", kind=kind, layer="wire", pointer="", bound=bound)
