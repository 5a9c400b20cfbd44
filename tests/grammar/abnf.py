"""ABNF (RFC 5234), as much of it as RFC 8259 and RFC 3629 use: text to a tree of nodes."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TOKEN = re.compile(
    r"""\s+ | ;[^\n]*
    | (?P<range>%x[0-9A-Fa-f]+-[0-9A-Fa-f]+)
    | (?P<series>%x[0-9A-Fa-f]+(?:\.[0-9A-Fa-f]+)*)
    | (?P<text>"[^"]*")
    | (?P<repeat>[0-9]*\*[0-9]*|[0-9]+)
    | (?P<name>[A-Za-z][A-Za-z0-9-]*)
    | (?P<mark>[=/()\[\]])""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Range:
    low: int
    high: int


@dataclass(frozen=True)
class Series:
    """Code points one after the other, each as the ranges that may stand there (a letter in quotes has two cases)."""

    points: tuple[tuple[Range, ...], ...]


@dataclass(frozen=True)
class Name:
    name: str


@dataclass(frozen=True)
class Concatenation:
    parts: tuple[object, ...]


@dataclass(frozen=True)
class Alternation:
    options: tuple[object, ...]


@dataclass(frozen=True)
class Repetition:
    """`high` is None where there is no bound."""

    of: object
    low: int
    high: int | None


class Parser:
    def __init__(self, text):
        self.tokens, place = [], 0
        while place < len(text):
            found = TOKEN.match(text, place)
            if not found:
                raise ValueError(f"no ABNF: {text[place : place + 20]!r}")
            if found.lastgroup:
                self.tokens.append((found.lastgroup, found[found.lastgroup]))
            place = found.end()
        self.place = 0

    def peek(self, ahead=0):
        return self.tokens[self.place + ahead] if self.place + ahead < len(self.tokens) else (None, None)

    def take(self):
        self.place += 1
        return self.tokens[self.place - 1]

    def rules(self):
        out = {}
        while self.place < len(self.tokens):
            _, name = self.take()
            assert self.take() == ("mark", "=")
            assert name not in out
            out[name] = self.alternation()
        return out

    def alternation(self):
        options = [self.concatenation()]
        while self.peek() == ("mark", "/"):
            self.take()
            options.append(self.concatenation())
        return options[0] if len(options) == 1 else Alternation(tuple(options))

    def concatenation(self):
        parts = []
        while self.starts_element():
            parts.append(self.repetition())
        return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))

    def starts_element(self):
        kind, value = self.peek()
        if kind == "name":
            return self.peek(1) != ("mark", "=")
        return kind in ("range", "series", "text", "repeat") or value in ("(", "[")

    def repetition(self):
        if self.peek()[0] != "repeat":
            return self.element()
        low, star, high = self.take()[1].partition("*")
        bounds = (int(low or 0), int(high) if high else None) if star else (int(low), int(low))
        return Repetition(self.element(), *bounds)

    def element(self):
        kind, value = self.take()
        if kind == "name":
            return Name(value)
        if kind == "range":
            low, high = value[2:].split("-")
            return Range(int(low, 16), int(high, 16))
        if kind == "series":
            return Series(tuple((Range(int(point, 16), int(point, 16)),) for point in value[2:].split(".")))
        if kind == "text":
            cases = [sorted({ord(letter.lower()), ord(letter.upper())}) for letter in value[1:-1]]
            return Series(tuple(tuple(Range(point, point) for point in case) for case in cases))
        inside = self.alternation()
        assert self.take() == ("mark", {"(": ")", "[": "]"}[value])
        return inside if value == "(" else Repetition(inside, 0, 1)


@cache
def grammar(file):
    """Name → node of each rule of a file beside this one, in its order; the first rule is the start."""
    return Parser((Path(__file__).parent / file).read_text(encoding="utf-8")).rules()
