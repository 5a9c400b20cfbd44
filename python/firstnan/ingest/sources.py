"""What a caller names as sources, as a list of files: paths, folders, patterns, standard input, open files."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from firstnan.ingest.form import LONGEST, Form, form_of

LINES = tuple(f".{name}{packed}" for name in ("jsonl", "ndjson", "json") for packed in ("", ".gz", ".zst"))
"""How files of lines are named: only these are taken from a folder. A file that is named itself may have any name."""
ROWS: Final[dict[str, Form]] = {".arrow": "arrow", ".arrows": "arrow", ".parquet": "parquet"}
"""How files of rows are named, and their form."""


class OpenFile(Protocol):
    """A file with a descriptor, as `open` gives it."""

    def fileno(self) -> int: ...


SourceLike = str | os.PathLike[str] | OpenFile


@dataclass(frozen=True, slots=True)
class Source:
    """One file, open or not.

    Attributes:
        name: what the rows call it: the path as it was given, `\\xff` for a byte that is no UTF-8; `-` for standard input.
        file: what `firstnan._core.LineReader` reads: a path or a descriptor.
        form: `lines`, or the form of its rows; of what is no plain file at a path, `firstnan.ingest.form.opened` tells it.
    """

    name: str
    file: str | int
    form: Form = "lines"


def sources_of(sources: SourceLike | Iterable[SourceLike]) -> list[Source]:
    """Every file that is meant, each once, folders and patterns in the order of their paths.

    Args:
        sources: one or more of: a path; a folder (all below it that is named as lines or rows are); a pattern with `*`,
            `?`, `[…]` or `**`, where no file has that very name; `-`, standard input; an open file with a descriptor.

    Raises:
        FileNotFoundError: nothing of that name, nothing that fits the pattern, or nothing to read in the folder.
        TypeError: not a source.
    """
    one = isinstance(sources, (str, os.PathLike)) or hasattr(sources, "fileno")
    found: dict[object, Source] = {}
    for source in [sources] if one else sources:  # type: ignore[union-attr]
        for item in _expanded(source):  # type: ignore[arg-type]
            key = item.file if isinstance(item.file, int) else os.path.realpath(item.file)
            found.setdefault(key, item)
    return list(found.values())


def _expanded(source: SourceLike) -> Iterator[Source]:
    if isinstance(source, (str, os.PathLike)):
        yield from _of_path(os.fspath(source))
        return
    fileno = getattr(source, "fileno", None)
    if fileno is None:
        raise TypeError(f"a source is a path or an open file, not {type(source).__name__}")
    name = getattr(source, "name", None)
    yield Source(utf8_name(name) if isinstance(name, str) else f"descriptor {fileno()}", _at_its_place(source))


def _of_path(path: str) -> Iterator[Source]:
    if path == "-":
        if sys.stdin is None:
            raise OSError(errno.EBADF, "it is closed", "standard input")
        yield Source("-", _at_its_place(sys.stdin))
    elif os.path.isdir(path):
        yield from _some((_file(name) for name in sorted(_below(path))), path,
                         f"no file in this folder is named {', '.join((*LINES, *ROWS))}")
    elif not os.path.exists(path) and glob.has_magic(path):
        names = (name for name in glob.iglob(path, recursive=True) if not os.path.isdir(name))
        yield from _some((_file(name) for name in sorted(names)), path, "no file fits this pattern")
    elif os.path.exists(path):
        yield _file(path)
    else:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _below(folder: str) -> Iterator[str]:
    """The files below a folder that are read, and each folder that cannot be listed: who reads it says why."""
    unlisted: list[str] = []
    for above, _, names in os.walk(folder, onerror=lambda error: unlisted.append(error.filename)):
        files = (os.path.join(above, name) for name in names if name.endswith((*LINES, *ROWS)))
        yield from filter(_may_be_read, files)
    yield from unlisted


def _may_be_read(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:  # a link to nothing
        return False
    except OSError:
        return True


def _some(found: Iterable[Source], path: str, otherwise: str) -> Iterator[Source]:
    count = 0
    for source in found:
        count += 1
        yield source
    if not count:
        raise FileNotFoundError(errno.ENOENT, otherwise, path)


def _file(path: str) -> Source:
    form = ROWS.get(os.path.splitext(path)[1], "lines")
    if form == "lines" and os.path.isfile(path):
        with contextlib.suppress(OSError), open(path, "rb") as file:  # who reads it says why it cannot be opened
            form = form_of(file.read(LONGEST))
    return Source(utf8_name(path), path, form)


def utf8_name(path: str) -> str:
    """A path as text: each byte that is no UTF-8 as `\\xff`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _at_its_place(file: OpenFile) -> int:
    """The descriptor, standing where the reader of the object stands: what it holds in its buffer is read again."""
    descriptor = file.fileno()
    tell = getattr(getattr(file, "buffer", file), "tell", None)
    try:
        if tell is not None:
            os.lseek(descriptor, tell(), os.SEEK_SET)
    except (OSError, ValueError):
        pass  # a pipe or a terminal has no place
    return descriptor
