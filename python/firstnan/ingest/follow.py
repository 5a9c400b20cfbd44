"""Files that are still being written: what is added is taken in, until somebody says stop."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from firstnan.arguments import refused_argument
from firstnan.ingest.intake import Intake, path_of
from firstnan.ingest.known import GZIP, ZSTD, beginning_of
from firstnan.ingest.sources import Source, SourceLike, sources_of

POLL_S: Final = 0.2
RESCAN_S: Final = 2.0
QUIET_S: Final = 2.0
"""How long a file that was rotated away must be still before it is given up: its writer may not have noticed yet."""
FINGERPRINT: Final = 4096


def follow_files(intake: Intake, sources: SourceLike | Iterable[SourceLike], ready: list[Source]) -> None:
    """Takes in what is added to the sources until `intake.stop` is set.

    Raises:
        ContractError: one of them is no plain file.
        OSError: the store cannot be written.
    """
    followed: dict[str, Followed] = {}
    leaving: list[Followed] = []
    passed_over: set[str] = set()
    refuse_what_cannot_be_followed(ready)
    scanned = time.monotonic()
    try:
        while not intake.stop.is_set():
            for source in ready:
                path = path_of(source)
                now = followed.get(path)
                if now is not None and now.is_at(str(source.file)):
                    continue
                if now is not None and os.path.exists(str(source.file)):
                    intake.summary.notes.append(f"{source.name}: rotated; the new file is read from its start")
                    leaving.append(followed.pop(path))
                    now = None
                if now is None and (new := Followed.begin(intake, source, path)) is not None:
                    followed[path] = new
            for one in followed.values():
                one.take_more(intake)
            leaving = [one for one in leaving if not one.left(intake)]
            intake.wait()
            intake.stop.wait(POLL_S)
            if time.monotonic() - scanned > RESCAN_S:
                ready = again(intake, sources, ready, passed_over)
                scanned = time.monotonic()
        intake.summary.waiting = sum(one.left_over() for one in (*followed.values(), *leaving))
    finally:
        for one in (*followed.values(), *leaving):
            one.close()


def refuse_what_cannot_be_followed(sources: list[Source]) -> None:
    if not all(map(can_be_followed, sources)):
        raise refused_argument("sources", "follow", "hold something that cannot be followed", "plain files of lines")


def can_be_followed(source: Source) -> bool:
    """Whether it is a plain file of lines.

    Raises:
        OSError: it is not there, or cannot be read.
    """
    if not isinstance(source.file, str) or source.form != "lines" or not stat.S_ISREG(os.stat(source.file).st_mode):
        return False
    with open(source.file, "rb") as file:
        magic = file.read(4)
    return magic[:2] != GZIP and magic != ZSTD


def again(
    intake: Intake, sources: SourceLike | Iterable[SourceLike], before: list[Source], passed_over: set[str]
) -> list[Source]:
    """The sources once more: folders and patterns may have more files now. What cannot be followed is noted, once."""
    try:
        found = sources_of(sources)
    except OSError:
        return before  # it is looked at again a moment later
    ready = []
    for source in found:
        try:
            if source in before or can_be_followed(source):
                ready.append(source)
            elif source.name not in passed_over:
                passed_over.add(source.name)
                intake.summary.notes.append(f"{source.name}: passed over, since it cannot be followed; ingest it by itself")
        except OSError:
            pass  # likewise
    return ready


class Followed:
    """One file, held open, so that it can be read to its end when another takes its name."""

    def __init__(self, source: Source, path: str, descriptor: int) -> None:
        self.source = source
        self.path = path
        self._descriptor = descriptor
        self._bytes = self._lines = self._size = 0
        self._open_line: str | None = None
        self._fingerprint = b""
        self._grew = time.monotonic()

    @classmethod
    def begin(cls, intake: Intake, source: Source, path: str) -> Followed | None:
        """Opens a file and passes over what the store has of it; None where it is not there for the moment."""
        try:
            descriptor = os.open(str(source.file), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        self = cls(source, path, descriptor)
        beginning = beginning_of(intake.store, self._source(), path, intake.kind)
        intake.summary.sources += 1
        intake.pass_over(beginning.bytes, beginning.lines)
        self._bytes, self._lines, self._open_line = beginning.bytes, beginning.lines, beginning.open_line
        self._remember()
        return self

    def close(self) -> None:
        os.close(self._descriptor)

    def is_at(self, path: str) -> bool:
        try:
            return os.path.samestat(os.stat(path), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def take_more(self, intake: Intake, *, open_line: bool = False) -> None:
        """Takes in the whole lines that are new; the last one without an end too, where nothing more will come."""
        size = os.fstat(self._descriptor).st_size
        if size < self._bytes or (size != self._size and not self._goes_on()):
            intake.summary.notes.append(f"{self.source.name}: truncated; it is read from its start")
            self._bytes = self._lines = self._size = 0
            self._open_line = None
        if size == self._size and not open_line:
            return
        if size != self._size:
            self._grew = time.monotonic()
        self._size = size
        shards = intake.shards(self._source(), self._bytes, self._lines + 1)
        try:
            for shard in shards:
                if not shard.ended and not open_line:
                    break
                intake.take(shard, self.path, self._open_line)
                self._open_line = None
                self._bytes, self._lines = shard.start + shard.bytes, self._lines + shard.lines
                if intake.stop.is_set():
                    break
        finally:
            shards.close()
            self._remember()

    def left_over(self) -> int:
        """Bytes of the file that are not taken in: a last line without an end, or what came at the very end."""
        return max(0, os.fstat(self._descriptor).st_size - self._bytes)

    def left(self, intake: Intake) -> bool:
        """Takes in what is still added to a file that has lost its name; True once it is quiet and all of it is taken."""
        self.take_more(intake)
        if time.monotonic() - self._grew < QUIET_S:
            return False
        if self.left_over():
            # A place of its own, since its name is that of another text now.
            self.path = f"{self.path} (rotated {os.fstat(self._descriptor).st_ino})"
            self.take_more(intake, open_line=True)
        self.close()
        return True

    def _source(self) -> Source:
        """The open file itself, whatever has its name by now."""
        return replace(self.source, file=f"/proc/self/fd/{self._descriptor}")

    def _remember(self) -> None:
        self._fingerprint = os.pread(self._descriptor, FINGERPRINT, max(0, self._bytes - FINGERPRINT))[
            : min(FINGERPRINT, self._bytes)
        ]

    def _goes_on(self) -> bool:
        """Whether what stands before the next byte to be read is what stood there."""
        before = self._fingerprint
        return os.pread(self._descriptor, len(before), self._bytes - len(before)) == before
