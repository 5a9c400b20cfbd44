"""The package's own answer to every vector: the same lines that the programs beside this file print.

Usage: python conformance/package_answer.py BUNDLE VECTORS...

Each line has `kind` too, the kind of the package's refusal, by which wire_only.json names a class of vectors.
"""

import hashlib
import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import firstnan
from firstnan import ContractError

Answer = dict[str, Any]
FOLDERS = ("canonical", "kinds", "lifecycle", "records", "triage", "wire")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def canonical(vector: str, profile: Any, text: str, max_bytes: int | None) -> Answer:
    answer: Answer = {"vector": vector, "bytes": None, "identity": None, "kind": None}
    try:
        data = firstnan.canonicalize(text, profile=profile)
        if max_bytes is not None:
            data = firstnan.canonical_record(json.loads(text), max_bytes=max_bytes)
    except ContractError as error:
        return answer | {"kind": error.kind}
    if profile == "evidence" and data.startswith(b"{"):
        answer["identity"] = f"vector@sha256:{sha256(data)}"
    return answer | {"bytes": sha256(data)}


def identity(record: Any) -> str | None:
    if isinstance(record, firstnan.TrainingIncidentContract):
        return record.content_id
    if isinstance(record, firstnan.TrainingRunEvidence):
        computed: str = firstnan._core.evidence_content_id(record.contract_content_id, record.evidence_id, record.stages)
        return computed
    return None


# What parsers do not get through, so that neither shape nor rules can be asked.
UNREADABLE = frozenset({"syntax", "encoding", "byte_order_mark", "lone_surrogate", "depth", "size"})


def record(vector: str, kind: str, profile: Any, data: bytes, *, on_wire: bool = False) -> Answer:
    answer: Answer = dict.fromkeys(("shape", "rule", "bytes", "identity", "kind")) | {"vector": vector, "valid": False}
    try:
        answer["bytes"] = sha256(firstnan.canonicalize(data, profile=profile))
    except ContractError as error:
        if error.kind in UNREADABLE:
            return answer | {"kind": error.kind}
    try:
        value = firstnan.StageMessage.from_bytes(data) if on_wire else firstnan.decode(kind, data)
    except ContractError as error:
        answer["kind"] = error.kind
        if error.layer == "shape":
            return answer | {"shape": False}
        if error.layer == "rule":
            return answer | {"shape": True, "rule": False}
        return answer | {"shape": True, "rule": True} if error.kind not in UNREADABLE else answer
    answer |= {"shape": True, "rule": True, "valid": True}
    assert answer["bytes"] == sha256(firstnan.encode(value)), vector
    return answer | {"identity": answer["bytes"] if profile == "record" else identity(value)}


def file_answers(path: Path, profiles: dict[str, str]) -> Iterator[Answer]:
    folder, stem = path.parent.name, path.stem
    for index, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        vector = json.loads(line)
        name = f"{folder}/{vector.get('case', f'{stem}-{index}')}"
        parts: list[tuple[str, str, str | bytes]] = []
        if folder in ("kinds", "records"):
            parts.append((name, stem, vector["text"]))
        elif folder == "wire":
            yield record(name, stem, profiles[stem], bytes.fromhex(vector["hex"]), on_wire=True)
        elif stem == "float64-text":
            (value,) = struct.unpack(">d", bytes.fromhex(vector["bits"]))
            digest = sha256(firstnan.canonical_evidence(value))
            yield {"vector": name, "bytes": digest}
        elif folder == "canonical":
            yield canonical(name, stem.removesuffix("-profile"), vector["text"], vector.get("max_bytes"))
        elif folder == "triage":
            parts.append((f"{name}/contract", "training-incident-contract", vector["contract"]))
            parts.append((f"{name}/evidence", "training-run-evidence", vector["evidence"]))
            if "report" in vector:
                parts.append((f"{name}/report", "incident-report", json.dumps(vector["report"])))
        elif stem == "inventory-consensus":
            parts.append((f"{name}/identity", "run-identity", json.dumps(vector["identity"])))
            for i, inventory in enumerate(vector["inventories"]):
                parts.append((f"{name}/inventories/{i}", "rank-inventory", json.dumps(inventory)))
        for part, kind, text in parts:
            yield record(part, kind, profiles[kind], text.encode() if isinstance(text, str) else text)


def main() -> None:
    bundle_path, *roots = sys.argv[1:]
    profiles = {kind: entry["profile"] for kind, entry in json.loads(Path(bundle_path).read_text())["x-firstnan-kinds"].items()}
    for root in map(Path, roots):
        for folder in FOLDERS:
            for path in sorted((root / folder).glob("*.jsonl")):
                for answer in file_answers(path, profiles):
                    print(json.dumps(answer))
    for kind in profiles:
        print(json.dumps({"vector": f"schema/{kind}", "shape": True}))


if __name__ == "__main__":
    main()
