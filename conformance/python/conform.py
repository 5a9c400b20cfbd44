"""Runs every vector through jsonschema, a CEL engine and canonical.py; one JSON line a vector (see ../run.py).

Usage: python conform.py BUNDLE VECTORS...
"""

import json
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cel
from canonical import MAX_BYTES, Profile, Refused, canonicalize, content_id, read, sha256, well_formed, write
from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator
from referencing import Registry, Resource

FOLDERS = ("canonical", "kinds", "lifecycle", "records", "triage", "wire")
Answer = dict[str, Any]
Place = dict[str, str]


@dataclass(frozen=True)
class Kind:
    validator: Validator
    profile: Profile
    rules: list[tuple[Place, cel.Program]]
    integers: list[Place]


class Bundle:
    def __init__(self, path: str) -> None:
        self.content = json.loads(Path(path).read_text(encoding="utf-8"))
        schemas = self.content["$defs"].values()
        registry: Registry[Any] = Registry().with_resources((each["$id"], Resource.from_contents(each)) for each in schemas)
        self.meta = Draft202012Validator(self.content["$defs"]["meta"], registry=registry)
        self.kinds = {}
        for name, kind in self.content["x-firstnan-kinds"].items():
            validator = Draft202012Validator(registry.contents(kind["schema"]), registry=registry)
            rules = [(rule, cel.compile(rule["rule"])) for rule in kind["rules"]]
            self.kinds[name] = Kind(validator, kind["profile"], rules, kind["integers"])


def values_at(value: Any, path: str) -> list[Any]:
    """What stands at a path such as /stages/*, null left out."""
    found = [value]
    for name in path.split("/")[1:]:
        found = [item for each in found for item in (each if name == "*" else [each[name]])]
    return [each for each in found if each is not None]


def objects(value: Any, place: Place) -> list[Any]:
    """The objects that a rule or an integer of the bundle is about."""
    tag, _, wanted = place.get("when", "").partition("=")
    return [each for each in values_at(value, place["path"]) if not tag or each[tag] == wanted]


def rule_holds(program: cel.Program, self: Any) -> bool:
    try:
        return program.execute({"self": self}) is True
    except (ArithmeticError, RuntimeError, TypeError, ValueError):  # how this engine says that a rule failed
        return False


def rules_hold(kind: Kind, value: Any) -> bool:
    return all(rule_holds(program, each) for rule, program in kind.rules for each in objects(value, rule))


def integers_are_integers(kind: Kind, value: Any) -> bool:
    """JSON Schema takes 5.0 for an integer; the contract does not."""
    found = (each for place in kind.integers for at in objects(value, place) for each in values_at(at, place["member"]))
    return all(type(each) is int for each in found)


def identity(name: str, kind: Kind, value: Any, data: bytes) -> str | None:
    if kind.profile == "record":
        return sha256(data)
    if name == "training-incident-contract":
        return content_id(name, data)
    if name == "training-run-evidence":
        members = {member: value[member] for member in value if member != "evidence_content_id"}
        return content_id("training-incident-evidence", write(members, "evidence"))
    return None


def no_number(token: str) -> None:
    raise ValueError(token)


def shape(kind: Kind, text: bytes) -> bool | None:
    """Of what json.loads gives, which alone reads NaN and Infinity too."""
    try:
        parsed = json.loads(text.decode("utf-8"), parse_constant=no_number)
    except (ValueError, RecursionError):
        return None
    return bool(kind.validator.is_valid(parsed))


def canonical_or_none(text: bytes, profile: Profile, max_bytes: int = MAX_BYTES) -> bytes | None:
    try:
        return canonicalize(text, profile, max_bytes)
    except Refused:
        return None


def record(bundle: Bundle, vector: str, name: str, text: bytes, *, on_wire: bool = False) -> Answer:
    kind = bundle.kinds[name]
    answer: Answer = {"vector": vector, "shape": shape(kind, text), "rule": None, "valid": False, "bytes": None, "identity": None}
    data = canonical_or_none(text, kind.profile)
    if data is not None:
        answer["bytes"] = sha256(data)
    if answer["shape"]:
        try:
            value = read(text)
        except Refused:
            return answer
        answer["rule"] = rules_hold(kind, value)
        right = answer["rule"] and integers_are_integers(kind, value) and well_formed(value)
        if right and data is not None and (not on_wire or data == text):
            answer |= {"valid": True, "identity": identity(name, kind, value, data)}
    return answer


def canonical(vector: str, profile: Profile, text: bytes, max_bytes: int) -> Answer:
    data = canonical_or_none(text, profile, max_bytes)
    named = data is not None and profile == "evidence" and data.startswith(b"{")
    return {"vector": vector, "bytes": data and sha256(data), "identity": content_id("vector", data) if data and named else None}


def answers(bundle: Bundle, path: Path) -> Iterator[Answer]:
    """An object inside a vector is taken as its text."""
    folder, stem = path.parent.name, path.stem
    for index, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        vector = json.loads(line)
        name = f"{folder}/{vector.get('case', f'{stem}-{index}')}"
        if folder in ("kinds", "records"):
            yield record(bundle, name, stem, vector["text"].encode())
        elif folder == "wire":
            yield record(bundle, name, stem, bytes.fromhex(vector["hex"]), on_wire=True)
        elif stem == "float64-text":
            (value,) = struct.unpack(">d", bytes.fromhex(vector["bits"]))
            yield {"vector": name, "bytes": sha256(write(value, "evidence"))}
        elif folder == "canonical":
            profile: Profile = "record" if stem == "record-profile" else "evidence"
            yield canonical(name, profile, vector["text"].encode(), vector.get("max_bytes", MAX_BYTES))
        elif folder == "triage":
            yield record(bundle, f"{name}/contract", "training-incident-contract", vector["contract"].encode())
            yield record(bundle, f"{name}/evidence", "training-run-evidence", vector["evidence"].encode())
            if "report" in vector:
                yield record(bundle, f"{name}/report", "incident-report", json.dumps(vector["report"]).encode())
        elif stem == "inventory-consensus":
            yield record(bundle, f"{name}/identity", "run-identity", json.dumps(vector["identity"]).encode())
            for i, inventory in enumerate(vector["inventories"]):
                yield record(bundle, f"{name}/inventories/{i}", "rank-inventory", json.dumps(inventory).encode())


def main() -> int:
    if len(sys.argv) < 3:
        print("usage: python conform.py BUNDLE VECTORS...", file=sys.stderr)
        return 2
    sys.set_int_max_str_digits(0)  # json.loads alone stops at 4,300 digits
    bundle = Bundle(sys.argv[1])
    for root in map(Path, sys.argv[2:]):
        for folder in FOLDERS:
            for path in sorted((root / folder).glob("*.jsonl")):
                for answer in answers(bundle, path):
                    print(json.dumps(answer))
    for name in bundle.kinds:
        print(json.dumps({"vector": f"schema/{name}", "shape": bundle.meta.is_valid(bundle.content["$defs"][name])}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
