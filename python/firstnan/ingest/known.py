"""How much of a text a store has already: its shards known again one after the other, by their bytes."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import BinaryIO

from firstnan.ingest.missing import needed
from firstnan.ingest.problems import StoreError
from firstnan.ingest.rows import arrow_file
from firstnan.ingest.sources import Source
from firstnan.ingest.store import Known, OpenLine, Store

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Beginning:
    """The part of a text that need not be decoded again.

    Attributes:
        bytes, lines, shards: of it; it ends at the end of a line.
        open_line: the SHA-256 under which the store has the beginning of the next line, from when it had no end; or None.
    """

    bytes: int = 0
    lines: int = 0
    shards: int = 0
    open_line: str | None = None


def beginning_of(store: Store, source: Source, path: str, kind: str | None) -> Beginning:
    """What the store has of the beginning of a file of lines, under whatever name it came.

    Nothing, where the source is no file that can be read twice, or cannot be read: that is for whoever reads it to say.
    Lines that had no end when this very source was read before, and that the beginning goes on with, are forgotten.

    Args:
        store: the store.
        source: the file.
        path: its real path.
        kind: the kind that is given for its records.
    """
    # Of a pipe with a path, what is read here would be lost.
    if source.form != "lines" or not isinstance(source.file, str) or not os.path.isfile(source.file):
        return Beginning()
    if not store.known_at(0, kind):
        return Beginning()
    try:
        with _text(source.file) as text:
            found = _walked(store, text, kind)
        for line in store.open_lines(path, kind):
            if line.start < found.bytes and _still_begins(source.file, line):
                store.forget(line, path, kind)
    except StoreError:
        raise
    except (OSError, EOFError):
        return Beginning()
    return found


def _still_begins(file: str, line: OpenLine) -> bool:
    """Whether a line of a text begins as it did when it had no end."""
    with _text(file) as text:
        left = line.start
        while left and (chunk := text.read(min(left, CHUNK))):
            left -= len(chunk)
        return hashlib.sha256(text.read(line.bytes)).hexdigest() == line.sha256


def _walked(store: Store, text: BinaryIO, kind: str | None) -> Beginning:
    found, carried = Beginning(), b""
    while candidates := store.known_at(found.bytes, kind):
        shard, open_line, carried = _longest(text, carried, candidates)
        if shard is None:
            return Beginning(found.bytes, found.lines, found.shards, open_line)
        found = Beginning(found.bytes + shard.bytes, found.lines + shard.lines, found.shards + 1)
    return found


def _longest(text: BinaryIO, carried: bytes, candidates: list[Known]) -> tuple[Known | None, str | None, bytes]:
    """The longest shard that the text goes on with, the shard of an open line that it goes on with, and what was read
    behind the first. `carried` was read before."""
    best, open_line, behind = None, None, bytearray()
    digest, length = hashlib.sha256(), 0
    ends = sorted({candidate.bytes for candidate in candidates})
    known = {(candidate.bytes, candidate.sha256): candidate for candidate in candidates}
    for end in ends:
        while length < end:
            chunk = carried or text.read(CHUNK)
            if not chunk:
                return best, open_line, bytes(behind)
            used, carried = chunk[: end - length], chunk[end - length :]
            digest.update(used)
            length += len(used)
            behind += used
        match = known.get((end, digest.copy().hexdigest()))
        if match is not None and match.ended:
            best, open_line = match, None
            behind.clear()
        elif match is not None:
            open_line = match.sha256
    return best, open_line, bytes(behind) + carried


def _text(path: str) -> BinaryIO:
    """A file's text, decompressed."""
    with open(path, "rb") as file:
        magic = file.read(4)
    if magic[:2] == GZIP or magic == ZSTD:
        pa = needed("pyarrow")
        text: BinaryIO = pa.input_stream(arrow_file(path), compression="gzip" if magic[:2] == GZIP else "zstd")
        return text
    return open(path, "rb")
