"""Changes to one of the schemas, each as a function of the documents that changes them in place."""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RELEASED = ROOT / "schemas/released/v0.1/bundle.json"


def documents():
    """The documents of the released bundle, fresh ones each time."""
    return {name: doc for name, doc in json.loads(RELEASED.read_text(encoding="utf-8"))["$defs"].items() if name != "meta"}


def bundle(docs):
    return {"$id": "https://firstnan.example/schemas/bundle.json", "$defs": docs}


def add_field(record, name, schema, at=None):
    record["properties"][name] = schema
    record["required"].append(name)
    order = record["x-firstnan-order"]
    order.insert(len(order) if at is None else at, name)


def remove_field(record, name):
    del record["properties"][name]
    for names in ("required", "x-firstnan-order"):
        record[names] = [each for each in record[names] if each != name]


def schemas_in(node):
    """Every schema below a document, itself included, by keywords that hold schemas."""
    yield node
    for keyword in ("properties", "$defs"):
        for member in node.get(keyword, {}).values():
            yield from schemas_in(member)
    for keyword in ("anyOf", "oneOf"):
        for member in node.get(keyword, []):
            yield from schemas_in(member)
    if isinstance(node.get("items"), dict):
        yield from schemas_in(node["items"])
