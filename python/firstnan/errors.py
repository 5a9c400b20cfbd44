"""What firstnan raises when something is malformed."""

from __future__ import annotations

import re
from typing import Any

ERROR_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


class ContractError(ValueError):
    """Something is not what the contract says. The message names the field and the bound, never a value.

    Attributes:
        kind: which sentence of the contract is broken, such as `"pattern"` or `"duplicate_name"`.
        layer: `"shape"` (one field), `"rule"` (between fields) or `"wire"` (the bytes themselves).
        pointer: JSON Pointer (RFC 6901) to the value; empty for the top value. Of the names of a dict only short
            plain words are shown, any other is `?`.
        bound: the bound that is broken, as text.
        record: the kind of record, such as `"stage-message"`.
        offset: the byte offset, where the input was text.

    Each is None where it is not known.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str | None = None,
        layer: str | None = None,
        pointer: str | None = None,
        bound: str | None = None,
        record: str | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.layer = layer
        self.pointer = pointer
        self.bound = bound
        self.record = record
        self.offset = offset


class RuntimeContractError(ContractError):
    """A failure of the distributed runtime under a stable code, as a rank's `abort` vote carries it.

    Attributes:
        code: the error code.

    Raises:
        ContractError: `code` is not an error code: `[A-Z][A-Z0-9_]{0,63}`, the whole string.
    """

    def __init__(self, code: str, message: str) -> None:
        if not isinstance(code, str) or ERROR_CODE.fullmatch(code) is None:
            raise ContractError(
                f"/code does not match the pattern [pattern: {ERROR_CODE.pattern}]",
                kind="pattern", layer="shape", pointer="/code", bound=ERROR_CODE.pattern,
            )
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, *self.args), self.__dict__
