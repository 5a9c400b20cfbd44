"""Writes the seed corpus of each fuzz target from schemas/vectors: one file a distinct text."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
VECTORS = HERE.parents[1] / "schemas" / "vectors"
# Long texts say nothing that short ones do not, and slow the fuzzer down.
MAX_BYTES = 16_384


def texts(pattern: str) -> Iterator[bytes]:
    """The input of each vector in the files that match, as bytes."""
    for path in sorted(VECTORS.glob(pattern)):
        for line in path.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            yield bytes.fromhex(case["hex"]) if "hex" in case else case["text"].encode()


def write(target: str, *patterns: str) -> None:
    """Writes the corpus of one target, each file named by the digest of its content as libFuzzer does."""
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    for pattern in patterns:
        for data in texts(pattern):
            if len(data) <= MAX_BYTES:
                (folder / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)


if __name__ == "__main__":
    write("decode", "records/*.jsonl", "wire/*.jsonl")
    write("canonicalize_record", "canonical/*-profile.jsonl")
    write("canonicalize_evidence", "canonical/*-profile.jsonl")
