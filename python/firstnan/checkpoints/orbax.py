"""An Orbax checkpoint: arrays in zarr, in an OCDBT database or in folders, read by tensorstore as Orbax itself does.

tensorstore unpacks a stored chunk as a whole, so that memory is bounded by the largest one; Orbax makes one chunk of
each shard unless its `chunk_byte_size` says less.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from firstnan.checkpoints.results import NotCounted, TensorScan, Tick
from firstnan.errors import ContractError
from firstnan.finite import FiniteCounts, count_finite

UNFINISHED: Final = ".orbax-checkpoint-tmp"
"""In the name of a checkpoint that Orbax had not finished."""
IN_FLIGHT_BYTES: Final = 16 << 20
"""Chunks are asked for ahead of time up to so many unpacked bytes, and one in any case."""
_METADATA: Final = "_METADATA"
_DATABASE: Final = "manifest.ocdbt"
_MAX_METADATA_BYTES: Final = 256 << 20
_DRIVERS: Final = {"/.zarray": "zarr", "/zarr.json": "zarr3"}
_STORED: Final = frozenset({"jax.Array", "np.ndarray", "scalar"})
"""What `_METADATA` calls a leaf that is stored as an array."""
_TEXT: Final = frozenset({"json", "string", "ustring", "char", "byte"})
"""The dtypes of tensorstore that are no numbers."""


def is_orbax(folder: Path) -> bool:
    """Whether a folder is an Orbax checkpoint, or one item of such."""
    marks = (_METADATA, "_CHECKPOINT_METADATA", _DATABASE)
    return any((folder / mark).exists() for mark in marks) or any(map(_is_item, _folders(folder)))


def _is_item(folder: Path) -> bool:
    """Whether a folder holds a tree of arrays."""
    return any((folder / mark).exists() for mark in (_METADATA, _DATABASE))


def _folders(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir())


@dataclass(frozen=True)
class OrbaxFolder:
    """The folder of one step's checkpoint, or of one item of it."""

    path: Path

    @property
    def label(self) -> str:
        return self.path.name

    @property
    def size(self) -> int:
        return sum(entry.stat().st_size for entry in self.path.rglob("*") if entry.is_file())

    def count(self, threads: int, tick: Tick) -> Iterator[TensorScan | NotCounted]:
        if UNFINISHED in self.path.name:
            yield NotCounted(self.label, None, "refused", "Orbax had not finished this checkpoint")
            return
        items = [self.path] if _is_item(self.path) else list(filter(_is_item, _folders(self.path)))
        if not items:
            yield NotCounted(self.label, None, "refused", f"no item has {_METADATA} or {_DATABASE}")
        size, done = max(1, self.size), 0

        def add(many: int) -> None:
            nonlocal done
            done += many
            tick(min(size, done))

        for item in items:
            yield from _Item(item, "" if item == self.path else item.name, threads).count(add)


class _Item:
    """One tree of arrays."""

    def __init__(self, folder: Path, label: str, threads: int) -> None:
        self.folder, self.label, self.threads = folder, label, threads
        self.tensorstore = _tensorstore()
        files = {"driver": "file", "path": f"{os.path.abspath(folder)}/"}
        self.kvstore = {"driver": "ocdbt", "base": files} if (folder / _DATABASE).exists() else files

    def count(self, add: Tick) -> Iterator[TensorScan | NotCounted]:
        try:
            keys = self.tensorstore.KvStore.open(self.kvstore).result().list().result()
        except ValueError as error:
            yield NotCounted(self.label, None, "refused", f"the database cannot be read ({_code(error)})")
            return
        except OSError as error:
            yield NotCounted(self.label, None, "unreadable", error.strerror or type(error).__name__)
            return
        stored = {}
        for key in keys:
            name, slash, last = key.decode("utf-8", "backslashreplace").rpartition("/")
            if driver := _DRIVERS.get(slash + last):
                stored[name] = driver
        if not stored and (self.folder / "ocdbt.process_0").exists() and not (self.folder / _DATABASE).exists():
            yield NotCounted(self.label, None, "refused", f"the parts of the processes were never merged into {_DATABASE}")
        yield from self._missing(stored)
        for name in sorted(stored):
            yield from self._array(name, stored[name], add)

    def _missing(self, stored: dict[str, str]) -> Iterator[NotCounted]:
        """What `_METADATA` lists and nobody stored."""
        try:
            path = self.folder / _METADATA
            if path.stat().st_size > _MAX_METADATA_BYTES:
                raise ContractError(f"{_METADATA} is too large [maximum: {_MAX_METADATA_BYTES:,} bytes]")
            tree = json.loads(path.read_bytes())["tree_metadata"]
            listed = [
                ".".join(str(part["key"]) for part in leaf["key_metadata"])
                for leaf in tree.values()
                if leaf["value_metadata"]["value_type"] in _STORED
            ]
        except FileNotFoundError:
            return
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            words = str(error) if isinstance(error, ContractError) else f"{_METADATA} is not as Orbax writes it"
            yield NotCounted(self.label, None, "refused", words)
            return
        for name in listed:
            if name not in stored:
                yield NotCounted(self.label, name, "refused", f"{_METADATA} lists it, and no array is stored")

    def _array(self, name: str, driver: str, add: Tick) -> Iterator[TensorScan | NotCounted]:
        spec = {
            "driver": driver,
            "kvstore": {**self.kvstore, "path": self._path(name)},
            # A chunk that is not there would be read as zeros, finite ones.
            "fill_missing_data_reads": False,
        }
        try:
            array = self.tensorstore.open(spec, read=True, open=True).result()
            dtype, shape = array.dtype.name, tuple(array.shape)
            if dtype in _TEXT:
                yield NotCounted(self.label, name, "no_numbers", "text")
                return
            yield TensorScan(self.label, name, dtype, shape, self._counted(array, add))
        except ContractError as error:
            yield NotCounted(self.label, name, "refused", str(error))
        except OSError as error:
            yield NotCounted(self.label, name, "unreadable", error.strerror or type(error).__name__)
        except ValueError as error:
            reason = f"its array cannot be opened or one of its chunks be read ({_code(error)})"
            yield NotCounted(self.label, name, "refused", reason)

    def _path(self, name: str) -> str:
        inside = f"{name}/"
        return inside if self.kvstore["driver"] == "ocdbt" else f"{self.kvstore['path']}{inside}"

    def _counted(self, array: Any, add: Tick) -> FiniteCounts:
        shape = tuple(array.shape)
        chunk = tuple(array.chunk_layout.read_chunk.shape or shape)
        if 0 in shape:
            return FiniteCounts(0, 0, 0, 0, 0.0, None)
        ahead = min(1024, IN_FLIGHT_BYTES // max(1, math.prod(chunk) * array.dtype.numpy_dtype.itemsize)) or 1
        corners = itertools.product(*(range(0, extent, step) for extent, step in zip(shape, chunk, strict=True)))
        flying: deque[tuple[tuple[int, ...], Any]] = deque()
        parts = []
        while True:
            for corner in itertools.islice(corners, ahead - len(flying)):
                box = tuple(slice(x, min(x + step, extent)) for x, step, extent in zip(corner, chunk, shape, strict=True))
                flying.append((corner, array[box].read(order="C")))
            if not flying:
                break
            corner, future = flying.popleft()
            block = future.result()
            try:
                counts = count_finite(block, threads=self.threads)
            except TypeError:
                raise ContractError("its dtype is not counted") from None
            parts.append(_moved(counts, block.shape, corner, shape))
            add(block.nbytes)
        return FiniteCounts(
            sum(part.checked for part in parts),
            sum(part.nan for part in parts),
            sum(part.positive_infinity for part in parts),
            sum(part.negative_infinity for part in parts),
            max(part.maximum_absolute_finite for part in parts),
            min((part.first_nonfinite for part in parts if part.first_nonfinite is not None), default=None),
        )


def _moved(counts: FiniteCounts, box: tuple[int, ...], corner: tuple[int, ...], shape: tuple[int, ...]) -> FiniteCounts:
    """The counts of a box with its index as one of the whole array, both in C order."""
    if counts.first_nonfinite is None:
        return counts
    rest, index, stride = counts.first_nonfinite, 0, 1
    for extent, start, whole in zip(reversed(box), reversed(corner), reversed(shape), strict=True):
        index += (rest % extent + start) * stride
        rest //= extent
        stride *= whole
    return FiniteCounts(
        counts.checked, counts.nan, counts.positive_infinity, counts.negative_infinity, counts.maximum_absolute_finite, index
    )


def _code(error: ValueError) -> str:
    """The status that tensorstore's message begins with, such as NOT_FOUND."""
    match = re.match(r"[A-Z_]+(?=:)", str(error))
    return match[0] if match else "INVALID_ARGUMENT"


def _tensorstore() -> Any:
    try:
        import tensorstore
    except ImportError:
        raise ImportError("an Orbax checkpoint needs the package tensorstore: pip install 'firstnan[scan]'") from None
    return tensorstore
