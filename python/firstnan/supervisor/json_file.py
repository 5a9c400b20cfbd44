"""One JSON value as the evidence profile's bytes: its digest, and its place on disk."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from firstnan.arguments import checked_path
from firstnan.canonical import canonical_evidence
from firstnan.supervisor.worker import replace_file


def digest(value: Any) -> str:
    """SHA-256 (lower-case hex) of the evidence profile's bytes of a JSON value.

    Raises:
        ContractError: a float is not finite, or the value has no canonical form.
        TypeError: a member is not a JSON value.
    """
    return hashlib.sha256(canonical_evidence(value)).hexdigest()


def atomic_json(path: str | os.PathLike[str], value: Any) -> None:
    """Replace the JSON file at `path` by the evidence profile's bytes of `value` and a line feed.

    A reader, or a crash at any instant, finds the old bytes or the new ones. Parent folders are made. File and folder
    are on disk when this returns. A failure leaves the old file and no temporary one; only a process killed within the
    call can leave `.firstnan-*.tmp` beside it. The value is refused before anything is written.

    Raises:
        ContractError, TypeError: as `digest`; ContractError also where no file can have such a path.
        OSError: the file cannot be written or replaced.
    """
    data = canonical_evidence(value) + b"\n"
    path = checked_path("path", path)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, data)
