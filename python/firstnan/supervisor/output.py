"""What a worker writes, read in bounded memory: events, malformed lines, the tail of standard error."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from firstnan.canonical import decode
from firstnan.errors import ContractError

MAX_LINE_BYTES = 65_536
MAX_MALFORMED_LINES = 64
MAX_MALFORMED_CHARACTERS = 1_024
MAX_STDERR_CHARACTERS = 16_384


def readable(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


class Lines:
    """Cuts a stream into lines and keeps at most MAX_LINE_BYTES + 1 bytes of each, so that too long shows."""

    def __init__(self) -> None:
        self._open = b""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        first, *others = chunk.split(b"\n")
        self._open = (self._open + first[: MAX_LINE_BYTES + 1])[: MAX_LINE_BYTES + 1]
        for line in others:
            yield self._open
            self._open = line[: MAX_LINE_BYTES + 1]

    def end(self) -> Iterator[bytes]:
        """The last line, where it lacks its line feed."""
        if self._open:
            yield self._open
            self._open = b""


class Stdout:
    """The events and malformed lines of one worker; an event beyond `max_events` is malformed."""

    def __init__(self, max_events: int) -> None:
        self.events: list[dict[str, Any]] = []
        self.malformed: list[str] = []
        self._max_events = max_events
        self._lines = Lines()

    def feed(self, chunk: bytes) -> None:
        for line in self._lines.feed(chunk):
            self._take(line)

    def end(self) -> None:
        for line in self._lines.end():
            self._take(line)

    def _take(self, line: bytes) -> None:
        # The first byte is looked at so that a flood of junk costs no parsing.
        if line.startswith(b"{") and len(line) <= MAX_LINE_BYTES and len(self.events) < self._max_events:
            try:
                self.events.append(dataclasses.asdict(decode("worker-event", line)))
                return
            except ContractError:
                pass
        if len(self.malformed) < MAX_MALFORMED_LINES:
            self.malformed.append(readable(line[: 4 * MAX_MALFORMED_CHARACTERS])[:MAX_MALFORMED_CHARACTERS])


class Stderr:
    """The tail of standard error."""

    def __init__(self) -> None:
        self._tail = b""

    def feed(self, chunk: bytes) -> None:
        self._tail = (self._tail + chunk)[-4 * MAX_STDERR_CHARACTERS :]

    def end(self) -> None:
        pass

    @property
    def text(self) -> str:
        return readable(self._tail)[-MAX_STDERR_CHARACTERS:]
