//! The evidence profile.
#![no_main]

use firstnan_core::Profile;
use firstnan_fuzz::check;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(bytes) = check(data, Profile::Evidence) {
        assert!(bytes.iter().all(|byte| (0x20..0x7f).contains(byte)), "not printable ASCII");
    }
});
