"""What a change between two sets of schemas breaks, change by change.

A reader of the old schemas breaks where the new ones allow a record that the old ones refuse; a writer by the old
schemas breaks where the new ones refuse a record that the old ones allow. Where that cannot be told, both break.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jsonschema

from schema_shape import ANY, Alternative, Schemas, UnreadableSchemas

READERS, WRITERS, IDENTITIES, CALLERS = "readers", "writers", "identities", "callers"
BOTH = (READERS, WRITERS)
SIZES = (("minLength", "maxLength"), ("minItems", "maxItems"), ("minProperties", "maxProperties"))
BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", *(name for names in SIZES for name in names)}
OF_RECORDS = {"title", "x-firstnan-profile", "x-firstnan-order", "x-firstnan-exact", "x-firstnan-rules"}
COMPARED = BOUNDS | OF_RECORDS | {"items", "properties", "required", "additionalProperties", "enum"}
FORBIDDING = {"pattern", "not", "multipleOf", "uniqueItems"}
"""Each only forbids, whatever stands beside it: one more is narrower, one less is wider."""
DEEPEST = 32


@dataclass(frozen=True)
class Finding:
    """One change at a path of a kind's records, and whom it breaks: nobody where `breaks` is empty.

    The path is a JSON Pointer in which `*` stands for every index.
    """

    kind: str
    path: str
    change: str
    breaks: tuple[str, ...]
    why: str


class Comparison:
    def __init__(self, kind: str, old: Schemas, new: Schemas) -> None:
        self.kind, self.old, self.new = kind, old, new

    def finding(self, path: str, change: str, breaks: tuple[str, ...], why: str) -> Finding:
        return Finding(self.kind, path, change, breaks, why)

    def top(self) -> Iterator[Finding]:
        before, after = self.old.documents[self.kind], self.new.documents[self.kind]
        if before.get("$id") != after.get("$id"):
            yield self.finding("", "$id changed", (CALLERS,), "validators find the schema by it")
        yield from self.schemas("", (before, self.kind), (after, self.kind))

    def schemas(self, path: str, before: tuple[Any, str], after: tuple[Any, str]) -> Iterator[Finding]:
        """Two schemas, each with the file it stands in."""
        if path.count("/") > DEEPEST:
            raise UnreadableSchemas(f"{self.kind}: a record that contains itself, or is {DEEPEST} deep")
        old, new = self.old.alternatives(*before), self.new.alternatives(*after)
        if any(each.type == ANY for each in [*old, *new]):
            if self.old.inlined(*before) != self.new.inlined(*after):
                yield self.finding(path, "schema changed", BOTH, "it is not of a form that can be compared")
            return
        for one, other in self.pairs(old, new):
            if one is not None and other is not None:
                yield from self.alternative(path, one, other)
            elif one is not None:
                yield self.finding(path, f"{named(one, self.old)} removed", (WRITERS,), "old writers may still write it")
            elif other is not None:
                yield self.finding(path, f"{named(other, self.new)} added", (READERS,), "old readers refuse it")

    def pairs(self, old: list[Alternative], new: list[Alternative]) -> Iterator[tuple[Alternative | None, Alternative | None]]:
        """By type, objects of a union by their constant members; an integer with a number at last."""
        one_object = all(sum(each.type == "object" for each in side) < 2 for side in (old, new))

        def alike(one: Alternative, other: Alternative) -> bool:
            tagged = one.type == "object" and not one_object
            return one.type == other.type and (not tagged or self.old.tags(one) == self.new.tags(other))

        def numeric(one: Alternative, other: Alternative) -> bool:
            return {one.type, other.type} == {"integer", "number"}

        rest = list(new)
        for test in (alike, numeric):
            for one in list(old):
                found = next((other for other in rest if test(one, other)), None)
                if found is not None:
                    old = [each for each in old if each is not one]
                    rest = [each for each in rest if each is not found]
                    yield one, found
        yield from ((one, None) for one in old)
        yield from ((None, other) for other in rest)

    def alternative(self, path: str, old: Alternative, new: Alternative) -> Iterator[Finding]:
        if (old.type, new.type) == ("integer", "number"):
            yield self.finding(path, "integer became number", (READERS,), "old readers refuse a fraction")
        elif (old.type, new.type) == ("number", "integer"):
            yield self.finding(path, "number became integer", (WRITERS,), "old writers may write a fraction")
        names = {name for name in {*old.keywords, *new.keywords} if not name.startswith("x-")}
        if names - COMPARED - FORBIDDING:
            if self.old.inlined(old.keywords, old.file) != self.new.inlined(new.keywords, new.file):
                yield self.finding(path, "schema changed", BOTH, f"{min(names - COMPARED - FORBIDDING)} cannot be compared")
            return
        finite = [values_of(each) for each in (old, new)]
        if finite != [None, None]:
            yield from self.values(path, (old, new), *finite)
            return
        if old.type in ("integer", "number"):
            for name, sign in (("minimum", -1), ("maximum", 1)):
                yield from self.moved(path, name, bound(old, sign), bound(new, sign))
        for low, high in SIZES:
            yield from self.moved(path, low, -old.keywords.get(low, 0), -new.keywords.get(low, 0))
            yield from self.moved(path, high, old.keywords.get(high, math.inf), new.keywords.get(high, math.inf))
        if old.type == "array":
            items = [(each.keywords.get("items", True), each.file) for each in (old, new)]
            yield from self.schemas(f"{path}/*", *items)
        if old.type == "object":
            yield from self.members(path, old, new)
            yield from self.record(path, old, new)
        yield from self.others(path, old, new)

    def others(self, path: str, old: Alternative, new: Alternative) -> Iterator[Finding]:
        for name in sorted({*old.keywords, *new.keywords} - COMPARED):
            before = self.old.inlined(old.keywords.get(name), old.file)
            after = self.new.inlined(new.keywords.get(name), new.file)
            if before == after:
                continue
            if name not in FORBIDDING or (before is not None and after is not None):
                yield self.finding(path, f"{name} changed", BOTH, "which of the two allows more cannot be told")
            elif before is None:
                yield self.finding(path, f"{name} added", (WRITERS,), "old writers may write what it refuses")
            else:
                yield self.finding(path, f"{name} removed", (READERS,), "old readers refuse what it refuses")

    def values(self, path: str, pair: tuple[Alternative, Alternative], before: list[Any] | None,
               after: list[Any] | None) -> Iterator[Finding]:
        """Where one of the two lists its values: whether the other takes each of them."""
        if after is None:
            yield self.finding(path, "no longer a list of values", (READERS,), "old readers refuse any other value")
        for value in after or ():
            if not allows(pair[0], value):
                yield self.finding(path, f"value {json.dumps(value)} added", (READERS,), "old readers refuse it")
        if before is None:
            yield self.finding(path, "became a list of values", (WRITERS,), "old writers may write any other value")
        for value in before or ():
            if not allows(pair[1], value):
                yield self.finding(path, f"value {json.dumps(value)} removed", (WRITERS,), "old writers may still write it")

    def moved(self, path: str, name: str, before: Any, after: Any) -> Iterator[Finding]:
        """A bound whose larger value allows more."""
        if after > before:
            yield self.finding(path, f"{name} widened", (READERS,), "old readers refuse what lies between")
        elif after < before:
            yield self.finding(path, f"{name} narrowed", (WRITERS,), "old writers may write what lies between")

    def members(self, path: str, old: Alternative, new: Alternative) -> Iterator[Finding]:
        before, after = (each.keywords.get("properties", {}) for each in (old, new))
        more = [each.keywords.get("additionalProperties", True) for each in (old, new)]
        required = [set(each.keywords.get("required", ())) for each in (old, new)]
        for name in dict.fromkeys([*before, *after, *sorted(required[0] | required[1])]):
            where = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
            was_needed, is_needed = (name in names for names in required)
            if (name in before) == (name in after):
                if name in before:
                    yield from self.schemas(where, (before[name], old.file), (after[name], new.file))
                if is_needed and not was_needed:
                    yield self.finding(where, "became required", (WRITERS,), "old writers may leave it out")
                elif was_needed and not is_needed:
                    yield self.finding(where, "became optional", (READERS,), "old readers need it")
            elif name in after:
                breaks = whom(more[0] is not True, is_needed or more[0] is not False)
                yield self.finding(where, "field added", breaks, "a closed record refuses it; one that requires it needs it")
            else:
                breaks = whom(was_needed or more[1] is not False, more[1] is not True)
                yield self.finding(where, "field removed", breaks, "a closed record refuses it; one that requires it needs it")
        if more[0] is not more[1] and self.old.inlined(more[0], old.file) != self.new.inlined(more[1], new.file):
            wider, narrower = more[0] is False or more[1] is True, more[1] is False or more[0] is True
            breaks = BOTH if wider == narrower else whom(wider, narrower)
            yield self.finding(path, "additionalProperties changed", breaks, "other names are refused, or no longer are")

    def record(self, path: str, old: Alternative, new: Alternative) -> Iterator[Finding]:
        """The keywords of firstnan: profile, order of fields, defaults, rules; and the name of the class."""
        before, after = old.keywords, new.keywords
        if before.get("title") != after.get("title"):
            yield self.finding(path, "title changed", (CALLERS,), "it names the class")
        if before.get("x-firstnan-profile") != after.get("x-firstnan-profile"):
            yield self.finding(path, "profile changed", (IDENTITIES,), "the same record has other canonical bytes")
        order = [each.get("x-firstnan-order", list(each.get("properties", {}))) for each in (before, after)]
        if order[1][: len(order[0])] != order[0]:
            yield self.finding(path, "order of fields changed", (CALLERS,), "positional arguments and columns move")
        if after.get("x-firstnan-exact", False) and not before.get("x-firstnan-exact", False):
            yield self.finding(path, "became exact", (CALLERS,), "subclasses of str and int are refused")
        for name, member in before.get("properties", {}).items():
            if name in after.get("properties", {}) and lost_default(member, after["properties"][name]):
                yield self.finding(f"{path}/{name}", "default changed", (CALLERS,), "who leaves it out gets another, or none")
        rules = [{rule["rule"]: rule["id"] for rule in each.get("x-firstnan-rules", ())} for each in (before, after)]
        yield from self.rules(path, *rules)

    def rules(self, path: str, before: dict[str, str], after: dict[str, str]) -> Iterator[Finding]:
        """By what they say, not by their id; two texts that mean the same count as two rules."""
        gone = {name: text for text, name in before.items() if text not in after}
        for text, name in after.items():
            if text not in before:
                if gone.pop(name, None) is not None:
                    yield self.finding(path, f"rule {name} changed", BOTH, "which of the two allows more cannot be told")
                else:
                    yield self.finding(path, f"rule {name} added", (WRITERS,), "old writers may break it")
        for name in gone:
            yield self.finding(path, f"rule {name} removed", (READERS,), "old readers refuse what breaks it")


def whom(readers: bool, writers: bool) -> tuple[str, ...]:
    return (READERS,) * readers + (WRITERS,) * writers


def lost_default(before: Any, after: Any) -> bool:
    """Has a schema that had a default another one, or none? Compared as JSON, where 1 and true differ."""
    defaults = [json.dumps(each["default"]) if isinstance(each, dict) and "default" in each else None for each in (before, after)]
    return defaults[0] is not None and defaults[0] != defaults[1]


def named(found: Alternative, schemas: Schemas) -> str:
    return f"type {found.type}" + "".join(f" with {name} {value!r}" for name, value in schemas.tags(found).items())


def values_of(found: Alternative) -> list[Any] | None:
    """Every value of an alternative that has few, or None."""
    known = {"boolean": [False, True], "null": [None]}.get(found.type)
    listed = found.keywords.get("enum", known)
    return None if listed is None else [value for value in listed if allows(found, value)]


def allows(found: Alternative, value: Any) -> bool:
    """Does an alternative without members take this value?"""
    return bool(jsonschema.Draft202012Validator({**found.keywords, "type": found.type}).is_valid(value))


def bound(found: Alternative, sign: int) -> tuple[float, int]:
    """The bound of a number on one side, larger where it allows more; one that is excluded allows a little less."""
    closed, opened = ("minimum", "exclusiveMinimum") if sign < 0 else ("maximum", "exclusiveMaximum")
    limits = [(found.keywords[name] * sign, rank) for name, rank in ((closed, 1), (opened, 0)) if name in found.keywords]
    limit, rank = min(limits, default=(math.inf, 0))
    if found.type == "integer" and limit != math.inf:
        # The next whole number inside, so that 4 and an excluded 5 are one bound.
        return (math.floor(limit), 1) if rank else (math.ceil(limit) - 1, 1)
    return limit, rank


def compare(old: Schemas, new: Schemas) -> list[Finding]:
    """Every change of every kind, by kind.

    Raises:
        UnreadableSchemas: a reference leads nowhere, or a record contains itself.
    """
    findings: list[Finding] = []
    for kind in sorted({*old.kinds, *new.kinds}):
        if kind not in new.kinds:
            findings.append(Finding(kind, "", "kind removed", (WRITERS,), "no reader is left for what old writers write"))
        elif kind not in old.kinds:
            findings.append(Finding(kind, "", "kind added", (), "nobody reads or writes it yet"))
        else:
            findings += Comparison(kind, old, new).top()
    return list(dict.fromkeys(findings))
