"""From a path to the counts of all tensors in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from firstnan.arguments import checked_integer, checked_path, refused_argument
from firstnan.checkpoints.dtypes import BITS, RAW
from firstnan.checkpoints.npy_header import MAGIC
from firstnan.checkpoints.npz import NpzFile
from firstnan.checkpoints.orbax import OrbaxFolder, is_orbax
from firstnan.checkpoints.plain_files import NpyFile, SafetensorsFile
from firstnan.checkpoints.results import CheckpointScan, NotCounted, Source, TensorScan, Tick
from firstnan.checkpoints.shard_index import INDEX, ShardIndex, not_in_shards, read_index
from firstnan.errors import ContractError

SUFFIXES: Final = (".safetensors", ".npz", ".npy")
MAX_THREADS: Final = 1024
_DEFAULT_THREADS: Final = 8

Progress = Callable[[int, int], object]
"""Is told the bytes done and the bytes in all, about ten times a second; what it raises ends the scan."""


def scan(
    path: str | os.PathLike[str],
    *,
    threads: int | None = None,
    raw_dtypes: Iterable[str] = (),
    progress: Progress | None = None,
) -> CheckpointScan:
    """Counts NaN, +Inf and -Inf in every tensor of a checkpoint, without loading it.

    Args:
        path: a .safetensors, .npz or .npy file; an index of .safetensors shards; an Orbax checkpoint, one step's or one
            item's; or a folder of such files. Links are followed.
        threads: 1 to 1,024; None for those that this process may run on, 8 at most. Each takes at most 1 MiB for its
            buffer; an Orbax checkpoint needs memory for its largest stored chunk.
        raw_dtypes: what the elements are that numpy saves as raw bytes, a dtype of ml_dtypes of each width:
            bfloat16, float8_e4m3fn and so on.
        progress: is called with the bytes done and all bytes.

    What is damaged is told in `not_counted`, and all else is counted. A checkpoint that changes meanwhile may give
    counts of either state.

    Raises:
        ContractError: an argument is out of its bounds, or the path is no checkpoint of these kinds.
        OSError: the path cannot be read.
        ImportError: an Orbax checkpoint, and tensorstore is not installed (`firstnan[scan]`).
    """
    place, workers, raw = checked_path("path", path), _workers(threads), _raw(raw_dtypes)
    sources, indices, unread = _sources(place, raw)
    sizes = [source.size for source in sources]
    before = 0
    tensors: list[TensorScan] = []
    missing: list[NotCounted] = unread
    for source, size in zip(sources, sizes, strict=True):
        try:
            for entry in source.count(workers, _tick(progress, before, sum(sizes))):
                if isinstance(entry, TensorScan):
                    tensors.append(entry)
                else:
                    missing.append(entry)
        except OSError as error:
            if len(sources) == 1:
                raise
            missing.append(NotCounted(source.label, None, "unreadable", error.strerror or type(error).__name__))
        before += size
        _tick(progress, before, sum(sizes))(0)
    for index in indices:
        missing.extend(not_in_shards(index, place if place.is_dir() else place.parent, tensors, missing))
    return CheckpointScan(os.fspath(place), tuple(tensors), tuple(missing))


def _tick(progress: Progress | None, before: int, total: int) -> Tick:
    return (lambda done: None) if progress is None else lambda done: progress(before + done, total)


def is_checkpoint_file(name: str) -> bool:
    """Whether a file's name is that of a checkpoint by its suffix."""
    return name.endswith(SUFFIXES)


def _sources(place: Path, raw: Mapping[int, str]) -> tuple[list[Source], list[ShardIndex], list[NotCounted]]:
    """The files and folders to read; the indices of what must be in them; and what in a folder is not read."""
    if place.is_dir():
        if is_orbax(place):
            return [OrbaxFolder(place)], [], []
        entries = sorted(place.iterdir())
        names = [entry.name for entry in entries if entry.is_file()]
        indices, unread = [], []
        for name in names:
            if name.endswith(INDEX):
                try:
                    indices.append(read_index(place / name))
                except ContractError as error:
                    unread.append(NotCounted(name, None, "refused", str(error)))
        files = [_file(place / name, name, raw) for name in names if is_checkpoint_file(name)]
        if not (files or indices or unread):
            raise _no_checkpoint("holds no checkpoint of these kinds itself (its steps may: --first-bad)")
        others = [x.name for x in entries if not x.is_file() or not x.name.endswith((*SUFFIXES, INDEX))]
        unread.extend(NotCounted(name, None, "not_read", "not of the kinds that are read") for name in others)
        return files, indices, unread
    if place.name.endswith(INDEX):
        index = read_index(place)
        there = [name for name in index.shards if (place.parent / name).is_file()]
        return [_file(place.parent / name, name, raw) for name in there], [index], []
    return [_file(place, place.name, raw)], [], []


def _file(path: Path, label: str, raw: Mapping[int, str]) -> Source:
    """A file by its suffix; by its first bytes where that says nothing."""
    if not path.exists():
        # Opening says why.
        os.stat(path)
    if not path.is_file():
        raise _no_checkpoint("is neither a file nor a folder")
    name = os.fspath(path)
    if not is_checkpoint_file(path.name):
        with path.open("rb") as file:
            first = file.read(9)
        if first.startswith(MAGIC):
            return NpyFile(name, label, raw)
        if first.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            return NpzFile(name, label, raw)
        if first[8:] != b"{":
            raise _no_checkpoint("is no checkpoint of these kinds")
    if path.name.endswith(".npy"):
        return NpyFile(name, label, raw)
    return NpzFile(name, label, raw) if path.name.endswith(".npz") else SafetensorsFile(name, label)


def _no_checkpoint(words: str) -> ContractError:
    kinds = ".safetensors, .npz, .npy, .safetensors.index.json, Orbax"
    return ContractError(f"the path {words} [type: {kinds}]", kind="type", layer="wire", pointer="", bound=kinds)


def check_options(threads: Any, raw_dtypes: Iterable[str]) -> None:
    """Raises what `scan` would raise of them."""
    _workers(threads)
    _raw(raw_dtypes)


def _workers(threads: Any) -> int:
    if threads is None:
        affinity = getattr(os, "sched_getaffinity", None)
        return min(_DEFAULT_THREADS, len(affinity(0)) if affinity else os.cpu_count() or 1)
    return checked_integer("threads", threads, 1, MAX_THREADS)


def _raw(dtypes: Iterable[str]) -> dict[int, str]:
    raw: dict[int, str] = {}
    for dtype in dtypes:
        if type(dtype) is not str or dtype not in RAW:
            raise refused_argument("raw_dtypes", "enum", "has a dtype that is not one of", ", ".join(sorted(RAW)))
        if raw.setdefault(BITS[dtype] // 8, dtype) != dtype:
            raise refused_argument("raw_dtypes", "rule", "has two dtypes of one width", "one dtype of each width")
    return raw
