"""Why a command ends: data that the contract refuses, or a mistake in how the command was called."""

from __future__ import annotations

from typing import Any

from firstnan.errors import ContractError


class Misuse(Exception):
    """The command cannot do what was asked, through no fault of the data: exit code 2."""


class Refused(Exception):
    """One refusal of the contract, with the file and line it is about: exit code 1."""

    def __init__(self, error: ContractError, file: str | None = None, line: int | None = None) -> None:
        super().__init__(file, line, error)
        self.error, self.file, self.line = error, file, line

    def __str__(self) -> str:
        place = "" if self.file is None else f"{self.file}: " if self.line is None else f"{self.file}:{self.line}: "
        names = ", ".join(name for name in (self.error.layer, self.error.kind) if name)
        return f"{place}refused ({names}): {self.error}" if names else f"{place}refused: {self.error}"

    def to_json(self) -> dict[str, Any]:
        """The parts of the refusal, each by itself; none holds a value of the input."""
        error = self.error
        return {
            "file": self.file,
            "line": self.line,
            "layer": error.layer,
            "pointer": error.pointer,
            "kind": error.kind,
            "bound": error.bound,
            "offset": error.offset,
            "message": str(error),
        }
