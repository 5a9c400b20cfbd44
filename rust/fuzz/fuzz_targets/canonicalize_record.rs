//! The record profile, and that its bytes are those of the evidence profile in another spelling.
#![no_main]

use firstnan_core::Profile;
use firstnan_core::canonical::{canonicalize, canonicalize_bounded};
use firstnan_fuzz::check;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(bytes) = check(data, Profile::Record) {
        let evidence = canonicalize(data, Profile::Evidence).expect("the evidence profile takes more");
        assert!(evidence.is_ascii());
        assert_eq!(canonicalize(&evidence, Profile::Record).as_ref(), Ok(&bytes));
        assert_eq!(canonicalize_bounded(data, bytes.len()).as_ref(), Ok(&bytes));
        assert!(canonicalize_bounded(data, bytes.len() - 1).is_err());
    }
});
