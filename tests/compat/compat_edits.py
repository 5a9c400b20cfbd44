"""Every small edit of the schemas of a kind, and the records that could tell the edited schemas from those before."""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from compat_changes import add_field, documents, remove_field

BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems")
FIELD = {"description": "x", "type": "integer", "minimum": 0, "maximum": 3}
PLACES = 4
"""In so many places is an example changed: what is shared, such as an identifier, stands in many more."""
RULES = ("size(self) > 3", "!has(self.step_id) || int(self.step_id) != 0", "false")


@dataclass(frozen=True)
class Edit:
    """A change at a node: the file it stands in and the names that lead there."""

    name: str
    file: str
    at: tuple[str | int, ...]
    change: Callable[[dict], object]

    def apply(self, docs):
        self.change(node_at(docs[self.file], self.at))


def node_at(node, at):
    for step in at:
        node = node[step]
    return node


def nodes(node, at=()):
    """Every schema below a document, itself included, with the names that lead there."""
    yield at, node
    for keyword in ("properties", "$defs"):
        for name, member in node.get(keyword, {}).items():
            yield from nodes(member, (*at, keyword, name))
    for keyword in ("anyOf", "oneOf"):
        for index, member in enumerate(node.get(keyword, [])):
            yield from nodes(member, (*at, keyword, index))
    if "items" in node:
        yield from nodes(node["items"], (*at, "items"))


def closure(kind):
    """The released documents that a kind needs, fresh ones."""
    every, needed = documents(), [kind]
    for name in needed:
        text = json.dumps(every[name])
        needed += [other for other in every if f'"{other}.json' in text and other not in needed]
    return {name: every[name] for name in needed}


def edits(kind) -> list[Edit]:
    docs = closure(kind)
    used = {at for file, at in visited(docs, kind) if file == "common"}
    return [Edit(name, file, at, change) for file, document in docs.items() for at, node in nodes(document)
            if file != "common" or at in used for name, change in changes(node)]  # fmt: skip


def changes(node) -> Iterator[tuple[str, Callable[[dict], object]]]:
    def put(**keywords):
        return lambda there: there.update(copy.deepcopy(keywords))

    yield "words", put(description="other words")
    for name in BOUNDS:
        if name in node:
            yield f"no {name}", lambda there, name=name: there.pop(name)
            for by in (-1, 1) if abs(node[name]) < 2**62 else ():
                if node[name] + by >= 0:
                    yield f"{name} {by:+}", put(**{name: node[name] + by})
    if isinstance(node.get("type"), str) and node["type"] != "object":
        yield "null", put(type=[node["type"], "null"])
        if node["type"] in ("integer", "number"):
            yield "other number", put(type={"integer": "number", "number": "integer"}[node["type"]])
    if node.get("type") == "string":
        yield "narrower set", put(**{"not": {"pattern": "[^a-c:]"}})
        yield "no pattern", lambda there: (there.pop("pattern", None), there.pop("not", None))
    if "enum" in node:
        yield "value added", put(enum=[*node["enum"], "more"])
        yield "value dropped", put(enum=node["enum"][1:])
        yield "values turned", put(enum=node["enum"][::-1])
    if isinstance(node.get("const"), str):
        yield "const widened", lambda there: there.update(enum=[there.pop("const"), "more"])
    if node.get("type") == "object":
        yield "field added", lambda there: add_field(there, "more", FIELD)
        yield "optional field added", lambda there: there["properties"].update(more=FIELD)
        yield "open", put(additionalProperties=True)
        yield "order", lambda there: there["x-firstnan-order"].reverse()
        for name in node["properties"]:
            yield f"{name} removed", lambda there, name=name: remove_field(there, name)
            yield f"{name} optional", lambda there, name=name: there["required"].remove(name)
        for rule in RULES:
            yield f"rule {rule}", lambda there, rule=rule: there["x-firstnan-rules"].append(
                {"id": "more", "rule": rule, "message": "x"})  # fmt: skip
        for index in range(len(node["x-firstnan-rules"])):
            yield f"no rule {index}", lambda there, index=index: there["x-firstnan-rules"].pop(index)


def visited(docs, kind, record=..., file=None, at=(), where=()):
    """(file, names) of every schema that describes a part of a kind's records; with a record, and where that part stands."""
    file = file or kind
    node = node_at(docs[file], at)
    yield (file, at) if record is ... else (file, at, where)
    if "$ref" in node:
        target, _, pointer = node["$ref"].partition("#")
        names = tuple(pointer.split("/")[1:])
        yield from visited(docs, kind, record, target.removesuffix(".json") or file, names, where)
    for keyword in ("anyOf", "oneOf"):
        for index in range(len(node.get(keyword, ()))):
            yield from visited(docs, kind, record, file, (*at, keyword, index), where)
    if "items" in node and (record is ... or (isinstance(record, list) and record)):
        yield from visited(docs, kind, record if record is ... else record[0], file, (*at, "items"), (*where, 0))
    for name in node.get("properties", ()):
        if record is ... or (isinstance(record, dict) and name in record):
            member = record if record is ... else record[name]
            yield from visited(docs, kind, member, file, (*at, "properties", name), (*where, name))


def examples(document):
    variants = document["$defs"].values() if "oneOf" in document else [document]
    return [example for variant in variants for example in variant["examples"]]


def records(before, after, kind, edited):
    """Examples of a kind, and each changed in one place that an edited schema describes, close to what it says there."""
    for example in examples(before[kind]):
        yield example
        places = {(file, at, where) for docs in (before, after) for file, at, where in visited(docs, kind, example)}
        close = [(file, at, where) for file, at, where in sorted(places, key=str)
                 if any(edit.file == file and edit.at[: len(at)] == at and len(edit.at) - len(at) < 2 for edit in edited)]
        for file, at, where in close[:PLACES]:
            schemas = [node_at(docs[file], at) for docs in (before, after) if has(docs[file], at)]
            different = {json.dumps(other): other for other in others(node_at(example, where), schemas)}
            for other in different.values():
                yield replaced(example, where, other)


def has(node, at):
    try:
        node_at(node, at)
    except (KeyError, IndexError):
        return False
    return True


def replaced(record, where, value):
    if not where:
        return value
    record = copy.deepcopy(record)
    node_at(record, where[:-1])[where[-1]] = value
    return record


def others(value, schemas):
    """What may stand instead of a value: close to the bounds, and what the schemas list."""
    numbers = sorted({schema[name] for schema in schemas for name in BOUNDS if name in schema})
    near = [number + by for number in numbers for by in (-1, 0, 1)]
    yield None
    for schema in schemas:
        yield from (each for each in (*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())))
    if isinstance(value, dict):
        for name in value:
            yield {key: member for key, member in value.items() if key != name}
        yield value | {"more": 1}
        yield value | {"more": 1, "step_id": 0} if "step_id" in value else value | {"less": "a"}
        yield value | {"step_id": 0} if "step_id" in value else value | {"more": None}
    elif isinstance(value, list):
        yield from ((value * int(length))[: int(length)] for length in near if value and 0 <= length < 300)
    elif isinstance(value, str):
        yield from ((value * (int(length) // len(value) + 1))[: int(length)] for length in near if value and 0 <= length < 300)
        yield from (f"{value[:-1]} ", f" {value[1:]}", "", value.upper(), "a", "team:a")
    elif type(value) in (int, float):
        yield from (*near, *(number + 0.5 for number in numbers if abs(number) < 2**40), 0, value + 1, value + 0.5)
