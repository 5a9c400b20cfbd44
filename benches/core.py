"""The core against a plain-Python implementation of the same contract, and against orjson with hashlib."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import orjson

import firstnan
from measure import Comparison, compare
from reference import canonical, decode, records, triage

PLAIN = "plain Python"
REFERENCE = Path(__file__).resolve().parent.parent / "schemas/vectors/triage/reference.json"


def comparisons() -> Iterator[Comparison]:
    """Each question of the foundation, on the reference incident."""
    case = json.loads(REFERENCE.read_text(encoding="utf-8"))
    message = firstnan.StageMessage(
        "0" * 32, "1" * 64, 3, 7, firstnan.RuntimeStage.ABORTING, firstnan.Vote.ABORT, "OUT_OF_MEMORY"
    )
    payload = message.to_bytes()
    plain_message = decode.stage_message_from_bytes(payload)
    line = json.dumps(case["evidence"]["stages"][3]).encode()
    contract_text, evidence_text = json.dumps(case["contract"]), json.dumps(case["evidence"])
    contract = firstnan.decode("training-incident-contract", contract_text)
    evidence = firstnan.decode("training-run-evidence", evidence_text)
    plain_contract = decode.decode("training-incident-contract", contract_text)
    plain_evidence = decode.decode("training-run-evidence", evidence_text)
    as_json = {name: case["evidence"][name] for name in ("contract_content_id", "evidence_id", "stages")}
    as_records = {**as_json, "stages": evidence.stages}
    plain_as_records = {**as_json, "stages": plain_evidence.stages}
    mapping = json.loads(payload)
    prefix = "training-incident-evidence"

    yield compare("canonical_record(StageMessage)", PLAIN, 15,
                  lambda: firstnan.canonical_record(message), lambda: canonical.canonical_record(plain_message))
    yield compare("contract_digest(StageMessage)", PLAIN, 15,
                  lambda: firstnan.contract_digest(message), lambda: canonical.contract_digest(plain_message))
    yield compare("StageMessage.from_bytes", PLAIN, 12,
                  lambda: firstnan.StageMessage.from_bytes(payload), lambda: decode.stage_message_from_bytes(payload))
    yield compare("decode of a telemetry line", PLAIN, 6,
                  lambda: firstnan.decode("stage-telemetry", line), lambda: decode.decode("stage-telemetry", line))
    yield compare("triage_training_incident", PLAIN, 20,
                  lambda: firstnan.triage_training_incident(contract, evidence),
                  lambda: triage.triage_training_incident(plain_contract, plain_evidence))
    yield compare("content_id(payload of dicts)", PLAIN, 15,
                  lambda: firstnan.content_id(prefix, as_json), lambda: canonical.content_id(prefix, as_json))
    yield compare("content_id(payload of records)", PLAIN, 15,
                  lambda: firstnan.content_id(prefix, as_records),
                  lambda: canonical.content_id(prefix, plain_as_records, records.RECORDS_OF_EVIDENCE))
    yield compare("contract_digest(dict)", "orjson, hashlib", 1,
                  lambda: firstnan.contract_digest(mapping),
                  lambda: hashlib.sha256(orjson.dumps(mapping, option=orjson.OPT_SORT_KEYS)).hexdigest())
