"""The generator refuses what it does not compile, and its output is what stands in the tree."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from cel_to_rust import compile_rule  # noqa: E402
from schema_model import UnsupportedSchema, load  # noqa: E402

TEXT = {"description": "x", "type": "string", "maxLength": 64}
INTEGER = {"description": "x", "type": "integer", "minimum": 0}
MODEL = load(ROOT / "schemas/v1")


def generate(root, *arguments):
    command = [sys.executable, str(ROOT / "tools/generate.py"), "--root", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path):
    for part in ("schemas/v1", "schemas/meta", "docs", "python/firstnan/_generated", "rust/firstnan-core/src/generated"):
        shutil.copytree(ROOT / part, tmp_path / part)
    shutil.copy(ROOT / "schemas/bundle.json", tmp_path / "schemas/bundle.json")
    shutil.copy(ROOT / "python/firstnan/_methods.py", tmp_path / "python/firstnan/_methods.py")
    return tmp_path


def edit(copy, change):
    path = copy / "schemas/v1/topology-plan.json"
    schema = json.loads(path.read_text())
    change(schema)
    path.write_text(json.dumps(schema))


def test_the_tree_is_what_the_schemas_make(copy):
    assert generate(copy, "--check").returncode == 0


@pytest.mark.parametrize("path", ["docs/records.md", "schemas/bundle.json", "python/firstnan/_generated/records.py",
                                  "rust/firstnan-core/src/generated/stage_message.rs"])
def test_check_names_a_file_that_was_edited(copy, path):
    (copy / path).write_text((copy / path).read_text() + "\n")
    result = generate(copy, "--check")
    assert result.returncode == 1
    assert path in result.stderr


def test_check_names_a_file_that_no_schema_makes(copy):
    (copy / "rust/firstnan-core/src/generated/left_over.rs").write_text("")
    assert "left_over.rs" in generate(copy, "--check").stderr


@pytest.mark.parametrize(("change", "words"), [
    (lambda s: s["properties"]["backend"].update(contentEncoding="base64"), "contentEncoding"),
    (lambda s: s.update(patternProperties={}), "patternProperties"),
    (lambda s: s["properties"]["backend"].pop("enum"), "type None"),
    (lambda s: s["properties"]["backend"].pop("description"), "description"),
    (lambda s: s.update(additionalProperties=True), "False was expected"),
    (lambda s: s["x-firstnan-order"].pop(), "same fields"),
    (lambda s: s["required"].pop(), "same fields"),
    (lambda s: s.update({"x-firstnan-profile": "yaml"}), "yaml"),
    (lambda s: s["examples"][0].update(world_size=1), "example 0"),
    (lambda s: s.update({"$id": "https://firstnan.example/schemas/v1/other.json"}), "$id"),
    (lambda s: s["properties"].update(placement_plan_digest={**TEXT, "pattern": "^[0-9a-f]{64}$"}), "pattern"),
    (lambda s: s["properties"].update(world_size={**INTEGER, "maximum": 2**63}), "64 bits"),
    (lambda s: s["x-firstnan-rules"].append({"id": "x", "rule": "self.backend.matches('a')", "message": "m"}), "matches"),
    (lambda s: s["x-firstnan-rules"].append({"id": "x", "rule": "self.", "message": "m"}), "not CEL"),
    (lambda s: s["x-firstnan-rules"].append({"id": "x", "rule": "self.backend == 'gloo'", "message": "m"}), "breaks the rule x"),
    (lambda s: s["properties"].update(world_size=INTEGER), "64 bits"),
    (lambda s: s["properties"].update(world_size={"description": "x", "type": "number", "minimum": 0}), "integers only"),
    (lambda s: s.update(title="topology plan"), "name of a class"),
    (lambda s: s["properties"].update(backend={"description": "x", "type": "string"}), "maxLength is missing"),
])  # fmt: skip
def test_what_is_not_compiled_stops_the_generator(copy, change, words):
    edit(copy, change)
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    result = generate(copy)
    assert result.returncode == 1
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert before == {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}


def test_the_schema_that_the_readme_shows_is_whole(copy):
    block = (ROOT / "schemas/README.md").read_text().split("```json\n")[1].split("```")[0]
    (copy / "schemas/v1/gradient-norm.json").write_text(block)
    result = generate(copy)
    assert result.returncode == 0, result.stderr
    assert "class GradientNorm" in (copy / "python/firstnan/_generated/records.py").read_text()


def test_a_file_that_is_not_json_is_named(copy):
    (copy / "schemas/v1/broken.json").write_text("{")
    result = generate(copy)
    assert result.returncode == 1
    assert "broken.json: not JSON" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("rule", [
    "self.rank < self.world_size",  # numbers that are not converted
    "int(self.rank) < 1.0",
    "int(self.rank) + 1.0 > 2.0",
    "self.kind == 'column-wise'",  # not a value of the list
    "self.unknown == 1",
    "other.rank == 1",
    "self.rank == null",  # never null
    "int(self.logical_name) == 1",
    "self.logical_name < 'a'",
    "int(self.rank)",  # not a boolean
    "{'a': 1}.a == 1",
    "self.logical_name.size() == 1",
    "has(self.rank)",
    "int(self.rank) in [1, 2]",
    "1u == 1u",
    "self.global_shape.map(x, int(x)) == [1]",
])  # fmt: skip
def test_rules_outside_the_subset_are_refused(rule):
    with pytest.raises(UnsupportedSchema):
        compile_rule(MODEL, MODEL.records["LogicalPlacement"], "x", rule)


@pytest.mark.parametrize("rule", [
    "self.global_shape.all(x, int(x) > 0) && self.global_shape.exists_one(x, int(x) == 4)",
    "self.shard_dim == null ? self.kind == 'replicated' : int(self.shard_dim) < 2",
    "!(int(self.rank) % 2 == 0) || double(self.rank) / 2.0 >= 0.5",
    "size(self.global_shape) == 2 && int(self.global_shape[size(self.global_shape) - 1]) * 2 > -4",
    "self.logical_name != 'x'",
])  # fmt: skip
def test_rules_inside_the_subset_compile(rule):
    assert "self." in compile_rule(MODEL, MODEL.records["LogicalPlacement"], "x", rule)
