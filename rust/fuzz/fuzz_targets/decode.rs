//! Strict decoding of every kind: what is accepted has one canonical form, and two writers agree on it.
#![no_main]

use firstnan_core::canonical::canonicalize;
use firstnan_core::{AnyRecord, KINDS, Profile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for (index, kind) in KINDS.iter().enumerate() {
        match AnyRecord::decode(index, data) {
            Ok(record) => {
                let bytes = record.encode().expect("a decoded record has a canonical form");
                let again = AnyRecord::decode(index, &bytes).expect("canonical bytes decode");
                assert_eq!(again.encode().as_ref(), Ok(&bytes), "{kind}: not a fixed point");
                let profiles = [Profile::Record, Profile::Evidence];
                let agrees = profiles.iter().any(|profile| canonicalize(data, *profile).as_ref() == Ok(&bytes));
                assert!(agrees, "{kind}: the record's writer and the text's writer differ");
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert!(error.byte_offset().is_none_or(|at| at <= data.len()), "{kind}: {error}");
            }
        }
    }
});
