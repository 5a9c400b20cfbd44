"""Makes the types of the records for other languages, in types/, with a generator of each language.

    python tools/generate_types.py [--check] [LANGUAGE...]

`--check` writes nothing; it exits 1 and says which files differ. Needs node and npm, go, mvn with a JDK, and cargo for the
languages asked for: typescript, go, java, rust. The generators and their versions stand in tools/type_generators/.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import emit_kinds
import types_spelling
from schema_model import UnsupportedSchema, load
from types_input import Declarations, Schema
from types_input import declarations as read_declarations

TOOLS = Path(__file__).resolve().parent
ROOT = TOOLS.parent
SCRATCH = ROOT / "out/types"
JAVA = "java/src/main/java/example/firstnan"


class Failed(Exception):
    """A generator is missing or ended with an error, in words for whoever reads it."""


def command(arguments: list[str], folder: Path, **environment: str) -> str:
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, env=os.environ | environment, check=False)
    if done.returncode != 0:
        raise Failed(f"`{' '.join(arguments)}` ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def typescript(folder: Path, schema: Path) -> dict[str, str]:
    command(["npm", "ci", "--no-audit", "--no-fund", "--silent"], folder)
    # --no-additionalProperties: records are closed. The banner and the notes on where a type is used say nothing here.
    options = ["--unreachableDefinitions", "--no-additionalProperties", "--bannerComment", f"// {emit_kinds.MARK}"]
    text = command(["node_modules/.bin/json2ts", *options, "--input", str(schema)], folder)
    used = r"\n \*\n \* This interface was referenced by `Declarations`'s JSON-Schema\n \* via the `definition` \"\w+\"\."
    root = r"\nexport interface Declarations \{\n\}\n"
    return {"typescript/records.d.ts": re.sub(root, "", re.sub(used, "", text))}


def go(folder: Path, schema: Path) -> dict[str, str]:
    # --only-models: the checks that it can write are some of the contract's, and a validator does them all.
    options = ["--only-models", "--tags", "json", "--struct-name-from-title", "--package", "firstnan"]
    return {"go/records.go": command(["go", "tool", "go-jsonschema", *options, str(schema)], folder)}


def rust(folder: Path, schema: Path) -> dict[str, str]:
    target = str(SCRATCH / "generator")
    text = command(["cargo", "run", "--locked", "--quiet", "--", str(schema)], folder, CARGO_TARGET_DIR=target)
    return {"rust/src/records.rs": f"// {emit_kinds.MARK}\n\n{text.strip()}\n"}


def java(folder: Path, schema: Path) -> dict[str, str]:
    made = SCRATCH / "java"
    shutil.rmtree(made, ignore_errors=True)
    command(["mvn", "--quiet", "--batch-mode", "generate-sources", f"-Dinput={schema}", f"-Doutput={made}"], folder)
    paths = sorted((made / "example/firstnan").glob("*.java"))
    return {f"{JAVA}/{path.name}": path.read_text(encoding="utf-8") for path in paths}


@dataclass(frozen=True)
class Language:
    """The tools that a language's generator needs; how it runs; what it reads; where emit_kinds.py's part goes."""

    tools: tuple[str, ...]
    generate: Callable[[Path, Path], dict[str, str]]
    spell: Callable[[Declarations], Schema]
    kinds: tuple[str, Callable[[Declarations], str]]


LANGUAGES = {
    "typescript": Language(("node", "npm"), typescript, types_spelling.typescript, ("kinds.d.ts", emit_kinds.typescript)),
    "go": Language(("go",), go, types_spelling.go, ("kinds.go", emit_kinds.go)),
    "java": Language(("mvn", "javac"), java, types_spelling.java, (f"{JAVA}/Kinds.java".removeprefix("java/"), emit_kinds.java)),
    "rust": Language(("cargo",), rust, types_spelling.rust, ("src/kinds.rs", emit_kinds.rust)),
}


def made_by(name: str, declarations: Declarations) -> dict[str, str]:
    """Every generated file of a language, by path below types/.

    Raises:
        Failed: a tool is missing, or the generator ended with an error.
    """
    language = LANGUAGES[name]
    for tool in language.tools:
        if shutil.which(tool) is None:
            raise Failed(f"{name}: `{tool}` is missing")
    schema = SCRATCH / f"{name}.json"
    schema.write_text(json.dumps(language.spell(declarations), indent=1), encoding="utf-8")
    path, emit = language.kinds
    return language.generate(TOOLS / "type_generators" / name, schema) | {f"{name}/{path}": emit(declarations)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail where a file would differ")
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help=", ".join(LANGUAGES))
    arguments = parser.parse_args()
    if unknown := set(arguments.languages) - set(LANGUAGES):
        parser.error(f"no such language: {', '.join(sorted(unknown))}")
    SCRATCH.mkdir(parents=True, exist_ok=True)
    names = arguments.languages or list(LANGUAGES)
    try:
        declared = read_declarations(load(ROOT / "schemas/v1"))
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            parts = list(pool.map(lambda name: made_by(name, declared), names))
    except (Failed, UnsupportedSchema) as error:
        print(f"generate_types: {error}", file=sys.stderr)
        return 1
    made = {path: text for part in parts for path, text in part.items()}
    differing = {path: text for path, text in made.items()
                 if not (ROOT / "types" / path).is_file() or (ROOT / "types" / path).read_text(encoding="utf-8") != text}
    # The generator of Java makes a file a type; the file of one that is gone would stay.
    present = sorted((ROOT / "types" / JAVA).glob("*.java")) if "java" in names else []
    stale = [path for path in present if generated(path) and f"{JAVA}/{path.name}" not in made]
    if arguments.check:
        for name in [*(f"types/{path}" for path in differing), *(str(path.relative_to(ROOT)) for path in stale)]:
            print(f"generate_types: {name} is not what the schemas make; run `make generate-types`", file=sys.stderr)
        return 1 if differing or stale else 0
    for each in stale:
        each.unlink()
    for path, text in differing.items():
        (ROOT / "types" / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / "types" / path).write_text(text, encoding="utf-8")
        print(f"wrote types/{path}")
    return 0


def generated(path: Path) -> bool:
    return path.read_text(encoding="utf-8").startswith("// Generated")


if __name__ == "__main__":
    sys.exit(main())
