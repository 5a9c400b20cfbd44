"""A folder that is there whole or not at all, with a manifest of its files' digests. Needs neither jax nor numpy."""

from __future__ import annotations

import errno
import hashlib
import io
import itertools
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple, cast

from firstnan import ContractError, canonicalize
from firstnan.durable import sync_folder
from firstnan.printable import printable

MANIFEST: Final = "manifest.json"
FORMAT: Final = "firstnan-bundle-v1"

_MAX_JSON_BYTES: Final = 1 << 28
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}\Z", re.ASCII)


class Difference(NamedTuple):
    """One way in which a folder is not what its manifest says."""

    file: str
    what: Literal["missing", "changed", "extra", "unreadable", "disagrees"]


def write_folder(folder: Path, files: Mapping[str, bytes | Callable[[BinaryIO], None]], *, numbered: bool = False) -> Path:
    """Writes the files and, last, their manifest into a hidden folder beside `folder`, then renames it.

    Every file and both folders are flushed to the disk, so a reader finds all of it or nothing, after a crash too. What
    a crash leaves behind is the hidden folder, `.NAME.*.partial`, which may be deleted.

    Args:
        folder: the name it gets; its parent is made.
        files: bytes, or what writes them to an open file, by plain file name.
        numbered: where something has that name, be it a dangling link, the first free one of `NAME-2`, `NAME-3`, … is
            used instead.

    Returns:
        The folder that it became.

    Raises:
        FileExistsError: there is something of that name.
        NotADirectoryError: something that is no folder stands where its parent should.
        OSError: the disk is full, or the like; nothing is left behind.
        ContractError: the name holds a NUL character.
    """
    refuse_nul(folder)
    if os.path.lexists(folder) and not numbered:
        raise FileExistsError(f"{printable(folder.name)} exists: a bundle is never overwritten")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(f"{printable(os.fspath(folder.parent))} is not a folder, so no bundle fits in it") from None
    partial = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.partial"
    partial.mkdir()
    try:
        listed = {name: _write_file(partial / name, content) for name, content in files.items()}
        _write_file(partial / MANIFEST, json_bytes({"format": FORMAT, "files": listed}))
        sync_folder(partial)
        folder = _rename(partial, folder, numbered)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    sync_folder(folder.parent)
    return folder


def verify_folder(folder: Path) -> tuple[Difference, ...]:
    """Compares every file with the manifest, reading each from the disk; empty when all is as it was written."""
    refuse_nul(folder)
    path = folder / MANIFEST
    if not _is_regular(path):
        return (Difference(MANIFEST, "missing"),)
    try:
        listed = _listed_files(read_json(path))
        present = set(os.listdir(folder)) - {MANIFEST}
    except (ContractError, OSError):
        return (Difference(MANIFEST, "unreadable"),)
    found = [Difference(name, "extra") for name in present - listed.keys()]
    for name, (digest, size) in listed.items():
        if name not in present:
            found.append(Difference(name, "missing"))
        elif not _matches(folder / name, digest, size):
            found.append(Difference(name, "changed"))
    return tuple(sorted(found))


class Listed(NamedTuple):
    """A file as a manifest lists it."""

    sha256: str
    size: int


def listed_files(folder: Path) -> dict[str, Listed]:
    """The files of a folder's manifest, by name.

    Raises:
        ContractError: the manifest is not one.
        OSError: it cannot be read.
    """
    return _listed_files(read_json(folder / MANIFEST))


def read_json(path: Path) -> Any:
    """A JSON file, strictly: UTF-8, no duplicate name, no NaN or Infinity, bounded depth and size.

    Raises:
        ContractError: it is not, or it is no regular file.
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        data = _bounded(file)
    return parse_json(data)


def read_listed(folder: Path, name: str, files: Mapping[str, Listed]) -> bytes:
    """A small file's bytes, which are those that its manifest lists.

    Raises:
        ContractError: they are not, or it is no regular file, or too large.
        OSError: it cannot be read.
    """
    with open_listed(folder, name, files) as file:
        return _bounded(file)


@contextmanager
def open_listed(folder: Path, name: str, files: Mapping[str, Listed]) -> Iterator[BinaryIO]:
    """A file to be read from its beginning to its end; what was read is then compared with what its manifest lists.

    Raises:
        ContractError: it is something else, at the end of the block; or it is no regular file.
        OSError: it cannot be read.
    """
    with open_regular(folder / name) as file:
        digesting = _DigestingReader(file)
        yield cast("BinaryIO", digesting)
        if Listed(digesting.digest.hexdigest(), digesting.size) != files.get(name):
            raise ContractError(f"{name}: it is not what {MANIFEST} lists, so it changed since the bundle was read")


def _bounded(file: BinaryIO) -> bytes:
    # The size first: a read of so many bytes would set them aside for the smallest file.
    if (size := os.fstat(file.fileno()).st_size) > _MAX_JSON_BYTES:
        raise ContractError(f"it is larger than {_MAX_JSON_BYTES} bytes")
    return file.read(size)


def parse_json(data: bytes) -> Any:
    """The value of JSON text, as strict as `read_json`.

    Raises:
        ContractError: it is not strict JSON.
    """
    canonicalize(data, profile="evidence")
    try:
        return json.loads(data)
    except ValueError:
        raise ContractError("it holds an integer of more digits than can be read") from None


def open_regular(path: Path) -> io.BufferedReader:
    """A regular file, open for reading; never one behind a link, nor a pipe that nobody writes to.

    Raises:
        ContractError: there is something else of that name.
        FileNotFoundError: there is nothing.
        OSError: it cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        # A link, and a socket.
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise ContractError(f"{path.name}: it is not a regular file") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ContractError(f"{path.name}: it is not a regular file")
    return os.fdopen(descriptor, "rb")


def refuse_nul(folder: Path) -> None:
    """Refuses the one character that no name on a disk can hold.

    Raises:
        ContractError: it holds it.
    """
    if "\0" in os.fspath(folder):
        raise ContractError("the name of a bundle's folder must not hold a NUL character")


def json_bytes(value: Any) -> bytes:
    """JSON for people and machines: ASCII, one item a line, names in the order given, finite numbers only.

    Raises:
        ContractError: the value has no such text that `read_json` would take again.
    """
    try:
        data = json.dumps(value, indent=1, allow_nan=False).encode("ascii") + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise ContractError(f"it cannot be written as JSON: {error}") from None
    if len(data) > _MAX_JSON_BYTES:
        raise ContractError(f"it is larger than {_MAX_JSON_BYTES} bytes")
    parse_json(data)
    return data


def _listed_files(manifest: Any) -> dict[str, Listed]:
    files = manifest.get("files") if isinstance(manifest, dict) and manifest.get("format") == FORMAT else None
    if not isinstance(files, dict):
        raise ContractError(f"{MANIFEST} is not one of format {FORMAT}")
    listed = {}
    for name, entry in files.items():
        # A name from a file must not lead out of the folder.
        if not _FILE_NAME.match(name) or name == MANIFEST or not isinstance(entry, dict):
            raise ContractError(f"{MANIFEST} lists a file under a name that no bundle has")
        digest, size = entry.get("sha256"), entry.get("size")
        if not isinstance(digest, str) or type(size) is not int:
            raise ContractError(f"{MANIFEST} lists a file without its digest and size")
        listed[name] = Listed(digest, size)
    return listed


class _Digesting(io.RawIOBase):
    """Writes through to a file while hashing."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.digest, self.size = file, hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        self.size += memoryview(data).nbytes
        return self.file.write(data)


class _DigestingReader:
    """Reads a file in order while hashing."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.digest, self.size = file, hashlib.sha256(), 0

    def fileno(self) -> int:
        return self.file.fileno()

    def read(self, size: int) -> bytes:
        data = self.file.read(size)
        self.digest.update(data)
        self.size += len(data)
        return data

    def readinto(self, buffer: bytearray) -> int:
        count = cast("io.BufferedReader", self.file).readinto(buffer)
        self.digest.update(memoryview(buffer)[:count])
        self.size += count
        return count


def _write_file(path: Path, content: bytes | Callable[[BinaryIO], None]) -> dict[str, Any]:
    with open(path, "xb") as file:
        digesting = _Digesting(file)
        if isinstance(content, bytes):
            digesting.write(content)
        else:
            content(cast("BinaryIO", digesting))
        file.flush()
        os.fsync(file.fileno())
    return {"sha256": digesting.digest.hexdigest(), "size": digesting.size}


def _matches(path: Path, digest: str, size: int) -> bool:
    try:
        with open_regular(path) as file:
            return os.fstat(file.fileno()).st_size == size and hashlib.file_digest(file, "sha256").hexdigest() == digest
    except (ContractError, OSError):
        return False


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _rename(partial: Path, folder: Path, numbered: bool) -> Path:
    asked = folder
    names = (asked.with_name(f"{asked.name}-{n}") for n in itertools.count(2)) if numbered else iter(())
    while True:
        try:
            # A rename would take the place of an empty folder, and onto others it fails: seen first, said by name.
            if not os.path.lexists(folder):
                os.rename(partial, folder)
                return folder
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
        taken, folder = folder, next(names, folder)
        if folder == taken:
            raise FileExistsError(f"{printable(folder.name)} exists: a bundle is never overwritten")
