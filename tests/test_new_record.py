"""A new record needs a schema file and nothing else: one is added to a copy, generated, built and decoded."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STEP, REAL = {"$ref": "common.json#/$defs/step"}, {"$ref": "common.json#/$defs/real"}
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "https://firstnan.example/schemas/v1/loss-window.json",
    "title": "LossWindow",
    "description": "The losses of a window of steps; a test adds it.",
    "type": "object",
    "properties": {
        "run_id": {"$ref": "common.json#/$defs/identifier", "description": "The run."},
        "mood": {"description": "How it goes.", "enum": ["calm", "rising"]},
        "steps": {"description": "Steps.", "type": "array", "minItems": 1, "maxItems": 4, "items": STEP},
        "losses": {"description": "Losses, one a step.", "type": "array", "maxItems": 4, "items": REAL},
        "last": {"$ref": "stage-telemetry.json", "description": "The last telemetry."},
        "note": {"description": "Words.", "anyOf": [{"type": "string", "maxLength": 8}, {"type": "null"}], "default": None},
    },
    "required": ["run_id", "mood", "steps", "losses", "last", "note"],
    "additionalProperties": False,
    "x-firstnan-profile": "evidence",
    "x-firstnan-order": ["run_id", "mood", "steps", "losses", "last", "note"],
    "x-firstnan-rules": [
        {"id": "one-loss-a-step", "rule": "size(self.steps) == size(self.losses)", "message": "there must be one loss a step"},
        {"id": "same-run", "rule": "self.last.run_id == self.run_id", "message": "last must be of the run"},
        {"id": "rising", "rule": "self.mood != 'rising' || self.losses.exists(x, double(x) > 1.0)", "message": "none is above 1"},
    ],
}
PROBE = """
import json, sys, firstnan
from firstnan import LossWindow
example = json.loads(sys.argv[1])
record = firstnan.decode("loss-window", sys.argv[1])
assert record == LossWindow(**{**example, "steps": (1, 2), "losses": (1, 2.5), "last": record.last})
assert type(record.losses[0]) is int and type(record.losses[1]) is float
assert firstnan.decode("loss-window", firstnan.encode(record)) == record
for change, pointer, bound in (({"losses": [1]}, "", "one-loss-a-step"), ({"run_id": "other"}, "", "same-run"),
                               ({"losses": [0.5, 1.0]}, "", "rising"), ({"steps": [1, -1]}, "/steps/1", "0"),
                               ({"note": "123456789"}, "/note", "8"), ({"mood": "grim"}, "/mood", "calm, rising")):
    try:
        firstnan.decode("loss-window", json.dumps({**example, **change}))
    except firstnan.ContractError as error:
        assert (error.pointer, error.bound) == (pointer, bound), (change, error.pointer, error.bound)
    else:
        raise AssertionError(change)
print("decoded", firstnan.__file__)
"""


def test_a_schema_file_is_all_that_a_new_record_needs(tmp_path):
    telemetry = json.loads((ROOT / "schemas/v1/stage-telemetry.json").read_text())["examples"][0]
    example = {"run_id": telemetry["run_id"], "mood": "rising", "steps": [1, 2], "losses": [1, 2.5]}
    example |= {"last": telemetry, "note": None}
    copy = tmp_path / "copy"
    crates = ("rust/firstnan-core", "rust/firstnan-ingest", "rust/firstnan-python")
    for part in (*crates, "schemas/v1", "schemas/meta", "python/firstnan", "docs"):
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("*.so", "__pycache__", "schemas"))
    for name in ("Cargo.toml", "Cargo.lock", "pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(ROOT / name, copy / name)
    (copy / "schemas/v1/loss-window.json").write_text(json.dumps({**SCHEMA, "examples": [example]}, indent=2))

    def run(*command, **extra):
        subprocess.run(command, cwd=copy, check=True, env={**os.environ, **extra})

    run(sys.executable, str(ROOT / "tools/generate.py"), "--root", str(copy))
    # Shared with `cargo test`, so that the dependencies are built once.
    run(sys.executable, "-m", "maturin", "build", "--profile", "dev", "--quiet", "--out", str(tmp_path / "wheels"),
        CARGO_TARGET_DIR=str(ROOT / "target"))
    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    assert (tmp_path / "site/firstnan/schemas/v1/loss-window.json").is_file()
    result = subprocess.run([sys.executable, "-c", PROBE, json.dumps(example)], cwd=tmp_path, check=True, text=True,
                            capture_output=True, env={**os.environ, "PYTHONPATH": str(tmp_path / "site")})
    assert str(tmp_path / "site") in result.stdout
