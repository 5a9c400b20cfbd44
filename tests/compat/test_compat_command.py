"""tools/compat.py as it is run: exit codes, words, JSON; and the tree is compatible with what was released."""

import json
import shutil
import subprocess
import sys

import pytest
from compat_changes import RELEASED, ROOT, bundle, documents


def run(*arguments):
    command = [sys.executable, str(ROOT / "tools/compat.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def narrowed(tmp_path):
    docs = documents()
    docs["common"]["$defs"]["rank"]["maximum"] = 7
    path = tmp_path / "new.json"
    path.write_text(json.dumps(bundle(docs)))
    return path


@pytest.mark.parametrize("new", ["schemas/bundle.json", "schemas/v1"])
def test_the_tree_breaks_nothing_that_was_released(new):
    result = run(RELEASED, ROOT / new)
    assert result.returncode == 0, result.stdout
    assert result.stdout.splitlines()[-1].startswith("compatible")


def test_breaking(narrowed):
    result = run(RELEASED, narrowed)
    assert result.returncode == 1
    line, *_, last = result.stdout.splitlines()
    assert line == "logical-placement /rank: maximum narrowed: breaks writers: old writers may write what lies between"
    assert last.startswith("breaks writers: ")
    assert result.stderr == ""


def test_json(narrowed):
    result = run(RELEASED, narrowed, "--json")
    assert result.returncode == 1
    answer = json.loads(result.stdout)
    assert answer["compatible"] is False
    assert {"kind": "logical-placement", "path": "/rank", "change": "maximum narrowed", "breaks": ["writers"],
            "why": "old writers may write what lies between"} in answer["changes"]  # fmt: skip
    assert json.loads(run(RELEASED, RELEASED, "--json").stdout) == {"compatible": True, "changes": []}


def test_misuse(tmp_path):
    (tmp_path / "no.json").write_text("{")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "empty").mkdir()
    shutil.copy(RELEASED, tmp_path / "empty/bundle.json")
    for other in ("missing.json", "no.json", "list.json", "empty", ""):
        result = run(RELEASED, tmp_path / other)
        assert result.returncode == 2, other
        assert result.stderr.startswith("compat: "), result.stderr
        assert "Traceback" not in result.stderr
    assert run(RELEASED).returncode == 2


def test_make_lint_compares_with_what_was_released():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    lint = makefile.split("\nlint:")[1].split("\n\n")[0]
    assert "tools/compat.py" in lint
