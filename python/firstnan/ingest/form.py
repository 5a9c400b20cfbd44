"""The form of a source, told by its first bytes. A pipe gives its bytes once: those that were looked at are kept."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from firstnan.errors import ContractError

Form = Literal["lines", "arrow", "parquet"]

STREAM: Final = b"\xff\xff\xff\xff"
"""What stands before each message of an Arrow IPC stream."""
BEGINNINGS: Final[dict[bytes, Form]] = {b"ARROW1": "arrow", b"PAR1": "parquet", STREAM: "arrow"}
"""How files of rows begin, whatever they are named."""
LONGEST: Final = max(map(len, BEGINNINGS))


def form_of(begins: bytes) -> Form:
    """What begins with these bytes."""
    return next((form for mark, form in BEGINNINGS.items() if begins.startswith(mark)), "lines")


@dataclass(frozen=True, slots=True)
class Opened:
    """A source as it is read.

    Attributes:
        file: the path of a plain file, or a descriptor that stands where reading begins.
        form: of it.
        head: what was read of a pipe already, and stands in front of what it still has; empty where the file can be seeked.
    """

    file: str | int
    form: Form
    head: bytes = b""


@contextlib.contextmanager
def opened(name: str, file: str | int, form: Form) -> Iterator[Opened]:
    """A source with its form; a descriptor that is opened for it lasts as long as the block.

    Args:
        name: of the source, for errors.
        file: a path or a descriptor.
        form: that of a plain file at a path; of any other the first bytes tell it. It is waited for no more of them than
            are needed to decide.

    Raises:
        OSError: it cannot be opened or read.
        ContractError: rows that are read from their end, as of Parquet, come through a pipe.
    """
    if isinstance(file, str) and (os.path.isfile(file) or not os.path.exists(file)):
        yield Opened(file, form)
        return
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC) if isinstance(file, str) else file
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            yield Opened(descriptor, _form_at_its_place(descriptor))
            return
        head = _first_bytes(descriptor)
        form = form_of(head)
        if form != "lines" and not head.startswith(STREAM):
            known = {"arrow": "an Arrow IPC file", "parquet": "a Parquet file"}[form]
            raise ContractError(f"{name}: begins as {known}, which can only be read where it can be seeked, not through a pipe: "
                                "name the file, or send an Arrow IPC stream", kind="unsupported", layer="wire")  # fmt: skip
        yield Opened(descriptor, form, head)
    finally:
        if descriptor != file:
            os.close(descriptor)


def _form_at_its_place(descriptor: int) -> Form:
    place = os.lseek(descriptor, 0, os.SEEK_CUR)
    begins = os.pread(descriptor, LONGEST, place)
    # Of a file that is read from its end, only the whole is one.
    return form_of(begins) if place == 0 or begins.startswith(STREAM) else "lines"


def _first_bytes(descriptor: int) -> bytes:
    """As many as decide what form this is: one, where that fits no beginning."""
    head = b""
    while any(len(head) < len(mark) and mark.startswith(head) for mark in BEGINNINGS):
        more = os.read(descriptor, LONGEST - len(head))
        if not more:
            break
        head += more
    return head
