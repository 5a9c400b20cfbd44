"""The header of a safetensors file: an 8-byte little-endian length, then JSON. Needs neither jax nor numpy.

Every tensor's dtype, shape and place are checked against the file's size before anything else is read of it.
"""

from __future__ import annotations

import json
import math
from typing import Any, BinaryIO, Final, NamedTuple

from firstnan import ContractError, canonicalize
from firstnan.jax.formats import bytes_per_element
from firstnan.printable import printable

MAX_AXES: Final = 32
"""The most axes of a saved array: what every numpy since 1.0 can make, one for raw bytes included."""
MAX_ELEMENTS: Final = 1 << 60
"""Above the most elements of a shape, its zero extents taken as one: more overflows what numpy makes, even empty."""

_MAX_HEADER_BYTES: Final = 100_000_000  # the format's own limit

STORED_AS: Final = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
}
"""The format's name of a dtype. One without is stored as its raw bytes: U8, with the bytes of an element as last axis."""
DTYPE_OF: Final = {stored: name for name, stored in STORED_AS.items()}


class StoredTensor(NamedTuple):
    """One tensor as a header lists it: the format's dtype, the shape, and where its bytes are after the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def stored_form(dtype: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """The format's dtype and the shape under which an array of a dtype of `formats` is stored."""
    stored = STORED_AS.get(dtype)
    return (stored, shape) if stored else ("U8", (*shape, bytes_per_element(dtype)))


def read_header(file: BinaryIO, size: int, name: str) -> dict[str, StoredTensor]:
    """The tensors of a file of `size` bytes, in the order of their bytes; leaves the file at the first of them.

    Raises:
        ContractError: the header is damaged, or the tensors' bytes are not exactly the rest of the file; names the file
            and the field.
    """
    length = int.from_bytes(file.read(8), "little")
    if length > min(_MAX_HEADER_BYTES, size - 8):
        raise ContractError(f"{name}: the header is longer than the file or than {_MAX_HEADER_BYTES} bytes")
    text = file.read(length)
    try:
        canonicalize(text, profile="evidence")  # refuses what json.loads lets pass: a duplicate name, NaN, great depth
        header = json.loads(text)
    except ValueError as error:
        raise ContractError(f"{name}: the header is not one of safetensors: {error}") from None
    if not isinstance(header, dict):
        raise ContractError(f"{name}: the header is not one of safetensors: it must be an object")
    tensors = {tensor: _entry(value, f"{name}: {header_place(tensor)}") for tensor, value in header.items()}
    expected = 0
    for tensor, entry in sorted(tensors.items(), key=lambda item: item[1][2:]):
        place = f"{name}: {header_place(tensor)}/data_offsets"
        if entry.start != expected:
            raise ContractError(f"{place} must start at {expected}, where the tensor before ends")
        if entry.end - entry.start != math.prod(entry.shape) * bytes_per_element(DTYPE_OF[entry.dtype]):
            raise ContractError(f"{place} must span as many bytes as dtype and shape have")
        if entry.end > size - 8 - length:
            raise ContractError(f"{place} must end within the file")
        expected = entry.end
    if expected != size - 8 - length:
        raise ContractError(f"{name}: there are bytes that belong to no tensor")
    return dict(sorted(tensors.items(), key=lambda item: item[1][2:]))


def header_place(tensor: str) -> str:
    """The JSON Pointer to a tensor of a header, cut and made safe to show."""
    return "/" + printable(tensor[:64].replace("~", "~0").replace("/", "~1"))


def _entry(value: Any, place: str) -> StoredTensor:
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise ContractError(f"{place} must have exactly the names dtype, shape, data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if type(dtype) is not str or dtype not in DTYPE_OF:
        raise ContractError(f"{place}/dtype must be one of {', '.join(DTYPE_OF)}")
    if not is_shape(shape, MAX_AXES + 1):
        raise ContractError(f"{place}/shape {SHAPE_BOUND}")
    if type(offsets) is not list or len(offsets) != 2 or any(type(x) is not int or x < 0 for x in offsets):
        raise ContractError(f"{place}/data_offsets must be two integers that are not negative")
    return StoredTensor(dtype, tuple(shape), *offsets)


SHAPE_BOUND: Final = f"must be a list of at most {MAX_AXES} integers that are not negative, with a product below 2**60"


def is_shape(value: Any, most_axes: int = MAX_AXES) -> bool:
    """Whether a value of a JSON file is the shape of an array that numpy can make."""
    if type(value) is not list or len(value) > most_axes or any(type(x) is not int or x < 0 for x in value):
        return False
    return bool(math.prod(max(1, extent) for extent in value) < MAX_ELEMENTS)
