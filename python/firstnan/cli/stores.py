"""What the commands about a store share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from firstnan.cli.refusal import Misuse


@contextlib.contextmanager
def extra_needed() -> Iterator[None]:
    """Where the extra `ingest` is not installed, that is Misuse, with how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise Misuse(str(error)) from None
