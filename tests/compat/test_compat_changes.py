"""Change by change: whom tools/compat.py says it breaks, with a record that the real validators tell apart."""

import copy
import sys

import pytest
from compat_changes import ROOT, add_field, documents, remove_field
from compat_validators import Validators

sys.path.insert(0, str(ROOT / "tools"))
from schema_difference import compare
from schema_shape import Schemas, UnreadableSchemas

TELEMETRY = "stage-telemetry"
TEXT = {"description": "x", "type": "string", "maxLength": 8}


def telemetry(**changes):
    record = {**documents()[TELEMETRY]["examples"][0], **changes}
    return {name: value for name, value in record.items() if value is not Ellipsis}


def field(name, **keywords):
    """Replaces the schema of a telemetry's field."""
    return lambda docs: docs[TELEMETRY]["properties"].__setitem__(name, {"description": "x", **keywords})


def of(kind, change):
    return lambda docs: change(docs[kind])


def rules(change):
    return lambda docs: change(docs[TELEMETRY]["x-firstnan-rules"])


def common(name, **keywords):
    return lambda docs: docs["common"]["$defs"][name].update(keywords)


WHOLE = {"type": "integer", "minimum": 0}
CASES = {
    # What changes; whom it breaks; a record that only the new schemas take; one that only the old ones take.
    "field added at the end": (of(TELEMETRY, lambda s: add_field(s, "note", TEXT)), "readers writers",
                               telemetry(note="a"), telemetry()),
    "field added first": (of(TELEMETRY, lambda s: add_field(s, "note", TEXT, 0)), "callers readers writers",
                          telemetry(note="a"), telemetry()),
    "optional field added": (of(TELEMETRY, lambda s: s["properties"].update(note=TEXT)), "readers", telemetry(note="a"), None),
    "field removed": (of(TELEMETRY, lambda s: remove_field(s, "owner")), "callers readers writers",
                      telemetry(owner=...), telemetry()),
    "field no longer required": (of(TELEMETRY, lambda s: s["required"].remove("owner")), "readers", telemetry(owner=...), None),
    "no longer closed": (of(TELEMETRY, lambda s: s.update(additionalProperties=True)), "readers", telemetry(more=1), None),
    "maximum widened": (field("stage_order", **WHOLE, maximum=5), "readers", telemetry(stage_order=5), None),
    "maximum narrowed": (field("stage_order", **WHOLE, maximum=3), "writers", None, telemetry(stage_order=4)),
    "maximum excluded": (field("loss_scale", type="number", exclusiveMinimum=0, exclusiveMaximum=2), "writers",
                         None, telemetry(loss_scale=2.0)),
    "same bound, written otherwise": (field("stage_order", type="integer", exclusiveMinimum=-1, exclusiveMaximum=5),
        "", None, None),
    "shared bound widened": (common("element_count", maximum=10**11), "readers",
                             telemetry(checked_elements=10**11, finite_elements=10**11), None),
    "shared length narrowed": (common("identifier", maxLength=64), "writers", None, telemetry(run_id="a" * 128)),
    "shortest text widened": (common("identifier", minLength=0), "readers", None, None),
    "value added": (common("stage_name", enum=["input", "forward", "loss", "backward", "optimizer", "data"]), "readers",
                    telemetry(stage="data"), None),
    "value removed": (common("stage_name", enum=["forward", "loss", "backward", "optimizer"]), "writers", None, telemetry()),
    "values in another order": (common("stage_name", enum=["optimizer", "backward", "loss", "forward", "input"]), "", None, None),
    "list of values became text": (field("state", type="string", maxLength=16), "readers", telemetry(state="PAUSED"), None),
    "text became a list of values": (field("precision", enum=["bf16"]), "writers", None, telemetry()),
    "integer became number": (field("stage_order", type="number", minimum=0, maximum=4), "readers",
        telemetry(stage_order=1.5), None),
    "number became integer": (field("loss_scale", type="integer", minimum=1, maximum=9), "writers", None,
        telemetry(loss_scale=0.5)),
    "text became integer": (field("run_id", **WHOLE, maximum=9), "readers writers", telemetry(run_id=1), telemetry()),
    "null added": (field("stage_order", **{**WHOLE, "type": ["integer", "null"]}, maximum=4), "readers",
                   telemetry(stage_order=None), None),
    "null added by anyOf": (field("owner", anyOf=[{"$ref": "common.json#/$defs/owner"}, {"type": "null"}]), "readers",
                            telemetry(owner=None), None),
    "null removed": (of("incident-report", lambda s: s["properties"].update(earliest_nonfinite_stage={
        "$ref": "common.json#/$defs/stage_name"})), "writers", None, None),
    "pattern changed": (common("identifier", pattern="^[a-z0-9]"), "readers writers", None, telemetry(run_id="A")),
    "pattern removed": (of("common", lambda s: s["$defs"]["identifier"].pop("pattern")), "readers", telemetry(run_id=".a"), None),
    "pattern added": (common("name", pattern="^[a-z]"), "writers", None, None),
    "forbidden set removed": (of("common", lambda s: s["$defs"]["identifier"].pop("not")), "readers",
        telemetry(run_id="a b"), None),
    "rule added": (rules(lambda all: all.append({"id": "early", "rule": "int(self.step_id) < 5", "message": "x"})), "writers",
                   None, telemetry()),
    "rule removed": (rules(lambda all: all.pop(0)), "readers", telemetry(checked_elements=0, finite_elements=0), None),
    "rule changed": (rules(lambda all: all[0].update(rule="int(self.checked_elements) < 9")), "readers writers",
                     telemetry(checked_elements=0, finite_elements=0), telemetry()),
    "rule renamed": (rules(lambda all: all[0].update(id="other", message="other words")), "", None, None),
    "fewer items": (of("training-run-evidence", lambda s: s["properties"]["stages"].update(maxItems=6)), "readers", None, None),
    "more items": (of("training-run-evidence", lambda s: s["properties"]["stages"].update(minItems=6, maxItems=6)),
        "readers writers",
                   None, None),
    "variant removed": (of("worker-event", lambda s: s["oneOf"].pop()), "writers", None, None),
    "variant added": (of("worker-event", lambda s: (s["$defs"].update(paused={
        **copy.deepcopy(s["$defs"]["failed"]), "properties": {**s["$defs"]["failed"]["properties"],
        "event": {"const": "paused"}}}),
        s["oneOf"].append({"$ref": "#/$defs/paused"}))), "readers", None, None),
    "bound in a variant": (of("worker-event", lambda s: s["$defs"]["failed"]["properties"]["message"].update(maxLength=1001)),
                           "readers", None, None),
    "profile changed": (of("topology-plan", lambda s: s.update({"x-firstnan-profile": "evidence"})), "identities", None, None),
    "order changed": (of(TELEMETRY, lambda s: s["x-firstnan-order"].reverse()), "callers", None, None),
    "class renamed": (of(TELEMETRY, lambda s: s.update(title="Telemetry")), "callers", None, None),
    "moved": (of(TELEMETRY, lambda s: s.update({"$id": s["$id"] + "#"})), "callers", None, None),
    "words changed": (of(TELEMETRY, lambda s: s.update(description="Other words.", examples=[])), "", None, None),
    "reference written out": (lambda docs: field("run_id", **docs["common"]["$defs"]["identifier"])(docs), "", None, None),
    "kind removed": (lambda docs: docs.pop("topology-plan"), "writers", None, None),
    "kind added": (lambda docs: docs.update({"other": {**docs["topology-plan"], "$id": "https://firstnan.example/o",
        "title": "O"}}),
                   "", None, None),
    "a keyword nobody knows": (field("run_id", type="string", contentEncoding="base64"), "readers writers", None, None),
}  # fmt: skip


def changed(change):
    docs = documents()
    change(docs)
    return docs


def breaks(before, after):
    return sorted({whom for each in compare(Schemas(before), Schemas(after)) for whom in each.breaks})


@pytest.mark.parametrize("name", CASES)
def test_change(name):
    change, expected, only_new, only_old = CASES[name]
    before, after = documents(), changed(change)
    assert before != after
    assert breaks(before, after) == expected.split()
    old, new = Validators(before), Validators(after)
    if only_new is not None:
        assert new.is_valid(TELEMETRY, only_new)
        assert not old.is_valid(TELEMETRY, only_new)
    if only_old is not None:
        assert old.is_valid(TELEMETRY, only_old)
        assert not new.is_valid(TELEMETRY, only_old)


BACK = {"readers": "writers", "writers": "readers"}


@pytest.mark.parametrize("name", sorted(set(CASES) - {"kind added", "kind removed"}))
def test_the_way_back_breaks_the_others(name):
    """What widens for one narrows for the other; identities and callers break both ways."""
    change, expected, *_ = CASES[name]
    shapes = {BACK[whom] for whom in expected.split() if whom in BACK}
    assert {whom for whom in breaks(changed(change), documents()) if whom in BACK} == shapes


def test_a_nested_change_is_found_in_each_record_that_holds_it():
    findings = compare(Schemas(documents()), Schemas(changed(CASES["maximum widened"][0])))
    assert [(each.kind, each.path) for each in findings] == [
        (TELEMETRY, "/stage_order"), ("training-run-evidence", "/stages/*/stage_order")]  # fmt: skip


def test_defaults():
    docs = documents()
    docs[TELEMETRY]["properties"]["owner"]["default"] = "team:a"
    other = copy.deepcopy(docs)
    other[TELEMETRY]["properties"]["owner"]["default"] = "team:b"
    assert breaks(documents(), docs) == []
    assert breaks(docs, other) == breaks(docs, documents()) == ["callers"]


@pytest.mark.parametrize("reference", ["#", "common.json#/$defs/nothing", "nothing.json"])
def test_references_that_lead_nowhere_or_back(reference):
    docs = documents()
    docs[TELEMETRY]["properties"]["owner"] = {"$ref": reference}
    with pytest.raises(UnreadableSchemas):
        compare(Schemas(docs), Schemas(docs))
