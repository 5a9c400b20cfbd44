"""The second implementation passes the vectors too; else comparing with it would show nothing."""

import json
import struct
from hashlib import sha256
from pathlib import Path

import pytest

from reference import canonical, decode, lifecycle, records, triage
from reference.text import Refused

VECTORS = Path(__file__).resolve().parent.parent / "schemas/vectors"


def cases(path):
    return [json.loads(line) for line in (VECTORS / path).read_text(encoding="utf-8").splitlines()]


def attempt(function, *arguments, **options):
    try:
        return function(*arguments, **options)
    except (Refused, TypeError):
        return None


@pytest.mark.parametrize("kind", sorted(path.stem for path in (VECTORS / "records").glob("*.jsonl")))
def test_records(kind):
    for case in cases(f"records/{kind}.jsonl"):
        record = attempt(decode.decode, kind, case["text"])
        assert (record is not None) == case["accept"], case
        if record is not None:
            evidence = type(record) in records.RECORDS_OF_EVIDENCE
            out = (canonical.canonical_evidence if evidence else canonical.canonical_record)(records.plain(record))
            assert out == case["canonical"].encode()
            assert case.get("content_id") in (None, getattr(record, "content_id", None))


def test_messages_on_the_wire():
    for case in cases("wire/stage-message.jsonl"):
        message = attempt(decode.stage_message_from_bytes, bytes.fromhex(case["hex"]))
        assert (message is not None) == case["accept"], case
        assert message is None or canonical.contract_digest(message) == case["sha256"]


@pytest.mark.parametrize("profile", ["record", "evidence"])
def test_canonical_bytes(profile):
    for case in cases(f"canonical/{profile}-profile.jsonl"):
        if "max_bytes" in case:
            out = attempt(canonical.canonical_record, json.loads(case["text"]), max_bytes=case["max_bytes"])
        else:
            out = attempt(canonical.canonicalize, case["text"], profile=profile)
        assert (out is not None) == case["accept"], case
        if out is not None:
            assert case.get("canonical", out.decode()) == out.decode()
            assert case.get("sha256", "") in sha256(out).hexdigest()


def test_float_text():
    for case in cases("canonical/float64-text.jsonl"):
        (value,) = struct.unpack(">d", bytes.fromhex(case["bits"]))
        assert canonical.canonical_evidence(value).decode() == case["text"]


def test_verdicts():
    def judge(case):
        contract = decode.decode("training-incident-contract", case["contract"])
        return triage.triage_training_incident(contract, decode.decode("training-run-evidence", case["evidence"]))

    for case in cases("triage/triage.jsonl"):
        report = attempt(judge, case)
        assert (report is not None) == case["accept"], case
        assert report is None or records.plain(report) == case["report"]


def test_lifecycle():
    for case in cases("lifecycle/advance.jsonl"):
        pair = records.RuntimeStage(case["current"]), records.RuntimeStage(case["requested"])
        assert (attempt(lifecycle.advance_stage, *pair) is not None) == case["accept"], case
    for case in cases("lifecycle/inventory-consensus.jsonl"):
        identity = decode.build(records.RunIdentity, case["identity"])
        ranks = tuple(decode.build(records.RankInventory, one) for one in case["inventories"])
        try:
            lifecycle.validate_inventory_consensus(identity, ranks)
        except Refused:
            assert not case["accept"], case
        else:
            assert case["accept"], case
