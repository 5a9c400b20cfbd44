"""Count the non-finite elements of every tensor of a checkpoint, without loading it.

Reads .safetensors (one file, or the folder or index of its shards), .npz, .npy, and Orbax checkpoints (with the extra
`scan`). What is damaged is told, and all else is counted. With --first-bad, finds the first bad step of a folder by
bisection. The exit code is 0 where every number was read and is finite; 1 where one is not, or something was refused;
2 where the system could not read something.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from firstnan.checkpoints import CheckpointScan, FirstBad, NotCounted, StepLook, TensorScan, first_bad, scan
from firstnan.cli.output import CAUSE, count, magnitude, say, say_json, say_table
from firstnan.cli.refusal import Misuse, Refused
from firstnan.errors import ContractError
from firstnan.printable import printable

SHOWN_TENSORS: Final = 40
SHOWN_NAME: Final = 120
"""The characters of a name in a table; --json has all of them."""
SHOWN_OTHERS: Final = 8
SHOWN_BESIDE_BAR: Final = 24
NUMBERS: Final = ("checked", "non-finite", "NaN", "+Inf", "-Inf", "largest finite", "first at")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a checkpoint, or with --first-bad the folder of its steps")
    parser.add_argument("--first-bad", action="store_true", help="find the first step with a non-finite element")
    parser.add_argument("--every", action="store_true", help="with --first-bad, look at each step instead of bisecting")
    parser.add_argument("--all", action="store_true", help="list every tensor, not only the first 40 and the bad ones")
    parser.add_argument("--threads", type=int, metavar="N", help="1 to 1,024; as many as there are cores, 8 at most")
    parser.add_argument(
        "--raw-dtype", action="append", default=[], metavar="DTYPE", help="what .npy files of raw bytes hold, such as bfloat16"
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.every and not arguments.first_bad:
        raise Misuse("--every goes with --first-bad")
    options = {"threads": arguments.threads, "raw_dtypes": arguments.raw_dtype}
    try:
        with bar() as progress:
            if arguments.first_bad:
                found = first_bad(arguments.path, every=arguments.every, progress=progress, **options)
            else:
                scanned = scan(arguments.path, progress=progress(arguments.path), **options)
    except ContractError as error:
        if error.pointer in ("/threads", "/raw_dtypes", "/path"):
            raise Misuse(str(error)) from None
        raise Refused(error, arguments.path) from None
    except ImportError as error:
        raise Misuse(str(error)) from None
    if arguments.first_bad:
        say_json(first_bad_document(found)) if arguments.json else show_first_bad(found, arguments.all)
        return 1 if any(look.state != "finite" for look in found.looked) else 0
    say_json(document(scanned)) if arguments.json else show(scanned, arguments.all)
    if any(entry.kind == "unreadable" for entry in scanned.not_counted):
        return 2
    return 0 if scanned.all_finite else 1


def document(scanned: CheckpointScan) -> dict[str, Any]:
    """The keys are in docs/scanning.md."""
    return {
        "path": scanned.path,
        "complete": scanned.complete,
        "all_finite": scanned.all_finite,
        "checked": scanned.checked,
        "nonfinite": scanned.nonfinite,
        "nan": scanned.nan,
        "positive_infinity": scanned.positive_infinity,
        "negative_infinity": scanned.negative_infinity,
        "maximum_absolute_finite": scanned.maximum_absolute_finite,
        "tensors": [tensor.to_json() for tensor in scanned.worst_first()],
        "not_counted": [asdict(entry) for entry in scanned.not_counted],
    }


def first_bad_document(found: FirstBad) -> dict[str, Any]:
    """Likewise."""
    return {
        "folder": found.folder,
        "steps": found.steps,
        "assumption": found.assumption,
        "looked": [asdict(look) for look in found.looked],
        "last_good": None if found.last_good is None else asdict(found.last_good),
        "first_bad": None if found.first_bad is None else asdict(found.first_bad),
        "scan": None if found.scan is None else document(found.scan),
        "statement": CAUSE,
    }


def show(scanned: CheckpointScan, every: bool) -> None:
    """For people: the tensors worst first, what was not counted, and the sum."""
    tensors = scanned.worst_first()
    bad = sum(1 for tensor in tensors if tensor.counts.nonfinite)
    shown = tensors if every else tensors[: max(SHOWN_TENSORS, bad)]
    if shown:
        files = len({tensor.file for tensor in tensors}) > 1
        say_table(
            [*(["file"] if files else []), "tensor", "dtype", "shape", *NUMBERS],
            [tensor_row(tensor, files) for tensor in shown],
            numbers=NUMBERS,
            marked=range(bad),
        )
        if len(shown) < len(tensors):
            say(f"and {count(len(tensors) - len(shown))} more, all finite: --all lists them")
        say()
    told = [entry for entry in scanned.not_counted if entry.kind != "not_read"]
    for entry in told:
        say(f"{place(entry)}: {entry.kind.replace('_', ' ')}: {entry.reason}")
    if others := [entry.file for entry in scanned.not_counted if entry.kind == "not_read"]:
        more = f" and {count(len(others) - SHOWN_OTHERS)} more" if len(others) > SHOWN_OTHERS else ""
        say(f"in the folder, not read: {', '.join(map(short, others[:SHOWN_OTHERS]))}{more}")
    if scanned.not_counted:
        say()
    say(summary(scanned, len(tensors), bad))


def summary(scanned: CheckpointScan, tensors: int, bad: int) -> str:
    """All of it in one line."""
    told = f"{count(tensors)} tensor{'' if tensors == 1 else 's'}, {count(scanned.checked)} elements"
    uncounted = sum(1 for entry in scanned.not_counted if entry.kind in ("refused", "unreadable"))
    words = "all finite"
    if bad:
        kinds = (("NaN", scanned.nan), ("+Inf", scanned.positive_infinity), ("-Inf", scanned.negative_infinity))
        each = ", ".join(f"{count(many)} {name}" for name, many in kinds if many)
        words = f"{count(scanned.nonfinite)} non-finite ({each}) in {count(bad)} tensor{'' if bad == 1 else 's'}"
    return f"{told}: {words}" + (f"; {count(uncounted)} NOT COUNTED" if uncounted else "")


def tensor_row(tensor: TensorScan, files: bool) -> list[str]:
    counts = tensor.counts
    return [
        *([short(tensor.file)] if files else []),
        short(tensor.name),
        tensor.dtype,
        "x".join(map(str, tensor.shape)) or "scalar",
        *map(count, (counts.checked, counts.nonfinite, counts.nan, counts.positive_infinity, counts.negative_infinity)),
        magnitude(counts.maximum_absolute_finite),
        "-" if counts.first_nonfinite is None else count(counts.first_nonfinite),
    ]


def place(entry: NotCounted) -> str:
    return ": ".join(short(part) for part in (entry.file, entry.name) if part) or "the checkpoint"


def short(name: str) -> str:
    return name if len(name) <= SHOWN_NAME else f"{name[:SHOWN_NAME]}…"


def show_first_bad(found: FirstBad, every: bool) -> None:
    """For people: which steps were looked at, in that order, and what follows from it."""
    say_table(["step", "name", "state", "non-finite"], list(map(look_row, found.looked)), numbers=("step", "non-finite"))
    say()
    say(f"looked at {count(len(found.looked))} of {count(found.steps)} steps" + assumed(found))
    say(f"last good  {named(found.last_good)}")
    say(f"first bad  {named(found.first_bad)}")
    if between := unread_between(found):
        say(f"{count(len(between))} step{'' if len(between) == 1 else 's'} before it could not be read wholly: it may be earlier")
    if found.scan is not None:
        say()
        show(found.scan, every)
    say()
    say(CAUSE)


def assumed(found: FirstBad) -> str:
    return "" if found.assumption is None else f"; taken for granted: {found.assumption} (--every looks at each)"


def unread_between(found: FirstBad) -> Sequence[StepLook]:
    """The steps that could not be judged, between the last good and the first bad."""
    low = -1 if found.last_good is None else found.last_good.step
    return [
        look for look in found.looked if look.state == "unread" and found.first_bad and low < look.step < found.first_bad.step
    ]


def look_row(look: StepLook) -> list[str]:
    words = {"finite": "finite", "nonfinite": "NON-FINITE", "unread": "not wholly readable"}
    return [str(look.step), look.name, words[look.state], "-" if look.state == "unread" else count(look.nonfinite)]


def named(look: StepLook | None) -> str:
    return "none of those looked at" if look is None else f"step {look.step} ({look.name})"


@contextlib.contextmanager
def bar() -> Iterator[Callable[[str], Callable[[int, int], None] | None]]:
    """Gives, for a name, what tells a bar on standard error how far it is; nothing where that is no terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda name: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(20), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=None)

        def of(name: str) -> Callable[[int, int], None]:
            shown.reset(task, description=escape(printable(os.path.basename(os.path.normpath(name))[-SHOWN_BESIDE_BAR:])))
            return lambda done, total: shown.update(task, completed=done, total=total)

        yield of
