"""The model of the schemas as plain declarations, which generators of types take.

Bounds, patterns and rules are left out: they are for a validator. A type says which members there are and what they hold.
types_spelling.py says the rest to the generator of each language.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from schema_model import Array, Boolean, Choice, Field, Integer, Model, Real, RecordRef, Text, Type, UnionRef

Schema = dict[str, Any]


@dataclass(frozen=True)
class Member:
    """What a member holds: `kind` is string, integer, number, boolean, or the name of a declaration.

    `lists` counts the lists around it; `value` is the only value, where there is only one.
    """

    kind: str
    description: str
    nullable: bool
    lists: int = 0
    value: str | int | None = None


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
class Declarations:
    """What is declared, and the name of the declaration of each kind of record."""

    named: tuple[Named, ...]
    kinds: dict[str, str]


def declarations(model: Model) -> Declarations:
    """Every object, every union and every enumeration that a member holds."""
    objects = [Named(each.title, each.description, {one.name: member(one) for one in each.fields})
               for each in model.records.values()]
    held = {one.kind for each in objects for one in each.members.values()}
    choices = [Named(each.rust, each.description, values=each.values) for each in model.choices.values() if each.rust in held]
    unions = [Named(each.title, each.description, tag=each.tag_field,
                    variants={value: one.title for value, one in zip(each.tag.values, each.variants, strict=True)})
              for each in model.unions.values()]  # fmt: skip
    return Declarations((*choices, *objects, *unions), {each.kind: each.title for each in model.kinds})


def member(of: Field) -> Member:
    type_: Type = of.type
    lists = 0
    while isinstance(type_, Array):
        type_, lists = type_.item, lists + 1
    value: str | int | None = None
    match type_:
        case Text():
            kind = "string"
        case Integer(low, high):
            kind, value = "integer", low if low == high else None
        case Real():
            kind = "number"
        case Boolean():
            kind = "boolean"
        case Choice(values=(only,)):
            kind, value = "string", only
        case Choice():
            kind = type_.rust
        case RecordRef(title) | UnionRef(title):
            kind = title
    return Member(kind, of.description, of.optional, lists, value)


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
        "properties": {name: {**spell(one), "description": one.description} for name, one in named.members.items()},
        "required": list(named.members),
        "additionalProperties": False,
    }
