"""Writes vectors/kinds/KIND.jsonl: mutations of the examples of each kind that has no file in vectors/records.

Usage: python mutate.py BUNDLE VECTORS

The answers are those of conform.py, which shares no code with firstnan; the other languages then have to agree with
them. Run it where a schema has gained a kind; the vectors of a kind that are there are left as they are.
"""

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from canonical import canonicalize
from conform import Bundle, record

PER_LAYER = 12
VALUES: tuple[Any, ...] = (
    None, True, 0, 1, -1, 2**53 + 1, 2**63 - 1, 2**63, 0.0, -0.0, 1.5, 1e16, 1e-05, 1e300, "", "a", "é", "😀", "～",
    "a\n", "a" * 4097, "\x7f", "<&>\u2028", [], {}, [None], "0" * 64,
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    for key, member in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(member, (*path, key))


def changed(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    if not path:
        return new
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def words(schema: Any) -> Iterator[str]:
    """Every word of a closed list in a schema."""
    if isinstance(schema, dict):
        yield from (word for word in schema.get("enum", ()) if isinstance(word, str))
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from words(inner)


def texts(example: Any, closed: list[str], chance: random.Random) -> Iterator[tuple[str, str]]:
    """Why a case is there, and its text; `closed` are the words of the contract's closed lists."""
    def written(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    text = written(example)
    yield "an example", text
    yield "its names in another order, with white space", json.dumps(dict(reversed(example.items())), indent=1)
    yield "a name twice", f"{text[:-1]}, {written(next(iter(example)))}: {written(next(iter(example.values())))}}}"
    yield "an unknown name", written({**example, "zz": 0})
    yield "a byte order mark", f"\ufeff{text}"
    yield "something after it", f"{text} 0"
    yield "cut short", text[:-1]
    found = list(places(example))[1:]
    for path in chance.sample(found, min(len(found), 40)):
        old, where = at(example, path), "/" + "/".join(map(str, path))
        if isinstance(path[-1], str):
            owner = at(example, path[:-1])
            without = {name: member for name, member in owner.items() if name != path[-1]}
            yield f"{where} left out", written(changed(example, path[:-1], without))
        for new in chance.sample(VALUES, 6):
            yield f"{where} changed", written(changed(example, path, new))
        if type(old) is bool:
            yield f"{where} the other way", written(changed(example, path, not old))
        if old in closed:
            for new in (None, *(word for word in closed if word != old)):
                yield f"{where} another word", written(changed(example, path, new))
        if type(old) is int:
            yield f"{where} with a point", written(changed(example, path, float(old)))
            for new in (old + 1, old - 1, old * 1000):
                yield f"{where} changed", written(changed(example, path, new))
        if type(old) is float:
            yield f"{where} without a point", written(changed(example, path, int(old)))
        if type(old) is str:
            yield f"{where} with a lone surrogate", json.dumps(changed(example, path, f"{old}\ud800"))
            others = [at(example, each) for each in found if type(at(example, each)) is str]
            yield f"{where} of another", written(changed(example, path, chance.choice(others)))


def main() -> int:
    bundle, root = Bundle(sys.argv[1]), Path(sys.argv[2])
    (root / "kinds").mkdir(exist_ok=True)
    for name, kind in bundle.kinds.items():
        path = root / f"kinds/{name}.jsonl"
        if path.exists() or (root / f"records/{name}.jsonl").exists():
            continue
        chance = random.Random(name)
        closed = sorted(set(words(bundle.content["$defs"][name])))
        kept: dict[tuple[Any, ...], list[tuple[str, str]]] = {}
        for example in bundle.content["$defs"][name]["examples"]:
            for why, text in texts(example, closed, chance):
                answer = record(bundle, "", name, text.encode("utf-8"))
                kept.setdefault((answer["shape"], answer["rule"], answer["valid"]), []).append((why, text))
        lines: list[str] = []
        for (shape, rule, valid), cases in kept.items():
            for why, text in cases[:3] + chance.sample(cases[3:], min(len(cases[3:]), PER_LAYER)):
                case: dict[str, Any] = {"case": f"{name}-{len(lines):04}", "why": why, "text": text, "accept": valid}
                if valid:
                    answer = record(bundle, "", name, text.encode("utf-8"))
                    case |= {"canonical": canonicalize(text.encode("utf-8"), kind.profile).decode(), "sha256": answer["bytes"]}
                else:
                    case["wire_only"] = bool(shape and rule is not False)
                lines.append(json.dumps(case, ensure_ascii=True))
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        print(name, {key: len(cases) for key, cases in kept.items()}, len(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
