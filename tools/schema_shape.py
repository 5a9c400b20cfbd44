"""A JSON Schema as a list of alternatives of one type each, references resolved: the form in which two are compared."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Schema = dict[str, Any]

ANNOTATIONS = {"$schema", "$id", "$defs", "$comment", "description", "examples", "default"}
TYPES_OF_VALUES: dict[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
STRICTER = {
    "minimum": max, "exclusiveMinimum": max, "minLength": max, "minItems": max,
    "maximum": min, "exclusiveMaximum": min, "maxLength": min, "maxItems": min,
}
ANY = "any"
"""The type of an alternative that cannot be compared keyword by keyword."""
DEEPEST = 32


class UnreadableSchemas(Exception):
    """The files are no set of schemas that can be compared; the message names the file."""


@dataclass(frozen=True)
class Alternative:
    """What one type of value must hold, annotations left out but for titles, and the file its references start from."""

    type: str
    keywords: Schema
    file: str


class Schemas:
    """The documents of a bundle or of a folder, by file name without its ending."""

    def __init__(self, documents: dict[str, Schema]) -> None:
        self.documents = documents
        self.by_id = {document["$id"]: name for name, document in documents.items() if "$id" in document}
        self.kinds = sorted(name for name, document in documents.items() if "type" in document or "oneOf" in document)

    def follow(self, reference: str, file: str) -> tuple[Schema, str]:
        """The schema that a `$ref` in a file means, and the file that holds it.

        Raises:
            UnreadableSchemas: there is none.
        """
        target, _, pointer = reference.partition("#")
        name = file if not target else self.by_id.get(target, target.rsplit("/", 1)[-1].removesuffix(".json"))
        found: Any = self.documents.get(name)
        for step in pointer.split("/")[1:]:
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        if not isinstance(found, dict):
            raise UnreadableSchemas(f"{file}: {reference!r} refers to nothing")
        return found, name

    def alternatives(self, schema: Any, file: str, depth: int = 0) -> list[Alternative]:
        """The types that a schema allows, each with its own keywords.

        Raises:
            UnreadableSchemas: a reference leads nowhere, or back to itself.
        """
        check_depth(depth, file)
        if not isinstance(schema, dict):
            return [Alternative(ANY, {} if schema is True else {"not": {}}, file)]
        own = {name: value for name, value in schema.items() if name not in ANNOTATIONS}
        if isinstance(own.get("$ref"), str):
            target, where = self.follow(own.pop("$ref"), file)
            return [beside(each, own, file) for each in self.alternatives(target, where, depth + 1)]
        for union in ("anyOf", "oneOf"):
            if union in own:
                branches = [each for branch in own[union] for each in self.alternatives(branch, file, depth + 1)]
                # `oneOf` refuses what two branches take, so it is a plain union only where no two have a value in common.
                plain = set(own) <= {union, "title"} and (union == "anyOf" or all_apart(branches))
                return branches if plain else [Alternative(ANY, own, file)]
        if "type" not in own and ("const" in own or "enum" in own):
            return of_values(own, file)
        kinds = own.pop("type", ANY)
        return [of_type(kind, own, file) for kind in ([kinds] if isinstance(kinds, str) else kinds)]

    def inlined(self, schema: Any, file: str, depth: int = 0) -> Any:
        """A schema with every reference replaced: what is compared as a whole where no rule of comparison fits."""
        check_depth(depth, file)
        if isinstance(schema, list):
            return [self.inlined(each, file, depth) for each in schema]
        if not isinstance(schema, dict):
            return schema
        out = {name: self.inlined(value, file, depth) for name, value in schema.items()}
        if isinstance(schema.get("$ref"), str):
            target, where = self.follow(schema["$ref"], file)
            out["$ref"] = self.inlined(target, where, depth + 1)
        return out

    def tags(self, found: Alternative) -> Schema:
        """The members of an object that have one value only: what tells the branches of a union apart."""
        out: Schema = {}
        if found.type != "object":
            return out
        for name in found.keywords.get("required", []):
            options = self.alternatives(found.keywords.get("properties", {}).get(name, True), found.file)
            values = options[0].keywords.get("enum", []) if len(options) == 1 else []
            if len(values) == 1:
                out[name] = values[0]
        return out


def check_depth(depth: int, file: str) -> None:
    if depth > DEEPEST:
        raise UnreadableSchemas(f"{file}: references lead back to themselves, or {DEEPEST} deep")


def of_type(kind: str, own: Schema, file: str) -> Alternative:
    if kind in ("object", "array") and ("enum" in own or "const" in own):
        return Alternative(ANY, {**own, "type": kind}, file)
    if "const" in own:
        own = {**own, "enum": [value for value in own.get("enum", [own["const"]]) if value == own["const"]]}
        del own["const"]
    return Alternative(kind, own if kind == "object" else {name: value for name, value in own.items() if name != "title"}, file)


def of_values(own: Schema, file: str) -> list[Alternative]:
    """`enum` or `const` without a type: the values of each type."""
    values = own["enum"] if "enum" in own else [own["const"]]
    if set(own) - {"enum", "const", "title"} or not all(type(value) in TYPES_OF_VALUES for value in values):
        return [Alternative(ANY, own, file)]
    by_type: dict[str, list[Any]] = {}
    for value in values:
        by_type.setdefault(TYPES_OF_VALUES[type(value)], []).append(value)
    return [Alternative(kind, {"enum": some}, file) for kind, some in by_type.items()]


def beside(found: Alternative, own: Schema, file: str) -> Alternative:
    """Keywords beside a reference hold as well as those it refers to: the stricter bound of two."""
    own = {name: value for name, value in own.items() if name != "title"}
    merged = dict(found.keywords)
    for name, value in own.items():
        if name == "type" and value == found.type:
            continue
        if name in merged and merged[name] != value and name not in STRICTER:
            name = ANY
        # A reference of its own would start from another file.
        if name in (ANY, "type") or found.type in (ANY, "object", "array") or name.endswith("Of"):
            return Alternative(ANY, {"allOf": [{**found.keywords, "type": found.type}, {**own, "file": file}]}, found.file)
        merged[name] = STRICTER[name](merged[name], value) if name in STRICTER and name in merged else value
    return Alternative(found.type, merged, found.file)


def all_apart(branches: list[Alternative]) -> bool:
    """No value is of two branches: their types differ, or they are objects with another `const` in one member."""
    def apart(one: Alternative, other: Alternative) -> bool:
        kinds = {one.type, other.type}
        if ANY in kinds or kinds == {"integer", "number"}:
            return False
        return len(kinds) == 2 or constants_differ(one, other)

    return all(apart(one, other) for at, one in enumerate(branches) for other in branches[at + 1 :])


def constants_differ(one: Alternative, other: Alternative) -> bool:
    def constants(found: Alternative) -> Schema:
        members = found.keywords.get("properties", {})
        names = found.keywords.get("required", ()) if found.type == "object" else ()
        return {name: members[name]["const"] for name in names if isinstance(members.get(name, {}).get("const"), str)}

    mine, theirs = constants(one), constants(other)
    return any(name in theirs and theirs[name] != value for name, value in mine.items())


def read(path: Path) -> Schemas:
    """The schemas of a bundle file, or of a folder with one file a record.

    Raises:
        UnreadableSchemas: there is no such path, a file is not JSON, or none of them describes a record.
    """
    if path.is_dir():
        documents = {file.stem: read_json(file) for file in sorted(path.glob("*.json"))}
        if any("x-firstnan-kinds" in document for document in documents.values()):
            raise UnreadableSchemas(f"{path}: holds a bundle; name the bundle itself, or a folder of schemas")
    else:
        definitions = read_json(path).get("$defs")
        documents = definitions if isinstance(definitions, dict) else {}
        documents = {name: document for name, document in documents.items() if name != "meta" and isinstance(document, dict)}
    schemas = Schemas(documents)
    if not schemas.kinds:
        raise UnreadableSchemas(f"{path}: neither a bundle nor a folder of record schemas")
    return schemas


def read_json(path: Path) -> Schema:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnreadableSchemas(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise UnreadableSchemas(f"{path}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise UnreadableSchemas(f"{path}: not a JSON object")
    return document
