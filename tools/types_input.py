"""The records as plain declarations, which generators of types take: one document, no references between files, no rules.

Bounds, patterns and rules are left out: they are for a validator. A type says which members there are and what they hold.
types_spelling.py says the rest to the generator of each language.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schema_model import UnsupportedSchema

Schema = dict[str, Any]


@dataclass(frozen=True)
class Named:
    """A declaration: an object's members, the texts of an enumeration, or the objects of a union by the value of their tag."""

    name: str
    description: str
    members: dict[str, Member] = field(default_factory=dict)
    values: tuple[str, ...] = ()
    tag: str = ""
    variants: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Member:
    """What a member holds: `kind` is string, integer, number, boolean, or the name of a declaration.

    `lists` counts the lists around it; `value` is the only value, where there is only one.
    """

    kind: str
    description: str = ""
    nullable: bool = False
    lists: int = 0
    value: str | int | None = None


class Declarations:
    """Every record of a folder of schemas, in the order of their files, enumerations and variants after what names them."""

    def __init__(self, folder: Path) -> None:
        self.documents = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
        self.named: dict[str, Named] = {}
        for name, document in self.documents.items():
            if "type" in document or "oneOf" in document:
                self.declare(document, name, document["title"])

    def follow(self, schema: Schema, file: str) -> tuple[Schema, str]:
        target, _, pointer = schema["$ref"].partition("#")
        file = target or file
        found = self.documents[file]
        for step in pointer.split("/")[1:]:
            found = found[step]
        return found, file

    def declare(self, schema: Schema, file: str, name: str) -> str:
        if name in self.named:
            return name
        description = schema.get("description", "")
        self.named[name] = Named(name, description)  # holds its place before those that it names
        if "enum" in schema:
            self.named[name] = Named(name, description, values=tuple(schema["enum"]))
        elif "oneOf" in schema:
            variants = [self.follow(branch, file) for branch in schema["oneOf"]]
            tags = [{key for key, member in variant["properties"].items() if "const" in member} for variant, _ in variants]
            (tag,) = set.intersection(*tags)
            by_value = {variant["properties"][tag]["const"]: self.declare(variant, where, variant["title"])
                        for variant, where in variants}
            self.named[name] = Named(name, description, tag=tag, variants=by_value)
        else:
            order, properties = schema["x-firstnan-order"], schema["properties"]
            members = {key: self.member(properties[key], file, name + pascal(key)) for key in order}
            self.named[name] = Named(name, description, members=members)
        return name

    def member(self, schema: Schema, file: str, suggested: str) -> Member:
        description, nullable, lists = schema.get("description", ""), False, 0
        while True:
            if lists and ("anyOf" in schema or isinstance(schema.get("type"), list)):
                raise UnsupportedSchema(f"{file}: null in a list has no spelling yet")
            if "$ref" in schema:
                shared = schema["$ref"].rpartition("/")[2]
                schema, file = self.follow(schema, file)
                suggested = schema.get("title", pascal(shared))
            elif "anyOf" in schema:
                (schema,), nullable = [each for each in schema["anyOf"] if each != {"type": "null"}], True
            elif isinstance(schema.get("type"), list):
                (type_,), nullable = [each for each in schema["type"] if each != "null"], True
                schema = {**schema, "type": type_}
            elif schema.get("type") == "array":
                schema, lists = schema["items"], lists + 1
            else:
                break
        if "const" in schema:
            kind = "string" if isinstance(schema["const"], str) else "integer"
            return Member(kind, description, nullable, lists, schema["const"])
        kind = schema.get("type", "object")
        if "enum" in schema or kind == "object":
            kind = self.declare(schema, file, suggested)
        return Member(kind, description, nullable, lists)


def pascal(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.replace("-", "_").split("_"))


def declaration(named: Named, spell: Callable[[Member], Schema]) -> Schema:
    """A declaration as a schema, each member as `spell` says it to a generator."""
    common = {"title": named.name, "description": named.description}
    if named.values:
        return {**common, "type": "string", "enum": list(named.values)}
    if named.variants:
        return {**common, "oneOf": [{"$ref": f"#/$defs/{name}"} for name in named.variants.values()]}
    return {
        **common,
        "type": "object",
        "properties": {name: {**spell(member), "description": member.description} for name, member in named.members.items()},
        "required": list(named.members),
        "additionalProperties": False,
    }
