//! Every vector of `schemas/vectors` that is about records, triage and lifecycle.

use std::fs;
use std::path::Path;

use firstnan_core::{
    AnyRecord, ErrorKind, IncidentReport, Layer, RankInventory, Record, RunIdentity, StageMessage, TopologyPlan,
    TrainingIncidentContract, TrainingRunEvidence, digest, kind_index, lifecycle, triage,
};
use serde_json::Value;

fn vectors(path: &str) -> Vec<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/vectors").join(path);
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let cases: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(cases.len() > 100, "{path}: {} cases", cases.len());
    cases
}

fn text<'v>(case: &'v Value, field: &str) -> &'v str {
    case[field].as_str().unwrap_or_else(|| panic!("{case}: no {field}"))
}

#[test]
fn records() {
    for kind in [
        "training-incident-contract",
        "stage-telemetry",
        "run-identity",
        "rank-inventory",
        "topology-plan",
        "logical-placement",
        "stage-message",
    ] {
        let index = kind_index(kind).unwrap();
        for case in vectors(&format!("records/{kind}.jsonl")) {
            let data = text(&case, "text").as_bytes();
            let answer = AnyRecord::decode(index, data).and_then(|record| record.encode());
            match (case["accept"].as_bool().unwrap(), answer) {
                (true, Ok(bytes)) => {
                    assert_eq!(std::str::from_utf8(&bytes).unwrap(), text(&case, "canonical"), "{case}");
                    assert_eq!(digest::sha256_hex(&bytes), text(&case, "sha256"), "{case}");
                    if let Some(id) = case["content_id"].as_str() {
                        assert_eq!(digest::content_id(kind, &bytes), id, "{case}");
                    }
                }
                (false, Err(error)) => {
                    assert_eq!(error.record(), Some(kind));
                    if case["wire_only"] == Value::Bool(true) {
                        assert_eq!(error.layer(), Layer::Wire, "{case}: {error}");
                    }
                }
                (accept, answer) => panic!("{case}: accept {accept}, got {answer:?}"),
            }
        }
    }
}

#[test]
fn messages_on_the_wire() {
    for case in vectors("wire/stage-message.jsonl") {
        let hex = text(&case, "hex");
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
        let canonical = StageMessage::decode(&bytes).and_then(|message| message.encode());
        let accepted = canonical.is_ok_and(|canonical| canonical == bytes);
        assert_eq!(accepted, case["accept"].as_bool().unwrap(), "{case}");
        if accepted {
            assert_eq!(digest::sha256_hex(&bytes), text(&case, "sha256"), "{case}");
        }
    }
}

#[test]
fn verdicts() {
    for case in vectors("triage/triage.jsonl") {
        let report = TrainingIncidentContract::decode(text(&case, "contract").as_bytes()).and_then(|contract| {
            let evidence = TrainingRunEvidence::decode(text(&case, "evidence").as_bytes())?;
            triage::triage(&contract, &evidence)?.encode()
        });
        assert_eq!(report.is_ok(), case["accept"].as_bool().unwrap(), "{case}: {report:?}");
        if let Ok(report) = report {
            let expected = case["report"].to_string();
            let expected = IncidentReport::decode(expected.as_bytes()).unwrap().encode().unwrap();
            assert_eq!(report, expected, "{case}");
        }
    }
}

#[test]
fn consensus() {
    for case in vectors("lifecycle/inventory-consensus.jsonl") {
        let identity = case["identity"].to_string();
        let identity = RunIdentity::decode(identity.as_bytes()).unwrap();
        let texts: Vec<String> = case["inventories"].as_array().unwrap().iter().map(ToString::to_string).collect();
        let inventories: Result<Vec<RankInventory>, _> = texts.iter().map(|one| RankInventory::decode(one.as_bytes())).collect();
        let answer = inventories.and_then(|all| lifecycle::check_inventory_consensus(&identity, &all));
        assert_eq!(answer.is_ok(), case["accept"].as_bool().unwrap(), "{case}: {answer:?}");
    }
}

#[test]
fn the_lowest_layer_is_reported() {
    let index = kind_index("topology-plan").unwrap();
    let digest = "0".repeat(64);
    let at = |world: &str, rank: &str, backend: &str| {
        let text = format!(
            r#"{{"world_size":{world},"coordinator_rank":{rank},"backend":"{backend}","placement_plan_digest":"{digest}"}}"#
        );
        AnyRecord::decode(index, text.as_bytes()).unwrap_err()
    };
    assert_eq!(at("8.0", "1", "gloo").kind(), ErrorKind::IntegerForm);
    assert_eq!(at("8.0", "9", "gloo").kind(), ErrorKind::Rule);
    assert_eq!(at("8.0", "9", "mpi").kind(), ErrorKind::Enum);
    assert_eq!(at("1", "0", "gloo").bound_text(), Some("2"));
    assert_eq!(at("1", "0", "gloo").pointer(), "/world_size");
}

#[test]
fn a_record_built_by_hand_is_checked_before_it_is_encoded() {
    let case = &vectors("records/topology-plan.jsonl")[0];
    let plan = TopologyPlan::decode(text(case, "text").as_bytes()).unwrap();
    assert!(plan.encode().is_ok());
    let forged = TopologyPlan { placement_plan_digest: "\"".repeat(64).into(), ..plan.clone() };
    assert_eq!(forged.encode().unwrap_err().pointer(), "/placement_plan_digest");
    let forged = TopologyPlan { coordinator_rank: plan.world_size, ..plan };
    assert_eq!(forged.encode().unwrap_err().kind(), ErrorKind::Rule);
}

#[test]
fn a_wire_fault_names_its_field() {
    let evidence =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/incident/evidence.json")).unwrap();
    let fault = |from: &str, to: &str| TrainingRunEvidence::decode(evidence.replacen(from, to, 1).as_bytes()).unwrap_err();
    let error = fault("\"stage_order\": 2", "\"stage_order\": 2.0");
    assert_eq!((error.kind(), error.pointer()), (ErrorKind::IntegerForm, "/stages/2/stage_order"));
    let error = fault("\"stage_order\": 3", "\"stage_order\": 3, \"stage_order\": 3");
    assert_eq!((error.kind(), error.pointer()), (ErrorKind::DuplicateName, "/stages/3/stage_order"));
    let error = fault("\"evidence_id\":", "\"evidence_id\": \"x\", \"evidence_id\":");
    assert_eq!((error.kind(), error.pointer()), (ErrorKind::DuplicateName, "/evidence_id"));
}
