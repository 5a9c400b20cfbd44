"""What the commands about a store share."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from firstnan.cli.output import count, say, say_json
from firstnan.cli.refusal import Misuse

if TYPE_CHECKING:
    from firstnan.ingest import Snapshot


@contextlib.contextmanager
def extra_needed() -> Iterator[None]:
    """Where the extra `ingest` is not installed, that is Misuse, with how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise Misuse(str(error)) from None


@contextlib.contextmanager
def asked(folder: str) -> Iterator[Snapshot]:
    """One consistent state of an existing store."""
    with extra_needed():
        from firstnan.ingest import Store

        with Store.open(folder) as store, store.snapshot() as snapshot:
            yield snapshot


def add_answer_arguments(parser: argparse.ArgumentParser) -> None:
    """Where an answer is written instead of shown."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--arrow", metavar="FILE", help="write the answer there, in Arrow's file format")
    form.add_argument("--parquet", metavar="FILE", help="write the answer there, as Parquet")


def written(arguments: argparse.Namespace, answer: Any) -> bool:
    """Writes an answer (an Arrow table, or a reader of batches) to a file where --arrow or --parquet says so."""
    file = arguments.arrow or arguments.parquet
    if file is None:
        return False
    from firstnan.ingest.questions import write_answer

    rows = write_answer(answer, file, "arrow" if arguments.arrow else "parquet")
    if arguments.json:
        say_json({"file": file, "rows": rows})
    else:
        say(f"{count(rows)} rows written to {file}")
    return True
