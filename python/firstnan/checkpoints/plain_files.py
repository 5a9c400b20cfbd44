"""Tensors that lie in a file as they are, safetensors and .npy: the core reads them piece by piece."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from firstnan._core import StoredFile
from firstnan.checkpoints.npy_header import NoNumbers, read_npy_header
from firstnan.checkpoints.results import Layout, NotCounted, TensorScan, Tick
from firstnan.checkpoints.safetensors_header import decode_header, header_length
from firstnan.errors import ContractError
from firstnan.finite import FiniteCounts


@dataclass(frozen=True)
class Placed:
    """A tensor and where its bytes are in the file."""

    name: str
    layout: Layout
    start: int
    length: int


@dataclass(frozen=True)
class SafetensorsFile:
    """One .safetensors file; `label` is what results call it."""

    path: str
    label: str

    @property
    def size(self) -> int:
        return os.path.getsize(self.path)

    def count(self, threads: int, tick: Tick) -> Iterator[TensorScan | NotCounted]:
        file = StoredFile(self.path)
        size = file.size()
        try:
            length = header_length(file.read(0, 8), size)
            header = decode_header(file.read(8, length), size - 8 - length)
        except ContractError as error:
            yield NotCounted(self.label, None, "refused", str(error))
            return
        for name, reason in header.refused:
            yield NotCounted(self.label, name, "refused", reason)
        placed = [Placed(x.name, x.layout, 8 + length + x.start, x.end - x.start) for x in header.entries]
        yield from count_placed(file, self.label, placed, threads, tick)


@dataclass(frozen=True)
class NpyFile:
    """One .npy file."""

    path: str
    label: str
    raw: Mapping[int, str]

    @property
    def size(self) -> int:
        return os.path.getsize(self.path)

    def count(self, threads: int, tick: Tick) -> Iterator[TensorScan | NotCounted]:
        file = StoredFile(self.path)
        name = os.path.basename(self.label).removesuffix(".npy")
        place = 0

        def read(length: int) -> bytes:
            nonlocal place
            data = file.read(place, length)
            place += len(data)
            return data

        try:
            header = read_npy_header(read, self.raw)
        except ContractError as error:
            yield NotCounted(self.label, name, "refused", str(error))
            return
        except NoNumbers:
            yield NotCounted(self.label, name, "no_numbers", "text or dates")
            return
        size = file.size()
        if header.data_bytes > size - place:
            yield NotCounted(self.label, name, "refused", f"shape and descr need more bytes than the file has [maximum: {size}]")
            return
        if header.data_bytes < size - place:
            yield NotCounted(self.label, None, "refused", "there are bytes after the array [maximum: 0]")
        yield from count_placed(file, self.label, [Placed(name, header.layout, place, header.data_bytes)], threads, tick)


def count_placed(
    file: StoredFile, label: str, placed: list[Placed], threads: int, tick: Tick
) -> Iterator[TensorScan | NotCounted]:
    """The counts of tensors in an open file, in their order."""
    extents = [
        (
            tensor.layout.dtype,
            tensor.layout.byte_swapped,
            tensor.start,
            tensor.length,
            tensor.layout.shape if tensor.layout.fortran else None,
            tensor.layout.halves,
        )
        for tensor in placed
    ]
    for tensor, counts in zip(placed, file.count(extents, threads=threads, tick=tick), strict=True):
        if isinstance(counts, EOFError):
            reason = f"the file was cut while it was read [maximum: {file.size()} bytes]"
            yield NotCounted(label, tensor.name, "refused", reason)
        elif isinstance(counts, OSError):
            yield NotCounted(label, tensor.name, "unreadable", counts.strerror or type(counts).__name__)
        else:
            yield TensorScan(label, tensor.name, tensor.layout.dtype, tensor.layout.shape, FiniteCounts(*counts))
