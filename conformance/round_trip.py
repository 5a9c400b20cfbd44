"""Round trip of every valid vector through the generated types of four languages: text, typed value, text, the same bytes.

    python conformance/round_trip.py

Checks first that types/ is what the schemas make. Exits 1 where a tool is missing, a generated file is stale, something does
not compile, or a vector comes back with other canonical bytes. No vector is left out: there is no list of exceptions.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import firstnan

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BUILD = ROOT / "out/types"
VECTORS = BUILD / "vectors.jsonl"
TYPES = ROOT / "types"


class Failed(Exception):
    """What makes the run end with 1, in words for whoever reads it."""


@dataclass(frozen=True)
class Vector:
    """A valid record as text, and how its canonical bytes are made."""

    vector: str
    kind: str
    profile: Literal["record", "evidence"]
    text: str


def valid_vectors() -> Iterator[Vector]:
    """Every record of schemas/vectors that the package accepts, and every example of the schemas, so that each kind has some."""
    bundle = json.loads((ROOT / "schemas/bundle.json").read_text(encoding="utf-8"))
    for vector, kind, text in [*examples(bundle["$defs"]), *records(ROOT / "schemas/vectors")]:
        try:
            firstnan.decode(kind, text)
        except firstnan.ContractError:
            continue
        yield Vector(vector, kind, bundle["x-firstnan-kinds"][kind]["profile"], text)


def examples(documents: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for kind, document in documents.items():
        variants = document.get("$defs", {}).values() if "oneOf" in document else [document]
        for index, example in enumerate(each for variant in variants for each in variant.get("examples", ())):
            yield f"examples/{kind}/{index}", kind, json.dumps(example)


def records(root: Path) -> Iterator[tuple[str, str, str]]:
    patterns = ("records/*.jsonl", "kinds/*.jsonl", "triage/*.jsonl", "lifecycle/inventory-*.jsonl", "wire/*.jsonl")
    for path in sorted(path for pattern in patterns for path in root.glob(pattern)):
        for index, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            vector = json.loads(line)
            name = f"{path.parent.name}/{path.stem}/{index}"
            if path.parent.name in ("kinds", "records"):
                yield name, path.stem, vector["text"]
            elif path.parent.name == "wire":
                yield name, path.stem, bytes.fromhex(vector["hex"]).decode(errors="replace")
            elif path.parent.name == "triage":
                yield f"{name}/contract", "training-incident-contract", vector["contract"]
                yield f"{name}/evidence", "training-run-evidence", vector["evidence"]
                if "report" in vector:
                    yield f"{name}/report", "incident-report", json.dumps(vector["report"])
            else:
                yield f"{name}/identity", "run-identity", json.dumps(vector["identity"])
                for number, inventory in enumerate(vector["inventories"]):
                    yield f"{name}/inventories/{number}", "rank-inventory", json.dumps(inventory)


def literal(value: Any) -> str:
    """A JSON value in TypeScript, integers as BigInt."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(name)}: {literal(member)}' for name, member in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    return f"{value}n" if type(value) is int else json.dumps(value)


def literals(vectors: list[Vector]) -> str:
    """A module with each record as a literal of its type, for the compiler to check."""
    lines = "\n".join(f"export const v{i}: Kinds[{json.dumps(each.kind)}] = {literal(json.loads(each.text))};"
                      for i, each in enumerate(vectors))
    names = ", ".join(f"v{i}" for i in range(len(vectors)))
    imports = 'import type { Kinds } from "../../types/typescript/kinds.js";'
    return f"{imports}\n{lines}\nexport const literals: Kinds[keyof Kinds][] = [{names}];\n"


def command(arguments: list[str], folder: Path, **environment: str) -> str:
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, env=os.environ | environment, check=False)
    if done.returncode != 0:
        shown = f"`{' '.join(arguments)[:400]}` ended with {done.returncode}"
        raise Failed(f"{shown}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def typescript() -> str:
    folder, built = HERE / "round_trip", BUILD / "js"
    command(["npm", "ci", "--no-audit", "--no-fund", "--silent"], folder)
    command(["node_modules/.bin/tsc", "--project", "."], folder)
    # The compiler reads canonical.d.mts and copies no JavaScript.
    (built / "conformance/node").mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "node/canonical.mjs", built / "conformance/node/canonical.mjs")
    return command(["node", str(built / "conformance/round_trip/round_trip.mjs"), str(VECTORS)], folder)


def go() -> str:
    command(["go", "vet", "./..."], TYPES / "go")
    command(["go", "build", "-mod=readonly", "-o", str(BUILD / "round-trip-go"), "."], HERE / "round_trip/go")
    return command([str(BUILD / "round-trip-go"), str(VECTORS)], HERE)


def java() -> str:
    command(["mvn", "--quiet", "--batch-mode", "process-classes"], TYPES / "java")
    target, classes = TYPES / "java/target", BUILD / "java-classes"
    libraries = f"{target / 'classes'}{os.pathsep}{target / 'lib'}/*"
    sources = [str(HERE / path) for path in ("round_trip/RoundTrip.java", "java/src/main/java/firstnan/Canonical.java")]
    command(["javac", "--release", "17", "-cp", libraries, "-d", str(classes), *sources], HERE)
    return command(["java", "-cp", f"{classes}{os.pathsep}{libraries}", "RoundTrip", str(VECTORS)], HERE)


def rust() -> str:
    run = ["cargo", "run", "--locked", "--quiet", "--example", "round_trip", "--", str(VECTORS)]
    return command(run, TYPES / "rust", CARGO_TARGET_DIR=str(BUILD / "rust"))


LANGUAGES = {"typescript": typescript, "go": go, "java": java, "rust": rust}
TOOLS = ("node", "npm", "go", "mvn", "javac", "java", "cargo")


def different(vectors: list[Vector], output: str) -> list[str]:
    """The vectors that came back with other bytes, or not at all."""
    answers: dict[str, str] = {}
    for line in output.splitlines():
        answer = json.loads(line)
        answers[answer["vector"]] = answer["bytes"]
    wrong = []
    for each in vectors:
        expected = hashlib.sha256(firstnan.canonicalize(each.text, profile=each.profile)).hexdigest()
        if answers.pop(each.vector, None) != expected:
            wrong.append(each.vector)
    return wrong + [f"{name}, which was not asked" for name in answers]


def main() -> int:
    begun = time.monotonic()
    try:
        for tool in TOOLS:
            if shutil.which(tool) is None:
                raise Failed(f"`{tool}` is missing")
        command([sys.executable, "tools/generate_types.py", "--check"], ROOT)
        BUILD.mkdir(parents=True, exist_ok=True)
        vectors = list(valid_vectors())
        VECTORS.write_text("".join(json.dumps(asdict(each)) + "\n" for each in vectors), encoding="utf-8")
        (BUILD / "literals.mts").write_text(literals(vectors), encoding="utf-8")
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            running = {name: pool.submit(run) for name, run in LANGUAGES.items()}
        print(f"{len(vectors)} valid vectors of {len({each.kind for each in vectors})} kinds; how many come back whole")
        wrong = []
        for name, job in running.items():
            lost = different(vectors, job.result())
            print(f"{name:12}{len(vectors) - len(lost):>6} of {len(vectors)}")
            wrong += [f"{name}: {vector}" for vector in lost]
        if wrong:
            raise Failed("other bytes:\n" + "\n".join(wrong[:20]))
        print(f"{time.monotonic() - begun:.0f} seconds")
    except Failed as failure:
        print(f"round_trip: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
