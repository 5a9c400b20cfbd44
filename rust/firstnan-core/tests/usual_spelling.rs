//! The quick way to read a record takes what it should, and says of nothing what the careful way would not.

use std::fs;
use std::path::Path;

use firstnan_core::{AnyRecord, FieldType, KIND_TYPES, KINDS, RecordInfo, kind_index};
use serde_json::Value;

fn quickly(kind: usize, text: &str) -> Option<Vec<u8>> {
    AnyRecord::decode_quickly(kind, text.as_bytes()).map(|record| record.encode().unwrap())
}

/// Two blanks after a brace are never usual.
fn carefully(kind: usize, text: &str) -> Option<Vec<u8>> {
    let text = text.replacen('{', "{  ", 1);
    assert_eq!(quickly(kind, &text), None);
    AnyRecord::decode(kind, text.as_bytes()).ok().map(|record| record.encode().unwrap())
}

/// The canonical texts that the vectors accept, by kind.
fn accepted() -> Vec<(usize, Vec<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/vectors");
    let texts = |kind: &str| {
        let file = ["kinds", "records"].map(|folder| root.join(folder).join(format!("{kind}.jsonl")));
        let text = fs::read_to_string(file.iter().find(|file| file.exists()).unwrap_or_else(|| panic!("{kind}"))).unwrap();
        let cases = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let accepted = cases.filter(|case| case["accept"] == Value::Bool(true));
        accepted.map(|case| case["canonical"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all: Vec<_> = KINDS.iter().map(|kind| (kind_index(kind).unwrap(), texts(kind))).collect();
    assert!(all.iter().all(|(_, texts)| !texts.is_empty()));
    all
}

/// A value of the record's type with members in the order of the schema, `comma` and `colon` between.
fn in_schema_order(value: &Value, of: &FieldType, comma: &str, colon: &str, out: &mut String) {
    match (of, value) {
        (_, Value::Null) => out.push_str("null"),
        (FieldType::Optional(inner), _) => in_schema_order(value, inner, comma, colon, out),
        (FieldType::Array(inner), Value::Array(items)) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { comma } else { "" });
                in_schema_order(item, inner, comma, colon, out);
            }
            out.push(']');
        }
        (FieldType::Record(info), _) => members(value, info, comma, colon, out),
        (FieldType::Union(infos), Value::Object(object)) => {
            let same = |info: &&&RecordInfo| {
                info.fields.len() == object.len() && info.fields.iter().all(|field| object.contains_key(field.name))
            };
            // Records of a union may have the same names, and then the same order.
            members(value, infos.iter().find(same).unwrap(), comma, colon, out);
        }
        _ => out.push_str(&value.to_string()),
    }
}

fn members(value: &Value, info: &RecordInfo, comma: &str, colon: &str, out: &mut String) {
    for (index, field) in info.fields.iter().enumerate() {
        out.push_str(if index > 0 { comma } else { "{" });
        out.extend(["\"", field.name, "\"", colon]);
        in_schema_order(&value[field.name], &field.kind, comma, colon, out);
    }
    out.push('}');
}

#[test]
fn the_usual_spellings_are_taken() {
    for (kind, texts) in accepted() {
        let long = |text: &str| text.split(|c: char| !c.is_ascii_digit()).any(|digits| (19..64).contains(&digits.len()));
        for text in texts.iter().filter(|text| !text.contains('\\') && !long(text)) {
            let careful = carefully(kind, text);
            assert!(careful.is_some(), "{text}");
            assert_eq!(quickly(kind, text), careful, "{text}");
            let value: Value = serde_json::from_str(text).unwrap();
            for (comma, colon) in [(",", ":"), (", ", ": "), (",", ": ")] {
                let mut ordered = String::new();
                in_schema_order(&value, &KIND_TYPES[kind], comma, colon, &mut ordered);
                assert_eq!(quickly(kind, &ordered), careful, "{ordered}");
            }
        }
    }
}

#[test]
fn what_is_taken_is_what_the_careful_way_reads() {
    let (mut taken, mut refused) = (0, 0);
    for (kind, texts) in accepted() {
        for text in texts.iter().take(1).filter(|text| text.len() < 1_000) {
            for place in 0..text.len() {
                for other in ["", " ", "\"", "\\", "0", "-0", "9", ".5", "}", ",", "é", "\t"] {
                    // Put before the byte, and in its place.
                    for rest in [place, place + 1] {
                        let (Some(before), Some(rest)) = (text.get(..place), text.get(rest..)) else { continue };
                        let mutant = format!("{before}{other}{rest}");
                        let careful = carefully(kind, &mutant);
                        match quickly(kind, &mutant) {
                            None => refused += 1,
                            quick => {
                                taken += 1;
                                assert_eq!(quick, careful, "{mutant}");
                            }
                        }
                    }
                }
                let cut = text.get(..place).unwrap_or_default();
                assert_eq!(quickly(kind, cut), None);
            }
        }
    }
    assert!(taken > 10_000 && refused > 50_000, "{taken} taken, {refused} refused");
}
