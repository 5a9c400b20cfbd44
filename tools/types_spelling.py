"""What the generator of each language reads: the declarations, with the type of each member that keeps every value whole.

An integer has 64 bits. A number keeps the type it was written in, since 1024 and 1024.0 have different identities.
"""

from __future__ import annotations

import json

from types_input import Declarations, Member, Schema, declaration

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def typescript(declarations: Declarations) -> Schema:
    """json-schema-to-typescript takes a type's text as `tsType`. An integer is a BigInt, as canonical.mjs reads it."""

    def spell(member: Member) -> Schema:
        text = {"integer": "bigint", "number": "(bigint | number)"}.get(member.kind, member.kind)
        if member.value is not None:
            text = json.dumps(member.value) + ("n" if member.kind == "integer" else "")
        return {"tsType": text + "[]" * member.lists + (" | null" if member.nullable else "")}

    return {"title": "Declarations", "$defs": {each.name: declaration(each, spell) for each in declarations.named}}


def go(declarations: Declarations) -> Schema:
    """go-jsonschema takes a type's text as `goJSONSchema`. It has no unions: emit_kinds.py declares them."""

    def spell(member: Member) -> Schema:
        text = {"integer": "int64", "number": "json.Number", "boolean": "bool"}.get(member.kind, member.kind)
        imports = {"imports": ["encoding/json"]} if member.kind == "number" else {}
        return {"goJSONSchema": {"type": "*" * member.nullable + "[]" * member.lists + text, **imports}}

    plain = [each for each in declarations.named if not each.variants]
    return {"$schema": DIALECT, "$defs": {each.name: declaration(each, spell) for each in plain}}


def rust(declarations: Declarations) -> Schema:
    """typify takes plain schemas. Its driver maps numbers to serde_json's, which keep the text, and unions to emit_kinds.py's."""

    def spell(member: Member) -> Schema:
        return nested(member, "#/$defs/")

    return {"$defs": {each.name: declaration(each, spell) for each in declarations.named}}


def java(declarations: Declarations) -> Schema:
    """openapi-generator takes a document of OpenAPI; `number` is mapped to java.lang.Number in its pom.xml."""

    def spell(member: Member) -> Schema:
        return nested(member, "#/components/schemas/")

    schemas = {each.name: declaration(each, spell) for each in declarations.named}
    for each in declarations.named:
        if each.variants:
            mapping = {value: f"#/components/schemas/{name}" for value, name in each.variants.items()}
            branches = [{"$ref": target} for target in mapping.values()]
            schemas[each.name] |= {"oneOf": branches, "discriminator": {"propertyName": each.tag, "mapping": mapping}}
    return {"openapi": "3.1.0", "info": {"title": "firstnan", "version": "1"}, "paths": {}, "components": {"schemas": schemas}}


def nested(member: Member, prefix: str) -> Schema:
    """A member in JSON Schema's own words."""
    own = {"string": {}, "number": {}, "boolean": {}, "integer": {"format": "int64"}}.get(member.kind)
    schema: Schema = {"$ref": prefix + member.kind} if own is None else {"type": member.kind, **own}
    for _ in range(member.lists):
        schema = {"type": "array", "items": schema}
    return {"anyOf": [schema, {"type": "null"}]} if member.nullable else schema
