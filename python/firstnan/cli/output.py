"""What a command prints: lines, tables, or one JSON document; rich only where a person watches."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from firstnan.printable import printable

CAUSE: Final = "Where a symptom first shows is not why it arose: no cause is claimed."


def say(line: str = "") -> None:
    """One line of the result."""
    print(printable(line))


def complain(line: str) -> None:
    """One line of what could not be done; nowhere, where standard error is closed."""
    if sys.stderr is not None:
        print(f"firstnan: {printable(line)}", file=sys.stderr)


def say_json(document: Any) -> None:
    """The one JSON document of a command, ASCII."""
    print(json.dumps(document, indent=2, allow_nan=False))


def say_bytes(data: bytes) -> None:
    """Bytes as they are; as UTF-8 text where standard output takes only text, as in a notebook."""
    sys.stdout.flush()
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:
        sys.stdout.write(data.decode("utf-8"))
    else:
        stream.write(data)


def say_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Collection[str] = (),
    marked: Collection[int] = (),
) -> None:
    """A table: drawn by rich on a terminal, aligned by spaces elsewhere.

    Args:
        columns: their names.
        rows: their cells.
        numbers: the columns that align right.
        marked: the rows that stand out on a terminal.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column in columns:
            table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
        for place, row in enumerate(cells):
            table.add_row(*map(Text, row), style="bold red" if place in marked else None)
        Console(highlight=False).print(table)
        return
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for row in [list(columns), *cells]:
        padded = (
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, cell, width in zip(columns, row, widths, strict=True)
        )
        print("  ".join(padded).rstrip())


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Shows on standard error, where it is a terminal, that something goes on."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(printable(what))):
        yield


def count(value: int) -> str:
    """A count for people, its thousands set apart."""
    return f"{value:,}"


def magnitude(value: int | float | None) -> str:
    """A magnitude for people: a float's first six digits, all of an integer's; `-` where there is none."""
    return "-" if value is None else count(value) if isinstance(value, int) else f"{value:.6g}"
