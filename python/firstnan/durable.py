"""Files that a crash leaves whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from typing import Any


def write_durably(path: str, write: Callable[[Any], None]) -> int:
    """Calls `write` with an open file that becomes the one at `path`; its bytes.

    Raises:
        OSError: it cannot be written; the temporary file is removed.
    """
    folder = os.path.dirname(path)
    make_folders(folder)
    temporary = os.path.join(folder, f".{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        os.replace(temporary, path)
    except BaseException as error:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename in (None, temporary) and error.errno is not None:
            raise OSError(error.errno, os.strerror(error.errno), path) from None
        raise
    sync_folder(folder)
    return size


def write_output(path: str, write: Callable[[Any], None]) -> int:
    """As `write_durably`, to where a user says: behind a link, and into a device or a pipe instead of in its place.

    Raises:
        OSError: it cannot be written.
    """
    path = os.path.realpath(path)
    if os.path.isdir(path) or os.path.isfile(path) or not os.path.exists(path):
        return write_durably(path, write)
    try:
        with open(path, "wb") as file:
            write(file)
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, os.strerror(error.errno), path) from None
        raise
    return 0


def make_folders(folder: str) -> None:
    """Makes a folder and those above it, each entry on disk."""
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder)
    make_folders(above)
    os.makedirs(folder, exist_ok=True)
    sync_folder(above)


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """The names in a folder, on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
