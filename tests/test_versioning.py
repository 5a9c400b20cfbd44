"""docs/versioning.md as it is run: its code, its commands, and what it says that they answer."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/versioning.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def compat(folder, *arguments):
    command = [sys.executable, "tools/compat.py", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy of the schemas in which the page's Python has run, in order."""
    folder = tmp_path_factory.mktemp("versioning")
    for name in ("schemas", "docs"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "tools").symlink_to(ROOT / "tools")
    assert len(blocks("python")) == 2
    for code in blocks("python"):
        subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
    return folder


def test_the_commands_break_nothing(folder):
    commands = [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines()]
    assert len(commands) == 2
    for line in commands:
        program, script, *arguments = shlex.split(line)
        assert (program, script) == ("python", "tools/compat.py")
        result = compat(folder, *arguments)
        assert result.returncode == 0, result.stdout
    assert result.stdout.startswith("topology-plan-v2: kind added: ")


def test_the_same_field_in_the_record_itself_breaks_both(folder, tmp_path):
    shutil.copytree(folder / "schemas/v1", tmp_path / "edited")
    second = json.loads((folder / "next/topology-plan-v2.json").read_text())
    first = json.loads((folder / "schemas/v1/topology-plan.json").read_text())
    edited = second | {"$id": first["$id"], "title": first["title"]}
    (tmp_path / "edited/topology-plan.json").write_text(json.dumps(edited))
    result = compat(folder, "schemas/v1", str(tmp_path / "edited"))
    assert result.returncode == 1
    assert "topology-plan /observer_rank: field added: breaks readers and writers" in result.stdout


def test_the_generator_makes_both_versions(folder, tmp_path):
    shutil.copytree(folder / "next", tmp_path / "schemas/v1")
    shutil.copytree(folder / "schemas/meta", tmp_path / "schemas/meta")
    (tmp_path / "python/firstnan").mkdir(parents=True)
    shutil.copy(ROOT / "python/firstnan/_methods.py", tmp_path / "python/firstnan/_methods.py")
    generate = [sys.executable, str(ROOT / "tools/generate.py"), "--root", str(tmp_path)]
    subprocess.run(generate, check=True, stdout=subprocess.DEVNULL)
    kinds = json.loads((tmp_path / "schemas/bundle.json").read_text())["x-firstnan-kinds"]
    assert {"topology-plan", "topology-plan-v2"} <= kinds.keys()
    classes = (tmp_path / "python/firstnan/_generated/records.py").read_text()
    assert re.search(r"^class TopologyPlan\b", classes, re.MULTILINE)
    assert re.search(r"^class TopologyPlanV2\b", classes, re.MULTILINE)


def test_a_release_is_what_lint_compares_with(folder):
    (commands,) = blocks("sh")
    subprocess.run(["bash", "-euc", commands], cwd=folder, check=True)
    chosen = re.search(r"tools/compat.py \"\$\$\((.*?)\)bundle.json\"", (ROOT / "Makefile").read_text())[1]
    last = subprocess.run(["bash", "-c", chosen], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()
    assert (folder / last / "bundle.json").read_bytes() == (folder / "schemas/bundle.json").read_bytes()


def test_what_it_says_of_each_change():
    """The examples of the table are cases of tests/compat."""
    cases = (ROOT / "tests/compat/test_compat_changes.py").read_text()
    for words in ("maximum widened", "value added", "rule removed", "maximum narrowed", "value removed", "kind removed",
                  "rule added", "field added at the end", "pattern changed", "rule changed", "profile changed",
                  "class renamed", "order changed", "kind added", "rule renamed", "reference written out"):
        assert f'"{words}":' in cases, words


def test_the_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
