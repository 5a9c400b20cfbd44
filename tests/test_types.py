"""What the generators of types read, against the schemas themselves; what they make is held in `make conformance`."""

import hashlib
import json
import sys
from pathlib import Path

import pytest
from referencing import Registry, Resource

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "conformance")]
import round_trip  # noqa: E402

import types_spelling  # noqa: E402
from schema_model import load  # noqa: E402
from types_input import Member, declarations  # noqa: E402

DECLARED = declarations(load(ROOT / "schemas/v1"))
BUNDLE = json.loads((ROOT / "schemas/bundle.json").read_text(encoding="utf-8"))
REGISTRY = Registry().with_resources((each["$id"], Resource.from_contents(each)) for each in BUNDLE["$defs"].values())
NAMED = {each.name: each for each in DECLARED.named}


def test_every_kind_has_its_declaration():
    assert {kind: BUNDLE["$defs"][kind]["title"] for kind in BUNDLE["x-firstnan-kinds"]} == DECLARED.kinds
    assert set(DECLARED.kinds.values()) <= NAMED.keys()


def compared(declared, schema, resolver):
    """How many values a declaration and a schema were found to be alike in."""
    if "$ref" in schema:
        found = resolver.lookup(schema["$ref"])
        return compared(declared, found.contents, found.resolver)
    if "oneOf" in schema:
        tags = NAMED[declared.kind].variants
        return sum(compared(Member(name, "", False), branch, resolver)
                   for name, branch in zip(tags.values(), schema["oneOf"], strict=True))  # fmt: skip
    types = schema.get("type", "string")
    others = [each for each in schema.get("anyOf", []) if each != {"type": "null"}]
    assert declared.nullable == ("null" in types or "anyOf" in schema)
    if others:
        return compared(Member(declared.kind, "", False, declared.lists, declared.value), others[0], resolver)
    type_ = next(each for each in ([types] if isinstance(types, str) else types) if each != "null")
    if type_ == "array":
        return compared(Member(declared.kind, "", False, declared.lists - 1, declared.value), schema["items"], resolver)
    assert declared.lists == 0
    if type_ == "object":
        members = NAMED[declared.kind].members
        assert list(members) == schema["x-firstnan-order"]
        return sum(compared(member, schema["properties"][name], resolver) for name, member in members.items())
    if "enum" in schema:
        assert NAMED[declared.kind].values == tuple(schema["enum"])
    else:
        assert declared.kind == type_ or type(schema.get("const")) is int
        assert declared.value == schema.get("const")
    return 1


@pytest.mark.parametrize("kind", DECLARED.kinds)
def test_a_declaration_says_what_the_schema_says(kind):
    schema = BUNDLE["$defs"][kind]
    assert compared(Member(DECLARED.kinds[kind], "", False), schema, REGISTRY.resolver(schema["$id"])) > 1


@pytest.mark.parametrize("language", ["typescript", "go", "java", "rust"])
def test_each_generator_is_told_of_each_record(language):
    schema = getattr(types_spelling, language)(DECLARED)
    told = schema.get("$defs") or schema["components"]["schemas"]
    unions = {each.name for each in DECLARED.named if each.variants}
    assert told.keys() == NAMED.keys() - (unions if language == "go" else set())
    for name, each in NAMED.items():
        assert set(told.get(name, {}).get("properties", {})) == set(each.members)
        assert each.name in unions or told[name]["description"] == each.description


def test_other_bytes_are_seen():
    asked = [round_trip.Vector(name, "any", "evidence", '{"a":1024.0}') for name in ("whole", "other", "lost")]
    answers = {"whole": '{"a":1024.0}', "other": '{"a":1024}', "unasked": "{}"}
    output = [json.dumps({"vector": name, "bytes": hashlib.sha256(text.encode()).hexdigest()}) for name, text in answers.items()]
    assert round_trip.different(asked, "\n".join(output)) == ["other", "lost", "unasked, which was not asked"]


def test_every_valid_record_of_the_vectors_makes_the_round_trip():
    asked = [each for each in round_trip.valid_vectors() if not each.vector.startswith("examples/")]
    assert {each.kind for each in asked} == DECLARED.kinds.keys()
    texts = {(each.kind, each.text) for each in asked}
    for path in [path for folder in ("kinds", "records") for path in (ROOT / "schemas/vectors" / folder).glob("*.jsonl")]:
        cases = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        assert {(path.stem, case["text"]) for case in cases if case["accept"]} <= texts, path.name
