"""schemas/ needs nothing else: copied elsewhere, programs that share no code with the package decide every vector there."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from hashlib import sha256
from pathlib import Path
from urllib.parse import urljoin

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*arguments, folder):
    done = subprocess.run([sys.executable, "-I", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(ROOT / "schemas", folder / "schemas")
    # -I leaves the program's own folder out of the path, so that nothing of this repository could be found by chance.
    program = "import runpy, sys; sys.path.insert(0, 'python'); sys.argv = ['conform.py', *sys.argv[1:]]; "
    shutil.copytree(ROOT / "conformance/python", folder / "python", ignore=shutil.ignore_patterns("__pycache__"))
    check = "sys.modules['firstnan'] = None; runpy.run_path('python/conform.py', run_name='__main__')"
    return folder, run("-c", program + check, "schemas/bundle.json", "schemas/vectors", folder=folder)


def cases(folder, pattern):
    for path in sorted((folder / "schemas/vectors").glob(pattern)):
        for index, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            case = json.loads(line)
            yield f"{path.parent.name}/{case.get('case', f'{path.stem}-{index}')}", case


def test_every_vector_has_the_answer_beside_it(alone):
    folder, lines = alone
    answers = {line["vector"]: line for line in lines}
    assert len(answers) == len(lines)
    seen = Counter()
    for pattern in ("kinds/*.jsonl", "records/*.jsonl", "wire/*.jsonl"):
        for vector, case in cases(folder, pattern):
            answer = answers[vector]
            assert answer["valid"] is case["accept"], vector
            assert not case["accept"] or answer["bytes"] == case["sha256"], vector
            assert answer["identity"] == case.get("content_id", answer["identity"]), vector
            layers = "shape", "rule", "valid"
            seen[next((layer for layer in layers if answer[layer] is not True), "none")] += 1
    assert all(seen[layer] > 100 for layer in ("none", "shape", "rule", "valid")), seen  # "valid": wrong on the wire only
    for vector, case in cases(folder, "canonical/*-profile.jsonl"):
        assert (answers[vector]["bytes"] is not None) is case["accept"], vector
        digest = case.get("sha256") or ("canonical" in case and sha256(case["canonical"].encode()).hexdigest())
        assert answers[vector]["bytes"] == (digest if case["accept"] else None), vector
        assert answers[vector]["identity"] == case.get("content_id"), vector


def test_every_schema_is_of_the_dialect_that_lies_beside_it(alone):
    folder, lines = alone
    kinds = json.loads((folder / "schemas/bundle.json").read_text(encoding="utf-8"))["x-firstnan-kinds"]
    answers = {line["vector"]: line["shape"] for line in lines if line["vector"].startswith("schema/")}
    assert answers == {f"schema/{kind}": True for kind in kinds}


def test_no_reference_leads_out_of_the_bundle(alone):
    folder, _ = alone
    bundle = json.loads((folder / "schemas/bundle.json").read_text(encoding="utf-8"))
    known = {schema["$id"] for schema in bundle["$defs"].values()}

    def references(value):
        if isinstance(value, dict):
            yield from (each for name, each in value.items() if name == "$ref")
        if isinstance(value, (dict, list)):
            for each in value.values() if isinstance(value, dict) else value:
                yield from references(each)

    found = {urljoin(schema["$id"], each).split("#")[0] for schema in bundle["$defs"].values() for each in references(schema)}
    assert len(found) > 5
    assert found - known <= {bundle["$schema"]}  # which every validator has built in
