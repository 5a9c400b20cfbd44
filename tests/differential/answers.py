"""Two answers to the same bytes: the package's, and that of jsonschema-rs with a CEL engine.

CEL engine: common-expression-language 0.10, bindings of the Rust crate; measured 30 times faster than cel-python. What
it costs is the conversion of the record, so all rules of an object are one list, evaluated at once.
"""

import json
from dataclasses import dataclass

import cel
import jsonschema_rs

import firstnan
from reference.text import DECODER


@dataclass(frozen=True)
class Answer:
    """`layer`: `valid`, `shape`, `rule`, `wire`, or `unreadable` where no record was read.

    `pointers`: where the layer may be said to refuse, as (pointer, whether a place below it will do). `rules`: those
    that do not hold, as (pointer, id). `kind`: the package's name of its refusal.
    """

    layer: str
    pointers: frozenset[tuple[str, bool]] = frozenset()
    rules: frozenset[tuple[str, str]] = frozenset()
    kind: str | None = None
    pointer: str = ""
    bound: str | None = None


VALID = Answer("valid")


def ours(kind, data):
    """What `firstnan.decode` says."""
    try:
        firstnan.decode(kind, data)
    except firstnan.ContractError as error:
        return Answer(error.layer, kind=error.kind, pointer=error.pointer, bound=error.bound)
    return VALID


def pointer_of(parts):
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def at(value, path):
    """(pointer, object) of each object at a path such as `/stages/*`."""
    found = [("", value)]
    for part in path.split("/")[1:]:
        if part == "*":
            found = [(f"{pointer}/{index}", element) for pointer, array in found for index, element in enumerate(array)]
        else:
            found = [(f"{pointer}/{part}", holder[part]) for pointer, holder in found]
    return [(pointer, holder) for pointer, holder in found if holder is not None]


def applies(entry, holder):
    name, equals, constant = entry.get("when", "").partition("=")
    return not equals or holder[name] == constant


def engine_sees(value):
    """A record with each integer beyond 64 bits as the binary64 it is compared as: CEL has no larger ones."""
    if isinstance(value, dict):
        return {name: engine_sees(member) for name, member in value.items()}
    if isinstance(value, list):
        return [engine_sees(member) for member in value]
    return float(value) if type(value) is int and not -(2**63) <= value < 2**63 else value


class Generic:
    """The answer that a bundle gives to anyone with a validator and a CEL engine."""

    def __init__(self, bundle):
        registry = jsonschema_rs.Registry([(schema["$id"], schema) for schema in bundle["$defs"].values()])
        self.kinds = bundle["x-firstnan-kinds"]
        self.validators = {
            kind: jsonschema_rs.Draft202012Validator({"$ref": entry["schema"]}, registry=registry)
            for kind, entry in self.kinds.items()
        }
        self.programs = {kind: self.compiled(entry["rules"]) for kind, entry in self.kinds.items()}

    @staticmethod
    def compiled(rules):
        groups = {}
        for rule in rules:
            groups.setdefault((rule["path"], rule.get("when", "")), []).append(rule)
        return [(group[0], [r["id"] for r in group], [cel.compile(r["rule"]) for r in group],
                 cel.compile("[" + ", ".join(r["rule"] for r in group) + "]")) for group in groups.values()]  # fmt: skip

    def answer(self, kind, data):
        try:
            text = data.decode()
            value = DECODER.decode(text)
            if "\\ud" in text or "\\uD" in text:
                json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate has no UTF-8
        except (ValueError, RecursionError):
            return Answer("unreadable")
        validator = self.validators[kind]
        if not validator.is_valid(value):
            return Answer("shape", pointers=frozenset(self.places(validator.iter_errors(value))))
        broken = frozenset(self.broken(kind, engine_sees(value)))
        if broken:
            return Answer("rule", rules=broken)
        forms = frozenset(self.off_wire(kind, value))
        return Answer("wire", pointers=forms) if forms else VALID

    @staticmethod
    def places(errors):
        for error in errors:
            path, kind = list(error.instance_path), error.kind
            yield pointer_of(path), kind.name in ("oneOf", "anyOf")
            if kind.name == "required":
                yield pointer_of([*path, kind.property]), False
            if kind.name == "additionalProperties":
                yield from ((pointer_of([*path, name]), False) for name in kind.unexpected)

    def broken(self, kind, value):
        for rule, identities, programs, together in self.programs[kind]:
            for pointer, holder in at(value, rule["path"]):
                if not applies(rule, holder):
                    continue
                scope = {"self": holder}
                try:
                    verdicts = together.execute(scope)
                except Exception:
                    verdicts = [each.execute(scope) for each in programs]  # an error in a rule on a valid shape is a fault
                assert all(type(kept) is bool for kept in verdicts), (identities, verdicts)
                yield from ((pointer, identity) for identity, kept in zip(identities, verdicts, strict=True) if not kept)

    def off_wire(self, kind, value):
        """The integers that are written with a fraction or an exponent."""
        for entry in self.kinds[kind]["integers"]:
            for pointer, holder in at(value, entry["path"]):
                if applies(entry, holder):
                    numbers = at(holder, entry["member"])
                    yield from ((pointer + below, False) for below, number in numbers if isinstance(number, float))


def disagreement(mine, theirs):
    """What the two answers differ in, in words; None where they agree or differ on the wire only."""
    if theirs.layer == "unreadable":
        return "accepted, and not readable" if mine.layer == "valid" else None
    if mine.layer != theirs.layer:
        return f"layer {mine.layer} ({mine.kind}), and {theirs.layer}"
    if mine.layer == "rule" and (mine.pointer, mine.bound) not in theirs.rules:
        return f"rule {mine.bound} at {mine.pointer!r}, and {sorted(theirs.rules)}"
    if mine.layer in ("shape", "wire"):
        exact = (mine.pointer, False) in theirs.pointers or (mine.pointer, True) in theirs.pointers
        if not exact and not any(below and mine.pointer.startswith(pointer + "/") for pointer, below in theirs.pointers):
            return f"{mine.kind} at {mine.pointer!r}, and {sorted(theirs.pointers)}"
    return None
