"""Writes the seed corpus of each fuzz target from the vectors and the schemas' examples: one file a distinct text."""

import hashlib
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCHEMAS = HERE.parents[1] / "schemas"
# Long texts say nothing that short ones do not, and slow the fuzzer down.
MAX_BYTES = 16_384


def vectors(pattern: str) -> Iterator[bytes]:
    """Every JSON text in the vectors of the files that match, as bytes."""
    for path in sorted((SCHEMAS / "vectors").glob(pattern)):
        for line in path.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            if "hex" in case:
                yield bytes.fromhex(case["hex"])
            yield from (case[name].encode() for name in ("text", "contract", "evidence") if name in case)


def examples() -> Iterator[bytes]:
    """Every example of every schema; some kinds have no vectors."""
    for path in sorted((SCHEMAS / "v1").glob("*.json")):
        for example in json.loads(path.read_text(encoding="utf-8")).get("examples", []):
            yield json.dumps(example).encode()


def write(target: str, *sources: Iterator[bytes]) -> None:
    """Writes the corpus of one target, each file named by the digest of its content as libFuzzer does."""
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    for data in chain.from_iterable(sources):
        if len(data) <= MAX_BYTES:
            (folder / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)


if __name__ == "__main__":
    write("decode", vectors("records/*.jsonl"), vectors("wire/*.jsonl"), vectors("triage/triage.jsonl"), examples())
    # The first byte of a file of lines says how large its shards are.
    write("lines", (b"\x01" + text for text in chain(vectors("records/*.jsonl"), examples())),
          (b"\x10" + b"\n".join(pair) for pair in zip(examples(), vectors("wire/*.jsonl"), strict=False)))
    write("canonicalize_record", vectors("canonical/*-profile.jsonl"))
    write("canonicalize_evidence", vectors("canonical/*-profile.jsonl"))
