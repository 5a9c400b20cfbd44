"""Builds and runs the program of each language in this folder, and compares their answers with the package's own.

Usage: python conformance/run.py [LANGUAGE...]

Then it runs the language's section of docs/other-languages.md.

Exits 1 where a tool is missing, a build fails, a vector is left out, or an answer differs in a way that wire_only.json
does not list. Bytes, identities and the final verdict may never differ.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BUILD = ROOT / "out/conformance"
INPUT = [str(ROOT / "schemas/bundle.json"), str(ROOT / "schemas/vectors")]
LAYERS = ("shape", "rule", "valid", "bytes", "identity")
NEVER_WIRE_ONLY = ("valid", "bytes", "identity")


@dataclass(frozen=True)
class Step:
    """A command of a build, left out where its inputs are those of the last time it succeeded."""

    command: list[str]
    inputs: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Stack:
    """One language: the tools it needs, how its program is built, and how it is run.

    `environment` is that of its commands and of those on the page; `page_files` lie in the page's folder beforehand.
    """

    name: str
    tools: list[str]
    build: list[Step]
    run: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    page_files: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return HERE / self.name


STACKS = [
    Stack("node", ["node", "npm"],
          [Step(["npm", "ci", "--no-audit", "--no-fund", "--silent"], ["package.json", "package-lock.json"])],
          ["node", "conform.mjs"]),
    Stack("go", ["go"], [Step(["go", "build", "-mod=readonly", "-o", str(BUILD / "go"), "."])], [str(BUILD / "go")]),
    Stack("java", ["java", "javac", "mvn"], [Step(["mvn", "--batch-mode", "--quiet", "process-classes"])],
          ["java", "-cp", "target/classes:target/lib/*", "firstnan.Conform"]),
    # The page's own program shares what is built here, so it begins with the same lock.
    Stack("rust", ["cargo"], [Step(["cargo", "build", "--quiet", "--locked"])], [str(BUILD / "rust/debug/firstnan-conformance")],
          {"CARGO_TARGET_DIR": str(BUILD / "rust"), "CARGO_PROFILE_DEV_DEBUG": "0"}, ["Cargo.lock"]),
    Stack("python", [], [], [sys.executable, "conform.py"]),
]

Answers = dict[str, dict[str, Any]]


class Failed(Exception):
    """What makes the run end with 1, in words for whoever reads it."""


def command(arguments: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    whole = {**os.environ, **(environment or {})}
    done = subprocess.run(arguments, cwd=folder, env=whole, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shown = f"`{' '.join(arguments)}` ended with {done.returncode}"
        raise Failed(f"{folder.name}: {shown}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def build(stack: Stack) -> None:
    for number, step in enumerate(stack.build):
        stamp = BUILD / f"{stack.name}-{number}.stamp"
        state = hashlib.sha256(str([stack.folder, step.command]).encode())
        for name in step.inputs:
            state.update((stack.folder / name).read_bytes())
        if step.inputs and stamp.is_file() and stamp.read_text() == state.hexdigest():
            continue
        command(step.command, stack.folder, stack.environment)
        stamp.write_text(state.hexdigest())


def parse(name: str, output: str) -> Answers:
    answers: Answers = {}
    for line in output.splitlines():
        answer = json.loads(line)
        if answer["vector"] in answers:
            raise Failed(f"{name}: {answer['vector']} is answered twice")
        answers[answer["vector"]] = answer
    return answers


@dataclass(frozen=True)
class Result:
    """A language's answers, with the seconds of its build, its vectors and its section of the page."""

    answers: Answers
    seconds: dict[str, float]


def answer(stack: Stack) -> Result:
    times = [time.monotonic()]
    build(stack)
    times.append(time.monotonic())
    answers = parse(stack.name, command([*stack.run, *INPUT], stack.folder, stack.environment))
    times.append(time.monotonic())
    run_page(stack)
    times.append(time.monotonic())
    return Result(answers, {name: times[i + 1] - times[i] for i, name in enumerate(("build", "run", "page"))})


def run_page(stack: Stack) -> None:
    with tempfile.TemporaryDirectory(prefix=f"firstnan-{stack.name}-") as folder:
        for name in stack.page_files:
            shutil.copy(stack.folder / name, folder)
        try:
            page.run(stack.name, Path(folder), stack.environment)
        except page.PageFailed as failed:
            raise Failed(f"docs/other-languages.md: {failed}") from None


def differences(name: str, mine: Answers, package: Answers) -> dict[tuple[str, ...], list[str]]:
    """(layer, kind of the package's refusal, package's answer, language's answer) → the vectors."""
    if missing := package.keys() ^ mine.keys():
        raise Failed(f"{name}: {len(missing)} vectors are answered by one side only, such as {sorted(missing)[:3]}")
    found: dict[tuple[str, ...], list[str]] = {}
    for vector, expected in package.items():
        for layer in LAYERS:
            ours, theirs = expected.get(layer), mine[vector].get(layer)
            if ours != theirs or type(ours) is not type(theirs):
                key = (layer, str(expected.get("kind")), json.dumps(ours), json.dumps(theirs))
                found.setdefault(key, []).append(vector)
    return found


def allowed() -> dict[tuple[str, ...], str]:
    """(language, layer, kind, package's answer, language's answer) → the reason."""
    out: dict[tuple[str, ...], str] = {}
    for entry in json.loads((HERE / "wire_only.json").read_text(encoding="utf-8")):
        if entry["layer"] in NEVER_WIRE_ONLY:
            raise Failed(f"wire_only.json: {entry['layer']} may never differ")
        for language in entry["languages"]:
            for kind in entry["kinds"]:
                key = (language, entry["layer"], kind, json.dumps(entry["package"]), json.dumps(entry["answer"]))
                out[key] = entry["reason"]
    return out


def main() -> int:
    try:
        stacks = [stack for stack in STACKS if not sys.argv[1:] or stack.name in sys.argv[1:]]
        if unknown := set(sys.argv[1:]) - {stack.name for stack in stacks}:
            raise Failed(f"no language {', '.join(sorted(unknown))}; there are {', '.join(stack.name for stack in STACKS)}")
        for stack in stacks:
            for tool in stack.tools:
                if shutil.which(tool) is None:
                    raise Failed(f"{stack.name}: `{tool}` is missing")
        BUILD.mkdir(parents=True, exist_ok=True)
        listed = {key: reason for key, reason in allowed().items() if key[0] in {stack.name for stack in stacks}}
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            package_output = pool.submit(command, [sys.executable, "package_answer.py", *INPUT], HERE)
            running = [(stack, pool.submit(answer, stack)) for stack in stacks]
            package = parse("package", package_output.result())
            results = [(stack, job.result()) for stack, job in running]
        wrong, unused = [], set(listed)
        print(f"{len(package)} vectors; how many answers agree / are wire-only / differ")
        print(f"{'':8}" + "".join(f"{layer:>20}" for layer in LAYERS) + "  seconds: build, vectors, page")
        for stack, result in results:
            counts = {layer: [sum(layer in each for each in package.values()), 0, 0] for layer in LAYERS}
            for key, vectors in differences(stack.name, result.answers, package).items():
                known = (stack.name, *key) in listed
                unused.discard((stack.name, *key))
                counts[key[0]][0] -= len(vectors)
                counts[key[0]][1 if known else 2] += len(vectors)
                if not known:
                    wrong.append(f"{stack.name}: {key[0]} of {len(vectors)} vectors: the package ({key[1]}) says {key[2]}, "
                                 f"{stack.name} says {key[3]}: {', '.join(vectors[:5])}")
            cells = "".join("{:>20}".format(" / ".join(map(str, counts[layer]))) for layer in LAYERS)
            print(f"{stack.name:8}{cells}  " + "".join(f"{seconds:>7.1f}" for seconds in result.seconds.values()))
        wrong += [f"wire_only.json: nothing differs as listed: {key}" for key in sorted(unused)]
        if wrong:
            raise Failed("\n".join(wrong))
    except Failed as failure:
        print(f"conformance: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
