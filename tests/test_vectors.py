"""The package on every vector of schemas/vectors."""

import json
import struct
from hashlib import sha256
from pathlib import Path

import pytest

import firstnan
from firstnan import ContractError, RuntimeStage
from firstnan.schema_files import bundle_text

VECTORS = Path(__file__).resolve().parent.parent / "schemas/vectors"
KINDS = sorted(path.stem for path in (VECTORS / "records").glob("*.jsonl"))
OF_KIND = sorted([*VECTORS.glob("records/*.jsonl"), *VECTORS.glob("kinds/*.jsonl")], key=lambda path: path.stem)
BUNDLE = json.loads(bundle_text())


def cases(path):
    lines = (VECTORS / path).read_text(encoding="utf-8").splitlines()
    assert len(lines) > 100
    return [json.loads(line) for line in lines]


def refusal(function, *arguments, **options):
    """The ContractError of a call; anything else fails the test."""
    with pytest.raises(ContractError) as caught:
        function(*arguments, **options)
    error = caught.value
    assert error.layer in ("shape", "rule", "wire")
    assert isinstance(error.kind, str)
    assert isinstance(error.pointer, str)
    return error


def test_there_is_a_file_for_each_record_of_the_contract():
    assert len(KINDS) == 7


def test_every_kind_has_a_file():
    """A new one: `python conformance/python/mutate.py schemas/bundle.json schemas/vectors` writes it."""
    assert {path.stem for path in OF_KIND} == BUNDLE["x-firstnan-kinds"].keys()


@pytest.mark.parametrize("path", OF_KIND, ids=lambda path: path.stem)
def test_every_layer_of_a_kind_is_tried(path):
    kind, seen = path.stem, set()
    for case in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        if case["accept"]:
            encoded = firstnan.encode(firstnan.decode(kind, case["text"]))
            assert encoded == case["canonical"].encode(), case
            assert sha256(encoded).hexdigest() == case["sha256"], case
            seen.add("none")
        else:
            with pytest.raises(ContractError) as refused:
                firstnan.decode(kind, case["text"])
            assert refused.value.layer == "wire" or not case["wire_only"], case
            seen.add(refused.value.layer)
    assert seen == {"none", "shape", "wire"} | ({"rule"} if BUNDLE["x-firstnan-kinds"][kind]["rules"] else set())


@pytest.mark.parametrize("kind", KINDS)
def test_records(kind):
    for case in cases(f"records/{kind}.jsonl"):
        if not case["accept"]:
            error = refusal(firstnan.decode, kind, case["text"])
            assert error.record == kind, case
            assert error.layer == "wire" or not case["wire_only"], case
            continue
        for data in (case["text"], case["text"].encode()):
            record = firstnan.decode(kind, data)
            encoded = firstnan.encode(record)
            assert encoded == case["canonical"].encode(), case
            assert sha256(encoded).hexdigest() == case["sha256"], case
        canonical = firstnan.canonical_record if kind in ("run-identity", "rank-inventory", "topology-plan",
                                                          "logical-placement", "stage-message") else firstnan.canonical_evidence
        assert canonical(record) == encoded, case
        assert canonical(json.loads(case["text"])) == encoded, case
        # Members of enum fields cannot be given as plain strings, so the constructor is tried on the record's own values.
        assert type(record)(*(getattr(record, field) for field in record.__dataclass_fields__)) == record
        if "content_id" in case:
            assert record.content_id == firstnan.content_id(kind, json.loads(case["text"])) == case["content_id"], case


def test_messages_on_the_wire():
    for case in cases("wire/stage-message.jsonl"):
        payload = bytes.fromhex(case["hex"])
        if case["accept"]:
            message = firstnan.StageMessage.from_bytes(payload)
            assert message.to_bytes() == payload
            assert firstnan.contract_digest(message) == case["sha256"], case
        else:
            refusal(firstnan.StageMessage.from_bytes, payload)


@pytest.mark.parametrize("profile", ["record", "evidence"])
def test_canonical_bytes(profile):
    for case in cases(f"canonical/{profile}-profile.jsonl"):
        text, bound = case["text"], case.get("max_bytes")
        options = {} if bound is None else {"max_bytes": bound}
        canonical = firstnan.canonical_evidence if profile == "evidence" else firstnan.canonical_record
        if not case["accept"]:
            if bound is None:
                refusal(firstnan.canonicalize, text, profile=profile)
            try:
                value = json.loads(text, object_pairs_hook=pairs)
            except ValueError:
                continue
            refusal(canonical, value, **options)
            continue
        out = canonical(json.loads(text), **options)
        if bound is None:
            assert firstnan.canonicalize(text, profile=profile) == firstnan.canonicalize(text.encode(), profile=profile) == out
        if "canonical" in case:
            assert out == case["canonical"].encode(), case
        if "sha256" in case:
            assert sha256(out).hexdigest() == case["sha256"], case
        if "content_id" in case:
            assert firstnan.content_id("vector", json.loads(text)) == case["content_id"], case


def pairs(members):
    if len({name for name, _ in members}) != len(members):
        raise ValueError("a name twice")
    return dict(members)


def test_float_text():
    for case in cases("canonical/float64-text.jsonl"):
        (value,) = struct.unpack(">d", bytes.fromhex(case["bits"]))
        assert firstnan.canonical_evidence(value).decode() == case["text"] == repr(value)


def test_verdicts():
    for case in cases("triage/triage.jsonl"):
        try:
            contract = firstnan.decode("training-incident-contract", case["contract"])
            evidence = firstnan.decode("training-run-evidence", case["evidence"])
            report = firstnan.triage_training_incident(contract, evidence)
        except ContractError:
            assert not case["accept"], case
            continue
        assert case["accept"], case
        assert json.loads(firstnan.encode(report)) == case["report"], case


def test_the_reference_incident():
    reference = json.loads((VECTORS / "triage/reference.json").read_text())
    contract = firstnan.decode("training-incident-contract", json.dumps(reference["contract"]))
    evidence = firstnan.decode("training-run-evidence", json.dumps(reference["evidence"]))
    assert contract.content_id == reference["contract_content_id"]
    stages = iter(evidence.stages)
    again = firstnan.TrainingRunEvidence.capture(evidence_id=evidence.evidence_id, contract=contract, stages=stages)
    assert again == evidence
    assert evidence.evidence_content_id.endswith("9e972d95a21289528822637d157b32eee66be582d614bc2ed5d4beb6e08ffcc9")
    assert json.loads(firstnan.encode(firstnan.triage_training_incident(contract, evidence))) == reference["report"]


def test_every_pair_of_states():
    pairs_seen = set()
    for case in cases("lifecycle/advance.jsonl"):
        current, requested = RuntimeStage(case["current"]), RuntimeStage(case["requested"])
        pairs_seen.add((current, requested))
        if case["accept"]:
            assert firstnan.advance_stage(current, requested) is requested
        else:
            refusal(firstnan.advance_stage, current, requested)
    assert len(pairs_seen) == 169


def test_inventory_consensus():
    for case in cases("lifecycle/inventory-consensus.jsonl"):
        identity = firstnan.decode("run-identity", json.dumps(case["identity"]))
        inventories = tuple(firstnan.decode("rank-inventory", json.dumps(one)) for one in case["inventories"])
        for order in (inventories, inventories[::-1]):
            if case["accept"]:
                assert firstnan.validate_inventory_consensus(identity, order) is None
            else:
                refusal(firstnan.validate_inventory_consensus, identity, order)
