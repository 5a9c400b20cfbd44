//! What both profiles promise, with `serde_json` as the other opinion.

use firstnan_core::canonical::canonicalize;
use firstnan_core::{Error, ErrorKind, Profile};
use serde_json::Value;

/// Canonical bytes of the input, after checking that they are a fixed point and that another parser agrees on both the
/// acceptance and the value.
///
/// # Panics
///
/// Where a promise is broken: that is the finding.
pub fn check(data: &[u8], profile: Profile) -> Result<Vec<u8>, Error> {
    let theirs = serde_json::from_slice::<Value>(data);
    let answer = canonicalize(data, profile);
    match (&answer, theirs) {
        (Ok(bytes), Ok(value)) => {
            let again = serde_json::from_slice(bytes).expect("canonical bytes are JSON");
            assert_eq!(normal(value), normal(again), "the value changed");
        }
        (Ok(bytes), Err(error)) => {
            // They stop at 128 levels and have no lone surrogates.
            let lone_surrogate = profile == Profile::Evidence && bytes.windows(3).any(|three| three == b"\\ud");
            assert!(lone_surrogate || error.to_string().contains("recursion limit"), "they refuse: {error}");
        }
        (Err(error), Ok(_)) => {
            let not_json = [ErrorKind::Syntax, ErrorKind::Encoding, ErrorKind::ByteOrderMark, ErrorKind::LoneSurrogate];
            assert!(!not_json.contains(&error.kind()), "they accept, we say: {error}");
        }
        (Err(_), Err(_)) => {}
    }
    match &answer {
        Ok(bytes) => assert_eq!(canonicalize(bytes, profile).as_ref(), Ok(bytes), "not a fixed point"),
        Err(error) => assert!(error.byte_offset().is_some_and(|at| at <= data.len()), "no offset in the text: {error}"),
    }
    answer
}

/// Each float as its bits and `-0` as 0, since canonical text spells numbers anew.
fn normal(value: Value) -> Value {
    match value {
        Value::Number(number) if number.to_string().contains(['.', 'e', 'E']) => {
            number.as_f64().map_or(Value::Null, |float| Value::from(float.to_bits()))
        }
        Value::Number(number) if number.to_string() == "-0" => Value::from(0),
        Value::Array(items) => items.into_iter().map(normal).collect(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, normal(value))).collect(),
        other => other,
    }
}
