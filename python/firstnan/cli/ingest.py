"""Take telemetry into a store.

Each SOURCE is a file of JSON lines (plain, gzip or zstd), an Arrow or Parquet file of records, a folder of such files, a
pattern, or - for standard input: lines or an Arrow IPC stream, and Arrow and Parquet files where it is a file, not a pipe.
A line is a record, its kind told by its names or by --kind, or an envelope with a record. A row is read as the line that it
makes. Every line ends in the table of its kind or in the quarantine, or is blank, or the store has it: the same text again adds
nothing, a file that has grown goes on where it ended, and what was interrupted is completed by running it again. The counts
at the end reconcile: lines = records + quarantined + blank + known. With lines in the quarantine the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from firstnan.cli.inputs import check_kind
from firstnan.cli.output import complain, count, say, say_json, say_table
from firstnan.cli.refusal import Misuse
from firstnan.cli.stores import extra_needed
from firstnan.errors import ContractError
from firstnan.printable import printable

if TYPE_CHECKING:
    from firstnan.ingest import Summary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="a file, a folder, a pattern, or - for standard input")
    parser.add_argument("--store", required=True, metavar="STORE", help="the folder of the store; made where it is missing")
    parser.add_argument("--kind", help="the kind of every record; `firstnan schema list` names them")
    parser.add_argument(
        "--follow", action="store_true", help="go on with what is added to the files, until Ctrl-C or SIGTERM"
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.kind is not None:
        check_kind(arguments.kind)
    with extra_needed(), misuse_of_follow():
        from firstnan.ingest import ingest

        stop = threading.Event()
        with stopped_by_signals(stop) if arguments.follow else contextlib.nullcontext(), progress(arguments.sources) as told:
            summary = ingest(
                arguments.sources,
                store=arguments.store,
                kind=arguments.kind,
                follow=arguments.follow,
                stop=stop,
                on_progress=told,
            )
    for _, words in summary.failed:
        complain(words)
    if arguments.json:
        say_json({**dataclasses.asdict(summary), "failed": [words for _, words in summary.failed]})
    else:
        tell(summary)
    return 2 if summary.failed else 1 if summary.quarantined else 0


@contextlib.contextmanager
def misuse_of_follow() -> Iterator[None]:
    """A source that cannot be followed is a mistake in the call."""
    try:
        yield
    except ContractError as error:
        if error.kind != "follow":
            raise
        raise Misuse(str(error)) from None


def tell(summary: Summary) -> None:
    """The counts for people."""
    for note in summary.notes:
        say(note)
    rows = [[kind, count(rows)] for kind, rows in summary.kinds.items()]
    rows += [[f"({name})", count(getattr(summary, name))] for name in ("quarantined", "blank", "known")]
    say_table(["kind", "lines"], [*rows, ["all lines", count(summary.lines)]], numbers={"lines"})
    say()
    rate = summary.lines / summary.seconds if summary.seconds else 0.0
    files = "source" if summary.sources == 1 else "sources"
    say(
        f"{summary.sources:,} {files}, {summary.bytes:,} bytes, {summary.shards:,} shards added in {summary.seconds:.1f} s"
        f" ({rate:,.0f} lines/s)"
    )
    if summary.waiting:
        say(f"{summary.waiting:,} bytes of a last line wait for its end; they are not in the store")


@contextlib.contextmanager
def stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """While this lasts, SIGINT and SIGTERM ask for an orderly end; a second one is as usual."""

    def ask(number: int, _frame: Any) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, ask)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def progress(sources: list[str]) -> Iterator[Callable[[Summary], None] | None]:
    """A bar with the rate on standard error, where it is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
        TextColumn("{task.fields[rate]} lines/s"), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        name = printable(sources[0] if len(sources) == 1 else f"{len(sources)} sources")
        task = bar.add_task(name.replace("[", r"\["), total=plain_bytes(sources), rate="0")

        def told(summary: Summary) -> None:
            rate = summary.lines / summary.seconds if summary.seconds else 0.0
            bar.update(task, completed=summary.bytes, rate=f"{rate:,.0f}")

        yield told


def plain_bytes(sources: list[str]) -> int | None:
    """How much text there is, where that is known before it is read: plain files only."""
    from firstnan.ingest.sources import ROWS

    if all(os.path.isfile(source) and not source.endswith((".gz", ".zst", *ROWS)) for source in sources):
        return sum(os.path.getsize(source) for source in sources)
    return None
