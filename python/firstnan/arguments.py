"""Arguments of our functions, checked before anything is done with them."""

from __future__ import annotations

import operator
import os
import re
from pathlib import Path
from typing import Any

from firstnan.errors import ContractError

# As `is_plain_word` of the core.
_PLAIN_WORD = re.compile(r"[A-Za-z_]{1,32}")


def refused_argument(name: str, kind: str, words: str, bound: object) -> ContractError:
    """The refusal of an argument, in the form of the core: the argument and the bound, never the value."""
    return ContractError(f"{name} {words} [{kind}: {bound}]", kind=kind, layer="shape", pointer=f"/{name}", bound=str(bound))


def checked_integer(name: str, value: Any, least: int, largest: int) -> int:
    """An integer of any integer type (Python, NumPy) as an int; a bool is none.

    Raises:
        ContractError: it is no integer, or out of its bounds.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise refused_argument(name, "type", "has the wrong type", "integer") from None
    if number < least:
        raise refused_argument(name, "minimum", "is below the minimum", least)
    if number > largest:
        raise refused_argument(name, "maximum", "is above the maximum", largest)
    return number


def checked_path(name: str, value: Any) -> Path:
    """A path that the file system can be asked about.

    Raises:
        ContractError: it is no str or os.PathLike of str, or holds NUL or what no file name can hold.
    """
    try:
        text = os.fspath(value)
    except TypeError:
        text = None
    if not isinstance(text, str):
        raise refused_argument(name, "type", "has the wrong type", "path")
    try:
        encoded = os.fsencode(text)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise refused_argument(name, "pattern", "holds a character that no file name can hold", "no NUL, no lone surrogate")
    return Path(text)


def shown_name(name: object) -> str:
    """A name that a message may show: a short plain word as it is, anything else as `?`."""
    return name if isinstance(name, str) and _PLAIN_WORD.fullmatch(name) else "?"
