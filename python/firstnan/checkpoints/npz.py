"""A .npz file: a ZIP archive of .npy files, stored or deflated, each unpacked block by block.

Members are read by zipfile, which checks their CRC-32: a flipped bit is a refusal, not a wrong count.
"""

from __future__ import annotations

import errno
import os
import struct
import threading
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import IO, Final

from firstnan import _core
from firstnan.checkpoints.npy_header import NoNumbers, read_npy_header
from firstnan.checkpoints.results import NotCounted, TensorScan, Tick
from firstnan.errors import ContractError
from firstnan.finite import FiniteCounts

BLOCK_BYTES: Final = 1 << 20
"""What is unpacked at a time; a multiple of every element's width."""
TICK_SECONDS: Final = 0.1
FAULTS: Final = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, struct.error, EOFError, RuntimeError),
    *(ValueError, LookupError, OverflowError),
)
"""What zipfile raises at damage: it documents the first, and lets the others through; and an OSError of a seek to nowhere."""


class _Stopped(Exception):
    """The scan has ended before this member."""


class _Progress:
    """What the threads have unpacked, and whether they are to stop."""

    def __init__(self) -> None:
        self.stop = False
        self._done = 0
        self._lock = threading.Lock()

    def add(self, many: int) -> None:
        if self.stop:
            raise _Stopped
        with self._lock:
            self._done += many

    @property
    def done(self) -> int:
        return self._done


@dataclass(frozen=True)
class NpzFile:
    """One .npz file."""

    path: str
    label: str
    raw: Mapping[int, str]

    @property
    def size(self) -> int:
        return os.path.getsize(self.path)

    def count(self, threads: int, tick: Tick) -> Iterator[TensorScan | NotCounted]:
        with open(self.path, "rb") as file:
            try:
                archive = zipfile.ZipFile(file)
                members = archive.infolist()
            except (*FAULTS, OSError) as error:
                yield _fault(self.label, None, error, "the ZIP archive's directory is damaged or cut off")
                return
            names = Counter(member.filename for member in members)
            progress = _Progress()
            unpacked = max(1, sum(member.file_size for member in members))
            with ThreadPoolExecutor(threads) as pool:
                pending = [pool.submit(self._member, archive, member, names, progress) for member in members]
                try:
                    left = set(pending)
                    while left:
                        left = wait(left, TICK_SECONDS, FIRST_COMPLETED).not_done
                        tick(int(self.size * min(1.0, progress.done / unpacked)))
                finally:
                    progress.stop = True
                    pool.shutdown(cancel_futures=True)
            for counted in pending:
                yield counted.result()

    def _member(
        self, archive: zipfile.ZipFile, member: zipfile.ZipInfo, names: Mapping[str, int], progress: _Progress
    ) -> TensorScan | NotCounted:
        if not member.filename.endswith(".npy"):
            return NotCounted(self.label, member.filename, "no_numbers", "no array by its name, which must end in .npy")
        name = member.filename.removesuffix(".npy")
        if names[member.filename] > 1:
            return NotCounted(self.label, name, "refused", "its name comes twice in the archive")
        try:
            with archive.open(member) as file:
                return self._array(file, name, progress)
        except ContractError as error:
            return NotCounted(self.label, name, "refused", str(error))
        except NoNumbers:
            return NotCounted(self.label, name, "no_numbers", "text or dates")
        except (*FAULTS, OSError) as error:
            return _fault(self.label, name, error, "the archive's member is damaged, cut off or encrypted")

    def _array(self, file: IO[bytes], name: str, progress: _Progress) -> TensorScan:
        layout, left = read_npy_header(file.read, self.raw)
        fortran = layout.shape if layout.fortran else None
        checked, nan, positive, negative, largest, first = 0, 0, 0, 0, 0.0, None
        while left:
            block = _exactly(file, min(left, BLOCK_BYTES))
            part = _core.count_block(
                block, layout.dtype, byte_swapped=layout.byte_swapped, start=checked, fortran=fortran, best=first
            )
            checked, nan, positive, negative = checked + part[0], nan + part[1], positive + part[2], negative + part[3]
            largest, first = max(largest, part[4]), part[5]
            left -= len(block)
            progress.add(len(block))
        # The read past the end is what makes zipfile compare the CRC.
        if file.read(1):
            raise ContractError("there are bytes after the array [maximum: 0]")
        counts = FiniteCounts(checked, nan, positive, negative, largest, first)
        return TensorScan(self.label, name, layout.dtype, layout.shape, counts)


def _fault(label: str, name: str | None, error: Exception, damaged: str) -> NotCounted:
    if isinstance(error, OSError) and error.errno != errno.EINVAL:
        return NotCounted(label, name, "unreadable", error.strerror or type(error).__name__)
    return NotCounted(label, name, "refused", damaged)


def _exactly(file: IO[bytes], length: int) -> bytes:
    block = file.read(length)
    if len(block) < length:
        raise ContractError("shape and descr need more bytes than the member has")
    return block
