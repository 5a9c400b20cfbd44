"""The header of a .npy file, versions 1 to 3 of numpy's format: magic, length, a Python dict as text.

The dict has three kinds of literal, which a regular expression reads: nothing of the file is evaluated.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from firstnan.checkpoints.dtypes import BITS
from firstnan.checkpoints.results import Layout
from firstnan.errors import ContractError

MAGIC: Final = b"\x93NUMPY"
MAX_HEADER_BYTES: Final = 10_000
"""What numpy itself reads without being told that the file is trusted."""
MAX_AXES: Final = 64
"""Of numpy 2."""
_MAX_EXTENT: Final = 1 << 63
_ITEM: Final = re.compile(
    r"""\s*(?P<quote>['"])(?P<key>descr|fortran_order|shape)(?P=quote)\s*:\s*
    (?:(?P<q>['"])(?P<text>[^'"\\]*)(?P=q)|(?P<truth>True|False)|\((?P<shape>[\d\s,L]*)\)|(?P<fields>\[.*?\])(?=\s*[,}]))
    \s*(?:,|(?=\}))""",
    re.VERBOSE | re.DOTALL,
)
_DESCR: Final = re.compile(r"([<>|=]?)([a-zA-Z?])(\d{0,4})(?:\[\w+\])?")
_KINDS: Final = {"f": "float{}", "c": "complex{}", "i": "int{}", "u": "uint{}"}


class NoNumbers(Exception):
    """The array holds text or dates: nothing of it can be non-finite."""


class NpyHeader(NamedTuple):
    """How the elements lie, and the bytes that they take."""

    layout: Layout
    data_bytes: int


def read_npy_header(read: Callable[[int], bytes], raw: Mapping[int, str]) -> NpyHeader:
    """The header of what `read(bytes)` gives next; afterwards it gives the elements.

    Args:
        read: the next so many bytes, or fewer at the end.
        raw: by bytes, the dtype of elements that numpy saved as raw bytes.

    Raises:
        ContractError: no such header, or a dtype that is not counted; names the field and the bound.
        NoNumbers: text or dates.
    """
    prefix = read(8)
    if prefix[:6] != MAGIC or len(prefix) < 8:
        raise ContractError("the magic string of .npy is missing")
    if prefix[6] not in (1, 2, 3):
        raise ContractError("the version of the .npy format is unknown [enum: 1, 2, 3]")
    width = 2 if prefix[6] == 1 else 4
    length = int.from_bytes(read(width), "little")
    if length > MAX_HEADER_BYTES:
        raise ContractError(f"the header is too long [maximum: {MAX_HEADER_BYTES:,} bytes]")
    text = read(length)
    if len(text) < length:
        raise ContractError(f"the file ends within the header [minimum: {length} bytes]")
    return decode_npy_header(text, raw)


def decode_npy_header(text: bytes, raw: Mapping[int, str]) -> NpyHeader:
    """As `read_npy_header`, of the dict's text."""
    inside = text.decode("utf-8", "replace").strip()
    fields: dict[str, re.Match[str]] = {}
    place = 1
    while match := _ITEM.match(inside, place):
        if match["key"] in fields:
            raise ContractError(f"{match['key']} comes twice in the header")
        fields[match["key"]] = match
        place = match.end()
    if not inside.startswith("{") or inside[place:].strip() != "}" or len(fields) != 3:
        raise ContractError("the header must be a dict of descr, fortran_order and shape")
    order, shape = fields["fortran_order"]["truth"], fields["shape"]["shape"]
    if order is None:
        raise ContractError("fortran_order must be True or False")
    extents = None if shape is None else _extents(shape)
    if extents is None:
        raise ContractError(f"shape must be a tuple of integers from 0 [maximum: 2^63 - 1 each, {MAX_AXES} of them]")
    if fields["descr"]["text"] is None:
        raise ContractError("descr must be of one number, not of several fields")
    dtype, byte_swapped = _dtype(fields["descr"]["text"], raw)
    layout = Layout(dtype, extents, byte_swapped, fortran=order == "True")
    return NpyHeader(layout, math.prod(extents) * BITS[dtype] // 8)


def _extents(text: str) -> tuple[int, ...] | None:
    """The extents of a tuple's inside; a long integer of Python 2 has an L."""
    parts = [part.strip().removesuffix("L") for part in text.split(",")]
    if parts[-1] == "":
        parts.pop()
    elif len(parts) == 1:
        return None  # `(3)` is no tuple
    if len(parts) > MAX_AXES or not all(re.fullmatch(r"[0-9]{1,19}", part) for part in parts):
        return None
    extents = tuple(map(int, parts))
    return extents if all(extent < _MAX_EXTENT for extent in extents) else None


def _dtype(descr: str, raw: Mapping[int, str]) -> tuple[str, bool]:
    match = _DESCR.fullmatch(descr)
    if match is None:
        raise ContractError("descr is not of a dtype of numpy")
    order, kind, digits = match.groups()
    width = int(digits or 1)
    if kind in "USaMmT":
        raise NoNumbers
    if kind == "O":
        raise ContractError("descr is of pickled objects, which are not read")
    if kind == "V":
        if width not in raw:
            raise ContractError("descr is of raw bytes, as numpy saves the types of ml_dtypes: say what they are (--raw-dtype)")
        return raw[width], False
    dtype = "bool" if kind in "b?" and width == 1 else _KINDS.get(kind, "").format(8 * width)
    if dtype not in BITS:
        raise ContractError("descr is of a dtype that is not counted [enum: f2 f4 f8 c8 c16 i1 i2 i4 i8 u1 u2 u4 u8 b1]")
    return dtype, width > 1 and (order == ">" or (order in "=" and sys.byteorder == "big"))
