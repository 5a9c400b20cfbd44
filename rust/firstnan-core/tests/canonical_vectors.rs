//! Every vector of `schemas/vectors/canonical`.

use std::fs;
use std::path::Path;

use firstnan_core::canonical::{canonicalize, canonicalize_bounded, write_float};
use firstnan_core::{Profile, digest};
use serde_json::Value;

fn vectors(name: &str) -> Vec<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/vectors/canonical").join(name);
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let cases: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(cases.len() >= 300, "{name}: {} cases", cases.len());
    cases
}

fn text<'v>(case: &'v Value, field: &str) -> &'v str {
    case[field].as_str().unwrap_or_else(|| panic!("{case}: no {field}"))
}

#[test]
fn record_profile() {
    for case in vectors("record-profile.jsonl") {
        let name = text(&case, "case");
        let input = text(&case, "text").as_bytes();
        let answer = match case["max_bytes"].as_u64() {
            Some(max_bytes) => canonicalize_bounded(input, usize::try_from(max_bytes).unwrap()),
            None => canonicalize(input, Profile::Record),
        };
        match (case["accept"].as_bool().unwrap(), answer) {
            (true, Ok(bytes)) => {
                assert_eq!(digest::sha256_hex(&bytes), text(&case, "sha256"), "{name}");
                if let Some(canonical) = case["canonical"].as_str() {
                    assert_eq!(std::str::from_utf8(&bytes).unwrap(), canonical, "{name}");
                }
                assert_eq!(canonicalize(&bytes, Profile::Record).unwrap(), bytes, "{name}: a second time");
            }
            (false, Err(error)) => assert!(error.byte_offset().is_some_and(|at| at <= input.len()), "{name}: {error}"),
            (accept, answer) => panic!("{name}: accept {accept}, got {answer:?}"),
        }
    }
}

#[test]
fn evidence_profile() {
    for case in vectors("evidence-profile.jsonl") {
        let name = text(&case, "case");
        let bytes = canonicalize(text(&case, "text").as_bytes(), Profile::Evidence).unwrap();
        assert_eq!(std::str::from_utf8(&bytes).unwrap(), text(&case, "canonical"), "{name}");
        assert_eq!(canonicalize(&bytes, Profile::Evidence).unwrap(), bytes, "{name}: a second time");
        if let Some(id) = case["content_id"].as_str() {
            assert_eq!(digest::content_id("vector", &bytes), id, "{name}");
        }
    }
}

#[test]
fn float_text() {
    for case in vectors("float64-text.jsonl") {
        let bits = u64::from_str_radix(text(&case, "bits"), 16).unwrap();
        let mut out = Vec::new();
        write_float(f64::from_bits(bits), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), text(&case, "text"), "{case}");
    }
}
