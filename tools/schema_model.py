"""The schemas as a model that the emitters can walk: the subset of JSON Schema that the generator compiles.

A keyword outside the subset stops the generator (`UnsupportedSchema`): a rule of the contract that is not compiled
would be a rule that the validators do not know.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ANNOTATIONS = {"description", "title", "examples", "default", "$comment"}
FINITE_MAXIMUM = 2**1024 - 2**970 - 1
"""The largest integer that rounds to a finite binary64: as a bound it means no more than `finite`."""
MISSING = object()


class UnsupportedSchema(Exception):
    """The schema uses what the generator does not compile."""


@dataclass(frozen=True)
class Text:
    minimum: int
    maximum: int
    start: str = ""
    first: str = ""
    allowed: str = ""

    @property
    def pattern(self) -> str:
        first = f"^{self.start}" if self.start else f"^[{self.first}]" if self.first else ""
        only = f"only [{self.allowed}]" if self.allowed else ""
        return ", ".join(part for part in (first, only) if part)


@dataclass(frozen=True)
class Integer:
    minimum: int
    maximum: int


@dataclass(frozen=True)
class Real:
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: float | None = None
    exclusive_maximum: float | None = None


@dataclass(frozen=True)
class Boolean:
    pass


@dataclass(frozen=True)
class Choice:
    """A closed list of strings. `rust` names its enum; `python` is the enum class, or empty for plain strings."""

    rust: str
    python: str
    values: tuple[str, ...]
    description: str


@dataclass(frozen=True)
class Array:
    item: Type
    minimum: int
    maximum: int


@dataclass(frozen=True)
class RecordRef:
    title: str


@dataclass(frozen=True)
class UnionRef:
    title: str


Type = Text | Integer | Real | Boolean | Choice | Array | RecordRef | UnionRef


@dataclass(frozen=True)
class Field:
    name: str
    type: Type
    optional: bool
    default: Any
    description: str


@dataclass(frozen=True)
class Rule:
    id: str
    rule: str
    message: str


@dataclass(frozen=True)
class Record:
    kind: str
    title: str
    description: str
    profile: str
    exact: bool
    fields: tuple[Field, ...]
    rules: tuple[Rule, ...]
    examples: tuple[Any, ...]

    def field(self, name: str) -> Field:
        for found in self.fields:
            if found.name == name:
                return found
        raise UnsupportedSchema(f"{self.kind}: no field {name!r}")


@dataclass(frozen=True)
class Union:
    kind: str
    title: str
    description: str
    tag: Choice
    tag_field: str
    variants: tuple[Record, ...]
    examples: tuple[Any, ...]


@dataclass
class Model:
    records: dict[str, Record] = field(default_factory=dict)
    """By title, in dependency order, the variants of unions among them."""
    unions: dict[str, Union] = field(default_factory=dict)
    choices: dict[str, Choice] = field(default_factory=dict)

    @property
    def kinds(self) -> list[Record | Union]:
        """What `decode` knows: every record and union with a schema file of its own."""
        variants = {variant.title for union in self.unions.values() for variant in union.variants}
        top: list[Record | Union] = [record for record in self.records.values() if record.title not in variants]
        return sorted([*top, *self.unions.values()], key=lambda each: each.kind)


def holds_real(type_: Type) -> bool:
    return isinstance(type_, Real) or (isinstance(type_, Array) and holds_real(type_.item))


def pascal(name: str) -> str:
    return "".join(part[:1].upper() + part[1:].lower() for part in re.split(r"[^A-Za-z0-9]+", name) if part)


def read_folder(folder: Path) -> dict[str, dict[str, Any]]:
    """File name → document, of every schema of a folder.

    Raises:
        UnsupportedSchema: a file is not JSON.
    """
    documents = {}
    for path in sorted(folder.glob("*.json")):
        try:
            documents[path.name] = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UnsupportedSchema(f"{path.name}: not JSON: {error}") from None
    return documents


class Loader:
    """Reads every schema of a folder and resolves what refers to what."""

    def __init__(self, folder: Path) -> None:
        self.documents = read_folder(folder)
        self.model = Model()
        self.open: list[str] = []

    def load(self) -> Model:
        for name, document in self.documents.items():
            if "type" in document or "oneOf" in document:
                self.top(name)
            elif set(document) - {"$schema", "$id", "title", "description", "$defs"}:
                raise UnsupportedSchema(f"{name}: neither a record, nor a union, nor a file of shared definitions")
        return self.model

    def top(self, name: str) -> RecordRef | UnionRef:
        document = self.documents[name]
        title = document["title"]
        if title in self.model.records:
            return RecordRef(title)
        if title in self.model.unions:
            return UnionRef(title)
        if name in self.open:
            raise UnsupportedSchema(f"{name}: records that contain each other")
        self.open.append(name)
        kind = name.removesuffix(".json")
        if "oneOf" in document:
            self.model.unions[title] = self.union(kind, name, document)
            reference: RecordRef | UnionRef = UnionRef(title)
        else:
            self.model.records[title] = self.record(kind, name, document)
            reference = RecordRef(title)
        self.open.pop()
        return reference

    def record(self, kind: str, file: str, schema: dict[str, Any]) -> Record:
        where = kind
        self.known(where, schema, {
            "$schema", "$id", "$defs", "type", "properties", "required", "additionalProperties",
            "x-firstnan-profile", "x-firstnan-exact", "x-firstnan-order", "x-firstnan-rules",
        })
        properties, order = schema["properties"], schema["x-firstnan-order"]
        if not re.fullmatch("[A-Z][A-Za-z0-9]*", schema["title"]):
            raise UnsupportedSchema(f"{where}: the title {schema['title']!r} is not the name of a class")
        if schema["type"] != "object" or schema["additionalProperties"] is not False:
            raise UnsupportedSchema(f"{where}: a record is a closed object")
        if sorted(order) != sorted(properties) or sorted(schema["required"]) != sorted(properties):
            raise UnsupportedSchema(f"{where}: properties, required and x-firstnan-order must name the same fields")
        fields: list[Field] = []
        for name in order:
            type_, optional = self.field_type(f"{schema['title']}.{name}", schema["title"], name, file, properties[name])
            default = properties[name].get("default", MISSING)
            if default is MISSING and fields and fields[-1].default is not MISSING:
                raise UnsupportedSchema(f"{where}.{name}: a field without a default after one with a default")
            if schema["x-firstnan-profile"] == "record" and holds_real(type_):
                raise UnsupportedSchema(f"{where}.{name}: a number in the record profile, which has integers only")
            fields.append(Field(name, type_, optional, default, properties[name]["description"]))
        rules = tuple(Rule(**rule) for rule in schema["x-firstnan-rules"])
        if len({rule.id for rule in rules}) != len(rules):
            raise UnsupportedSchema(f"{where}: two rules with one id")
        return Record(kind, schema["title"], schema["description"], schema["x-firstnan-profile"],
                      schema.get("x-firstnan-exact", False), tuple(fields), rules, tuple(schema.get("examples", ())))

    def union(self, kind: str, file: str, schema: dict[str, Any]) -> Union:
        self.known(kind, schema, {"$schema", "$id", "$defs", "oneOf"})
        variants = []
        for option in schema["oneOf"]:
            name = option["$ref"].removeprefix("#/$defs/")
            variant = self.record(f"{kind}.{name}", file, schema["$defs"][name])
            self.model.records[variant.title] = variant
            variants.append(variant)
        shared = [f.name for f in variants[0].fields if isinstance(f.type, Choice) and len(f.type.values) == 1]
        tags = [name for name in shared if all(isinstance(v.field(name).type, Choice) for v in variants)]
        if len(tags) != 1 or len({v.field(tags[0]).type.values for v in variants}) != len(variants):  # type: ignore[union-attr]
            raise UnsupportedSchema(f"{kind}: the variants of a union are told apart by one `const` field")
        values = tuple(v.field(tags[0]).type.values[0] for v in variants)  # type: ignore[union-attr]
        title = schema["title"]
        tag = self.choice(Choice(f"{title}{pascal(tags[0])}", "", values, f"Which {title} it is."))
        if len({v.profile for v in variants}) != 1:
            raise UnsupportedSchema(f"{kind}: the variants of a union share one profile")
        return Union(kind, title, schema["description"], tag, tags[0], tuple(variants), tuple(schema.get("examples", ())))

    def field_type(self, where: str, title: str, name: str, file: str, schema: dict[str, Any]) -> tuple[Type, bool]:
        if "anyOf" in schema:
            self.known(where, schema, {"anyOf"})
            options = [option for option in schema["anyOf"] if option != {"type": "null"}]
            if len(options) != 1 or len(schema["anyOf"]) != 2:
                raise UnsupportedSchema(f"{where}: anyOf may only add null")
            return self.type(where, title, name, file, options[0]), True
        if isinstance(schema.get("type"), list):
            kinds = [kind for kind in schema["type"] if kind != "null"]
            if len(kinds) != 1 or len(schema["type"]) != 2:
                raise UnsupportedSchema(f"{where}: a list of types may only add null")
            return self.type(where, title, name, file, {**schema, "type": kinds[0]}), True
        return self.type(where, title, name, file, schema), False

    def type(self, where: str, title: str, name: str, file: str, schema: dict[str, Any]) -> Type:
        if "$ref" in schema:
            target, _, pointer = schema["$ref"].partition("#/$defs/")
            siblings = {key: value for key, value in schema.items() if key != "$ref" and key not in ANNOTATIONS}
            if not pointer:
                if siblings:
                    raise UnsupportedSchema(f"{where}: keywords beside a reference to a record: {sorted(siblings)}")
                return self.top(target)
            target = target or file
            shared = self.documents[target]["$defs"][pointer]
            clash = {key for key in siblings if key in shared} - {"minimum", "maximum"}
            if clash:
                raise UnsupportedSchema(f"{where}: {sorted(clash)} stands in the reference and beside it")
            merged = {**shared, **siblings}
            for bound, stricter in (("minimum", max), ("maximum", min)):
                if bound in shared and bound in siblings:
                    merged[bound] = stricter(shared[bound], siblings[bound])
            return self.type(where, pascal(pointer), "", target, merged)
        if type(schema.get("const")) is int:
            self.known(where, schema, {"const", "type"})
            return Integer(schema["const"], schema["const"])
        if "const" in schema or "enum" in schema:
            self.known(where, schema, {"enum", "const", "type"})
            if schema.get("type", "string") != "string":
                raise UnsupportedSchema(f"{where}: a closed list is of strings")
            values = tuple([schema["const"]] if "const" in schema else schema["enum"])
            if not all(isinstance(value, str) for value in values):
                raise UnsupportedSchema(f"{where}: a closed list is of strings")
            rust = schema.get("title", title) if not name else f"{title}{pascal(name)}"
            return self.choice(Choice(rust, schema.get("title", ""), values, schema.get("description", "")))
        kind = schema.get("type")
        if kind == "string":
            return self.text(where, schema)
        if kind == "integer":
            self.known(where, schema, {"type", "minimum", "maximum"})
            bounded = "minimum" in schema and "maximum" in schema
            if not bounded or not -(2**63) <= schema["minimum"] <= schema["maximum"] < 2**63:
                raise UnsupportedSchema(f"{where}: an integer needs bounds within 64 bits")
            return Integer(schema["minimum"], schema["maximum"])
        if kind == "number":
            self.known(where, schema, {"type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
            bounds = [schema.get(k) for k in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")]
            return Real(*(self.real_bound(where, bound) for bound in bounds))
        if kind == "boolean":
            self.known(where, schema, {"type"})
            return Boolean()
        if kind == "array":
            self.known(where, schema, {"type", "items", "minItems", "maxItems"})
            item, optional = self.field_type(f"{where}[]", title, f"{name}-item", file, schema["items"])
            if optional:
                raise UnsupportedSchema(f"{where}: an array of optional items")
            return Array(item, schema.get("minItems", 0), self.most(where, schema, "maxItems"))
        raise UnsupportedSchema(f"{where}: type {kind!r}")

    def text(self, where: str, schema: dict[str, Any]) -> Text:
        self.known(where, schema, {"type", "minLength", "maxLength", "pattern", "not"})
        start = first = allowed = ""
        if "pattern" in schema:
            if found := re.fullmatch(r"\^\[([^\]^\\]+)\]", schema["pattern"]):
                first = found[1]
            elif found := re.fullmatch(r"\^([A-Za-z0-9:@/_-]+)", schema["pattern"]):
                start = found[1]
            else:
                raise UnsupportedSchema(f"{where}: a pattern is ^[CLASS] or ^literal, not {schema['pattern']!r}")
        if "not" in schema:
            found = re.fullmatch(r"\[\^([^\]^\\]+)\]", schema["not"].get("pattern", ""))
            if not found or set(schema["not"]) != {"pattern"}:
                raise UnsupportedSchema(f"{where}: `not` holds one pattern, [^CLASS]")
            allowed = found[1]
        if not (first + start + allowed).isascii():
            raise UnsupportedSchema(f"{where}: a class of ASCII characters")
        return Text(schema.get("minLength", 0), self.most(where, schema, "maxLength"), start, first, allowed)

    def most(self, where: str, schema: dict[str, Any], keyword: str) -> int:
        if keyword not in schema:
            raise UnsupportedSchema(f"{where}: nothing is unbounded: {keyword} is missing")
        return int(schema[keyword])

    def real_bound(self, where: str, bound: float | int | None) -> float | None:
        if bound is None or abs(bound) == FINITE_MAXIMUM:
            return None
        if float(bound) != bound:
            raise UnsupportedSchema(f"{where}: a bound that binary64 does not hold compares differently in each language")
        return float(bound)

    def choice(self, choice: Choice) -> Choice:
        known = self.model.choices.setdefault(choice.rust, choice)
        if known.values != choice.values:
            raise UnsupportedSchema(f"two closed lists would be named {choice.rust}")
        return known

    def known(self, where: str, schema: dict[str, Any], keywords: set[str]) -> None:
        unknown = set(schema) - keywords - ANNOTATIONS
        if "\n" in schema.get("description", "") + schema.get("title", ""):
            raise UnsupportedSchema(f"{where}: a description of more than one line")
        if unknown:
            raise UnsupportedSchema(f"{where}: keywords that the generator does not compile: {sorted(unknown)}")


def load(folder: Path) -> Model:
    """Every record, union and closed list of a folder of schemas.

    Raises:
        UnsupportedSchema: a schema says what the generator does not compile.
    """
    return Loader(folder).load()
