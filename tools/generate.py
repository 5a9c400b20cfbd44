"""Makes the code of the records from schemas/v1: Rust, Python, the bundle, and docs/records.md.

    python tools/generate.py            write
    python tools/generate.py --check    write nothing; exit 1 and say which files differ

`--root DIR` works on another checkout. Needs `jsonschema`, `jinja2`, `cel-python` to parse rules, and
`common-expression-language` to run them on the examples.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import cel
import jsonschema
from referencing import Registry, Resource

sys.path.insert(0, str(Path(__file__).parent))
import emit_bundle
import emit_python
from emit_rust import RustEmitter
from schema_model import Model, UnsupportedSchema, load, read_folder

RUST = Path("rust/firstnan-core/src/generated")


def validate(folder: Path, meta: Path) -> None:
    """Each schema against the meta-schema, each example against its schema.

    Raises:
        UnsupportedSchema: one does not hold.
    """
    documents = read_folder(folder)
    registry: Registry[object] = Registry().with_resources(
        (document["$id"], Resource.from_contents(document)) for document in documents.values())
    dialect = jsonschema.Draft202012Validator(json.loads(meta.read_text(encoding="utf-8")))
    for name, document in documents.items():
        if not document["$id"].endswith(f"/v1/{name}"):
            raise UnsupportedSchema(f"{name}: $id does not end with the file's name")
        for error in dialect.iter_errors(document):
            raise UnsupportedSchema(f"{name}: {error.json_path}: {error.message}")
        validator = jsonschema.Draft202012Validator(document, registry=registry)
        for number, example in enumerate(document.get("examples", ())):
            for error in validator.iter_errors(example):
                raise UnsupportedSchema(f"{name}: example {number}: {error.json_path}: {error.message}")


def check_examples(model: Model) -> None:
    """The rules of each kind on its examples, by another CEL engine than the one that compiles them.

    Raises:
        UnsupportedSchema: an example breaks a rule.
    """
    for kind in model.kinds:
        for number, example in enumerate(kind.examples):
            for rule in emit_bundle.rules(model, kind):
                for value in emit_bundle.values_at(example, rule["path"]):
                    if "when" in rule and value.get(rule["when"].split("=")[0]) != rule["when"].split("=")[1]:
                        continue
                    if cel.evaluate(rule["rule"], {"self": value}) is not True:
                        raise UnsupportedSchema(f"{kind.kind}: example {number} breaks the rule {rule['id']}")


def outputs(root: Path) -> dict[Path, str]:
    """Every generated file, by path below `root`."""
    folder, meta = root / "schemas/v1", root / "schemas/meta/record.json"
    validate(folder, meta)
    model = load(folder)
    out = {RUST / name: text for name, text in RustEmitter(model).files().items()}
    check_examples(model)
    out[Path("python/firstnan/_generated/records.py")] = emit_python.emit(model, root / "python/firstnan/_methods.py")
    out[Path("python/firstnan/_generated/decode.pyi")] = emit_python.decode_stub(model)
    out[Path("schemas/bundle.json")] = emit_bundle.emit(model, folder, meta)
    out[Path("docs/records.md")] = emit_python.reference_page(model)
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail where a file would differ")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    arguments = parser.parse_args()
    try:
        made = outputs(arguments.root)
    except UnsupportedSchema as error:
        print(f"generate: {error}", file=sys.stderr)
        return 1
    stale = [path for path in sorted((arguments.root / RUST).glob("*.rs")) if path.relative_to(arguments.root) not in made]
    differing = [path for path, text in made.items()
                 if not (arguments.root / path).is_file() or (arguments.root / path).read_text(encoding="utf-8") != text]
    if arguments.check:
        for path in [*differing, *(path.relative_to(arguments.root) for path in stale)]:
            print(f"generate: {path} is not what the schemas make; run `make generate`", file=sys.stderr)
        return 1 if differing or stale else 0
    for path in stale:
        path.unlink()
    for path in differing:
        (arguments.root / path).parent.mkdir(parents=True, exist_ok=True)
        (arguments.root / path).write_text(made[path], encoding="utf-8")
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
