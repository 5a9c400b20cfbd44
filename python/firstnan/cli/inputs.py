"""What a command reads: whole files, or one line after the other; standard input as `-`; both in bounded memory."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import BinaryIO, Final

from firstnan._core import kinds
from firstnan.cli.refusal import Misuse, Refused
from firstnan.errors import ContractError

MAX_INPUT_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of one file, or of one line where lines are read."""
STANDARD_INPUT: Final = "-"


def check_kind(kind: str) -> None:
    """Raises Misuse: there is no such kind of record."""
    if kind not in kinds():
        raise Misuse(f"no such kind of record: {kind}; the kinds are {', '.join(kinds())}")


def read_file(name: str) -> bytes:
    """All of a file.

    Raises:
        Refused: it is larger than MAX_INPUT_BYTES.
        Misuse: it cannot be read.
    """
    with opened(name) as file:
        return within_bound(file.read(MAX_INPUT_BYTES + 1), name)


def read_lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not empty, each with its number from 1, without the line feed.

    Of a longer line MAX_INPUT_BYTES + 1 bytes are given, so that its length shows, and the rest is passed over.
    """
    number = 0
    while line := file.readline(MAX_INPUT_BYTES + 2):
        number += 1
        rest = line
        while len(rest) > MAX_INPUT_BYTES + 1 and not rest.endswith(b"\n"):
            rest = file.readline(MAX_INPUT_BYTES + 2)
        if record := line.rstrip(b"\r\n")[: MAX_INPUT_BYTES + 1]:
            yield number, record


def within_bound(data: bytes, name: str, line: int | None = None) -> bytes:
    """The data, unless there is more of it than MAX_INPUT_BYTES.

    Raises:
        Refused: there is.
    """
    if len(data) <= MAX_INPUT_BYTES:
        return data
    bound = f"{MAX_INPUT_BYTES} bytes"
    what = "file" if line is None else "line"
    raise Refused(
        ContractError(f"the {what} is too large [size: {bound}]", kind="size", layer="wire", pointer="", bound=bound),
        name,
        line,
    )


@contextlib.contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """A file, or standard input, open for reading bytes; a failure to read it, in here or later, is Misuse."""
    try:
        if name != STANDARD_INPUT:
            with open(name, "rb") as file:
                yield file
        elif sys.stdin is None:
            raise Misuse("standard input is closed")
        else:
            yield sys.stdin.buffer
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Misuse(f"{name}: {error.strerror or type(error).__name__}") from None
