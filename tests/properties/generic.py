"""A record as any language would check it: a JSON Schema validator, then a CEL engine on every rule."""

import json
import re
import sys
from functools import cache
from pathlib import Path

import cel
import celpy
from celpy.celtypes import BoolType
from celpy.evaluation import bool_eq
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from reference.text import Refused, finite_float, refuse_constant, unique

FOLDER = Path(__file__).resolve().parents[2] / "schemas/v1"
SCHEMAS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
REGISTRY = Registry().with_resources((schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS.values())
KINDS = [kind for kind in SCHEMAS if kind != "common"]
VALIDATORS = {kind: Draft202012Validator(SCHEMAS[kind], registry=REGISTRY) for kind in KINDS}
LONE = re.compile("[\ud800-\udfff]")
DECODER = json.JSONDecoder(object_pairs_hook=unique, parse_constant=refuse_constant, parse_float=finite_float)


class RuleFailed(AssertionError):
    """A rule ended in an error, of a type or of a range, on a record of valid shape."""


def resolved(schema, resolver):
    """A schema with its reference replaced by what it refers to, and the resolver of that place."""
    while "$ref" in schema:
        target = resolver.lookup(schema["$ref"])
        here = {key: value for key, value in schema.items() if key != "$ref"}
        schema, resolver = {**target.contents, **here}, target.resolver
    return schema, resolver


def root(kind):
    return SCHEMAS[kind], REGISTRY.resolver(SCHEMAS[kind]["$id"])


class Bound:
    """A record of valid shape as the CEL engine sees it: each number of the type that its schema names."""

    def __init__(self, kind, value):
        self.rules, self.off_wire = [], False
        self.value = self.bind(*root(kind), value)

    def bind(self, schema, resolver, value):
        schema, resolver = resolved(schema, resolver)
        for branch in schema.get("oneOf", []) + schema.get("anyOf", []):
            if Draft202012Validator(branch, registry=REGISTRY, _resolver=resolver).is_valid(value):
                return self.bind(branch, resolver, value)
        if isinstance(value, dict):
            out = {name: self.bind(schema["properties"][name], resolver, member) for name, member in value.items()}
            self.rules += [(rule["rule"], out) for rule in schema["x-firstnan-rules"]]
            return out
        if isinstance(value, list):
            return [self.bind(schema["items"], resolver, member) for member in value]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if "number" in schema.get("type", ""):
                return float(value)
            self.off_wire |= isinstance(value, float)
            return int(value)
        return value


@cache
def compiled(rule):
    return cel.compile(rule)


def equal(left, right):
    """CEL compares null with any type; celpy 0.5 has no such overload."""
    return BoolType(left is right) if left is None or right is None else bool_eq(left, right)


NULL_SAFE = {"_==_": equal, "_!=_": lambda left, right: BoolType(not equal(left, right))}


@cache
def compiled_slowly(rule):
    limit = sys.getrecursionlimit()
    environment = celpy.Environment()
    program = environment.program(environment.compile(rule), functions=NULL_SAFE)
    sys.setrecursionlimit(limit)  # celpy changes it for the whole process
    return program


def holds(rule, value):
    try:
        kept = compiled(rule).execute({"self": value})
    except Exception as error:
        raise RuleFailed(rule) from error
    if not isinstance(kept, bool):
        raise RuleFailed(rule)
    return kept


def holds_slowly(rule, value):
    """By another engine, which is all Python."""
    return bool(compiled_slowly(rule).evaluate({"self": celpy.json_to_cel(value)}))


def as_doubles(value):
    """As an engine binds numbers that knows no integers; None where one of them has no exact double."""
    if isinstance(value, dict):
        members = {name: as_doubles(member) for name, member in value.items()}
        return None if any(members[name] is None is not value[name] for name in value) else members
    if isinstance(value, list):
        members = [as_doubles(member) for member in value]
        return None if None in members else members
    if type(value) is int:
        return float(value) if abs(value) <= 2**53 else None
    return value


def has_rules(kind):
    return any(Bound(kind, example).rules for example in SCHEMAS[kind]["examples"])


def layer(kind, text):
    """None where the record is accepted, else `unreadable`, `shape`, `rule` or `wire`."""
    try:
        value = DECODER.decode(text)
    except (Refused, ValueError, RecursionError):
        return "unreadable"
    if LONE.search(json.dumps(value, ensure_ascii=False)):
        return "unreadable"  # by every language whose strings are UTF-8
    if not VALIDATORS[kind].is_valid(value):
        return "shape"
    bound = Bound(kind, value)
    verdicts = [holds(rule, record) for rule, record in bound.rules]
    for (rule, record), kept in zip(bound.rules, verdicts, strict=True):
        doubles = as_doubles(record)
        assert doubles is None or holds(rule, doubles) == kept, rule
    if not all(verdicts):
        return "rule"
    return "wire" if bound.off_wire else None
