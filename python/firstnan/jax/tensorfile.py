"""The safetensors file format: an 8-byte little-endian header length, a JSON header, then the tensors' bytes.

Written and read here, since it is forty lines and a bundle then opens with numpy alone. A dtype that the format has no
name for is stored as its raw bytes, U8 with one more axis; the caller keeps its true name.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from firstnan import ContractError
from firstnan.jax.formats import numpy_dtype

_MAX_HEADER_BYTES: Final = 100_000_000  # the format's own limit

_NAMES: Final = {
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
_DTYPES: Final = {stored: name for name, stored in _NAMES.items()}

Array = np.ndarray[Any, np.dtype[Any]]


def write_tensors(file: BinaryIO, tensors: dict[str, Array]) -> None:
    """Writes the tensors in the order given. Each is copied only if it is not contiguous and little-endian."""
    header: dict[str, Any] = {}
    buffers: list[Array] = []
    offset = 0
    for name, tensor in tensors.items():
        raw = np.ascontiguousarray(tensor.astype(tensor.dtype.newbyteorder("<"), copy=False))
        stored = _NAMES.get(tensor.dtype.name)
        shape = [*tensor.shape] if stored else [*tensor.shape, tensor.dtype.itemsize]
        header[name] = {"dtype": stored or "U8", "shape": shape, "data_offsets": [offset, offset + raw.nbytes]}
        buffers.append(raw.reshape(-1).view(np.uint8))
        offset += raw.nbytes
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for buffer in buffers:
        file.write(buffer.data)


def read_tensors(path: Path) -> dict[str, Array]:
    """Reads every tensor of a file, checked against the file's size before anything is allocated.

    Raises:
        ContractError: the file is no such file, or is cut.
        OSError: it cannot be read.
    """
    size = os.stat(path).st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(_MAX_HEADER_BYTES, size - 8):
            raise ContractError(f"{path.name}: the header is longer than the file")
        try:
            header = json.loads(file.read(length))
            entries = sorted(((name, *_entry(value)) for name, value in header.items()), key=lambda entry: entry[3:])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise ContractError(f"{path.name}: the header is not one of safetensors") from None
        tensors: dict[str, Array] = {}
        expected = 0
        for name, dtype, shape, start, end in entries:
            if start != expected or end - start != math.prod(shape) * dtype.itemsize or end > size - 8 - length:
                raise ContractError(f"{path.name}: the bytes of a tensor are not where the header says")
            expected = end
            tensors[name] = np.frombuffer(bytearray(file.read(end - start)), dtype).reshape(shape)
        if expected != size - 8 - length:
            raise ContractError(f"{path.name}: there are bytes that belong to no tensor")
    return tensors


def _entry(value: Any) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    shape, (start, end) = value["shape"], value["data_offsets"]
    if any(type(x) is not int or x < 0 for x in (*shape, start, end)):
        raise ValueError
    # What numpy cannot make, even without elements, must not get as far as numpy.
    if len(shape) > 32 or math.prod(max(1, extent) for extent in shape) >= 1 << 60:
        raise ValueError
    return numpy_dtype(_DTYPES[value["dtype"]]), tuple(shape), start, end
