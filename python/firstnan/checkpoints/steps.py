"""The first bad checkpoint in a folder of steps: by bisection, or by looking at each."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from firstnan.arguments import checked_path
from firstnan.checkpoints.orbax import UNFINISHED
from firstnan.checkpoints.results import CheckpointScan
from firstnan.checkpoints.scanning import SUFFIXES, Progress, check_options, scan
from firstnan.errors import ContractError

ASSUMPTION: Final = "a checkpoint that is bad stays bad in every later step"
_STEP: Final = re.compile(r"(?:.*[^0-9])?([0-9]{1,18})")
_SHARD: Final = re.compile(r".*-of-[0-9]+")


@dataclass(frozen=True, slots=True)
class StepLook:
    """What was seen of one step: `"unread"` where not all of it could be read and nothing non-finite was seen."""

    step: int
    name: str
    state: Literal["finite", "nonfinite", "unread"]
    nonfinite: int


@dataclass(frozen=True, slots=True)
class FirstBad:
    """`looked` in the order of looking, of `steps` steps in all; `scan` is that of the first bad step.

    Of what was looked at, `last_good` is the last finite step before `first_bad`; each is None where there is none.
    `unread` steps may lie between them. `assumption` is what bisection rests on; None where every step was looked at.
    """

    folder: str
    steps: int
    looked: tuple[StepLook, ...]
    last_good: StepLook | None
    first_bad: StepLook | None
    scan: CheckpointScan | None
    assumption: str | None


def first_bad(
    folder: str | os.PathLike[str],
    *,
    every: bool = False,
    threads: int | None = None,
    raw_dtypes: Iterable[str] = (),
    progress: Callable[[str], Progress | None] | None = None,
) -> FirstBad:
    """The first step in a folder whose checkpoint has a non-finite element.

    Steps are the folders, and the .safetensors, .npz and .npy files, whose names end in a number before the suffix
    (`step_001000.safetensors`, `1000`, `checkpoint-1000`), in the order of those numbers.

    Args:
        folder: of steps.
        every: look at each step; otherwise bisect, which looks at about log2 of them and takes a checkpoint that is bad
            to stay bad in every later step. The last step is looked at first.
        threads, raw_dtypes: as `scan`.
        progress: given a step's name, what `scan` is to tell its progress.

    A step that cannot be read wholly is bad if what was read is; otherwise it is passed over.

    Raises:
        ContractError: an argument is out of its bounds, there is no step, or two of one number.
        OSError: the folder cannot be read.
        ImportError: as `scan`.
    """
    place, raw = checked_path("folder", folder), tuple(raw_dtypes)
    check_options(threads, raw)
    names = steps_of(place)
    numbers = list(names)
    looks: dict[int, StepLook] = {}
    scans: dict[int, CheckpointScan] = {}

    def state(index: int) -> str:
        """Looks at a step once, and keeps the whole scan of the earliest bad one only."""
        if index not in looks:
            number = numbers[index]
            name = names[number]
            looks[index], scanned = _look(place / name, number, threads, raw, progress(name) if progress else None)
            if scanned is not None and looks[index].state == "nonfinite" and all(index < other for other in scans):
                scans.clear()
                scans[index] = scanned
        return looks[index].state

    if every:
        for index in range(len(numbers)):
            state(index)
    else:
        _bisect(len(numbers), state)
    bad = min((index for index, look in looks.items() if look.state == "nonfinite"), default=None)
    good = [index for index, look in looks.items() if look.state == "finite" and (bad is None or index < bad)]
    return FirstBad(
        os.fspath(place),
        len(numbers),
        tuple(looks.values()),
        looks[max(good)] if good else None,
        None if bad is None else looks[bad],
        None if bad is None else scans[bad],
        None if every else ASSUMPTION,
    )


def _bisect(count: int, state: Callable[[int], str]) -> None:
    """Looks at steps until the first bad one is known, stepping aside from those that cannot be judged."""
    high = next((index for index in reversed(range(count)) if state(index) != "unread"), -1)
    if high < 0 or state(high) == "finite":
        return
    low = -1
    while True:
        middle = (low + high) // 2
        between = sorted(range(low + 1, high), key=lambda index: abs(index - middle))
        found = next((index for index in between if state(index) != "unread"), None)
        if found is None:
            return
        if state(found) == "finite":
            low = found
        else:
            high = found


def _look(
    path: Path, number: int, threads: int | None, raw: tuple[str, ...], progress: Progress | None
) -> tuple[StepLook, CheckpointScan | None]:
    try:
        scanned = scan(path, threads=threads, raw_dtypes=raw, progress=progress)
    except (ContractError, OSError):
        return StepLook(number, path.name, "unread", 0), None
    if scanned.nonfinite:
        return StepLook(number, path.name, "nonfinite", scanned.nonfinite), scanned
    return StepLook(number, path.name, "finite" if scanned.complete else "unread", 0), scanned


def steps_of(folder: Path) -> dict[int, str]:
    """Step → name of its file or folder, in order.

    Raises:
        ContractError: there is none, or there are two of one number.
        OSError: the folder cannot be read.
    """
    steps: dict[int, str] = {}
    for entry in sorted(folder.iterdir()):
        suffix = next((suffix for suffix in SUFFIXES if entry.name.endswith(suffix)), "")
        if entry.is_dir():
            suffix = ""
        elif not suffix:
            continue
        stem = entry.name.removesuffix(suffix)
        match = _STEP.fullmatch(stem)
        # Neither shards of one checkpoint nor what Orbax left unfinished is a step.
        if match is None or _SHARD.fullmatch(stem) or UNFINISHED in entry.name:
            continue
        if int(match[1]) in steps:
            raise _refused("the folder has two steps of one number", "rule", "one file or folder a step")
        steps[int(match[1])] = entry.name
    if not steps:
        raise _refused("the folder has no step", "size", "a file or folder whose name ends in its step's number")
    return dict(sorted(steps.items()))


def _refused(words: str, kind: str, bound: str) -> ContractError:
    return ContractError(f"{words} [{kind}: {bound}]", kind=kind, layer="shape", pointer="/folder", bound=bound)
