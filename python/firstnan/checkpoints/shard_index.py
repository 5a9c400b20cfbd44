"""The index of a checkpoint in several .safetensors files: which tensor is in which, as Hugging Face writes it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from firstnan.checkpoints.results import NotCounted, TensorScan
from firstnan.errors import ContractError

INDEX: Final = ".safetensors.index.json"
"""The end of an index's name."""
_MAX_BYTES: Final = 100_000_000


class ShardIndex(NamedTuple):
    """Tensor → file, and the files by name."""

    file_of: dict[str, str]
    shards: list[str]


def read_index(path: Path) -> ShardIndex:
    """The index in a file.

    Raises:
        ContractError: it is no index, or names a file that is not beside it.
        OSError: it cannot be read.
    """
    if path.stat().st_size > _MAX_BYTES:
        raise _refused("the index is too large", "size", f"{_MAX_BYTES:,} bytes")
    try:
        file_of = json.loads(path.read_bytes())["weight_map"]
        shards = sorted(set(file_of.values()))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise _refused("the index must be JSON with a weight_map from tensors to files", "type", "object") from None
    if not all(map(_is_file_name, shards)):
        # Nothing outside the folder is read for a name in a stranger's file.
        raise _refused("the index must name files beside it", "pattern", "a file name without a folder")
    return ShardIndex(file_of, shards)


def not_in_shards(
    index: ShardIndex, folder: Path, tensors: Sequence[TensorScan], missing: Sequence[NotCounted]
) -> Iterator[NotCounted]:
    """What an index lists and is not there: files, and tensors of files that are."""
    told = {(entry.file, entry.name) for entry in missing}
    there = {(tensor.file, tensor.name) for tensor in tensors} | told
    absent = {shard for shard in index.shards if not (folder / shard).is_file()}
    for shard in sorted(absent):
        yield NotCounted(shard, None, "refused", "the index lists it, and it is not there")
    for name, shard in index.file_of.items():
        if shard not in absent and (shard, name) not in there and (shard, None) not in told:
            yield NotCounted(shard, name, "refused", "the index lists it in this file, which does not have it")


def _is_file_name(name: Any) -> bool:
    return type(name) is str and name not in ("", ".", "..") and "\0" not in name and os.path.basename(name) == name


def _refused(words: str, kind: str, bound: str) -> ContractError:
    return ContractError(f"{words} [{kind}: {bound}]", kind=kind, layer="wire", pointer="/weight_map", bound=bound)
