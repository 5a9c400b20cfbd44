"""The safetensors file format, written and read: header as in `tensorheader`, then the tensors' bytes.

Ours, since it is forty lines and a bundle then opens with numpy alone. A dtype that the format has no name for is
stored as its raw bytes, U8 with one more axis; the caller keeps its true name.
"""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from firstnan import ContractError
from firstnan.jax.formats import numpy_dtype
from firstnan.jax.manifest import open_regular
from firstnan.jax.tensorheader import DTYPE_OF, read_header, stored_form

Array = np.ndarray[Any, np.dtype[Any]]


def write_tensors(file: BinaryIO, tensors: dict[str, Array]) -> None:
    """Writes the tensors in the order given. Each is copied only if it is not contiguous and little-endian."""
    header: dict[str, Any] = {}
    buffers: list[Array] = []
    offset = 0
    for name, tensor in tensors.items():
        raw = np.ascontiguousarray(tensor.astype(tensor.dtype.newbyteorder("<"), copy=False))
        stored, shape = stored_form(tensor.dtype.name, tensor.shape)
        header[name] = {"dtype": stored, "shape": [*shape], "data_offsets": [offset, offset + raw.nbytes]}
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
        ContractError: the file is no such file, or is cut; names the file and the field.
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        return tensors_in(file, path.name)


def tensors_in(file: BinaryIO, name: str) -> dict[str, Array]:
    """Every tensor of an open file of that name, read from its beginning to its end; errors as of `read_tensors`."""
    tensors: dict[str, Array] = {}
    for tensor, entry in read_header(file, os.fstat(file.fileno()).st_size, name).items():
        buffer = bytearray(entry.end - entry.start)
        if cast("io.BufferedReader", file).readinto(buffer) != len(buffer):
            raise ContractError(f"{name}: the file was cut while it was read")
        tensors[tensor] = np.frombuffer(buffer, numpy_dtype(DTYPE_OF[entry.dtype])).reshape(entry.shape)
    return tensors
