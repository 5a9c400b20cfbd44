"""Decoding and checking telemetry lines, against what one would use without the package: a parser and a JSON Schema validator.

The peers stop at a dict that is known to be valid; ours also checks the rules and builds the record.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import jsonschema_rs
import orjson
from referencing import Registry, Resource

import firstnan
from measure import Comparison, compare

ROOT = Path(__file__).resolve().parent.parent
LINES = 50
KIND = "stage-telemetry"


def telemetry_lines() -> list[bytes]:
    """Lines of ten steps of a run, as `json.dumps` writes them."""
    stages = json.loads((ROOT / "schemas/vectors/triage/reference.json").read_text(encoding="utf-8"))["evidence"]["stages"]
    lines = []
    for step, stage in itertools.islice(itertools.product(range(10), stages), LINES):
        line = copy.deepcopy(stage) | {"step_id": stage["step_id"] + step, "batch_id": f"batch-{stage['step_id'] + step}"}
        if line["state"] == "OBSERVED":
            line["maximum_absolute_finite"] = stage["maximum_absolute_finite"] * (1 + step / 7)
        lines.append(json.dumps(line).encode())
    return lines


def comparisons() -> Iterator[Comparison]:
    """Each peer on the same lines, a call for each line in turn."""
    bundle = json.loads((ROOT / "schemas/bundle.json").read_text(encoding="utf-8"))
    schemas = [(schema["$id"], schema) for schema in bundle["$defs"].values()]
    schema = {"$ref": bundle["x-firstnan-kinds"][KIND]["schema"]}
    fast = jsonschema_rs.Draft202012Validator(schema, registry=jsonschema_rs.Registry(schemas))
    registry = Registry().with_resources((name, Resource.from_contents(contents)) for name, contents in schemas)
    plain = jsonschema.Draft202012Validator(registry.contents(schema["$ref"]), registry=registry)
    lines = telemetry_lines()
    for line in lines:
        assert firstnan.decode(KIND, line).step_id == json.loads(line)["step_id"]
        assert fast.is_valid(orjson.loads(line))
        assert plain.is_valid(json.loads(line))
    ours, fast_lines, plain_lines = (itertools.cycle(lines) for _ in range(3))

    yield compare("decode and check a line", "jsonschema-rs", 2,
                  lambda: firstnan.decode(KIND, next(ours)), lambda: fast.is_valid(orjson.loads(next(fast_lines))))
    yield compare("decode and check a line", "jsonschema", 50,
                  lambda: firstnan.decode(KIND, next(ours)), lambda: plain.is_valid(json.loads(next(plain_lines))))
