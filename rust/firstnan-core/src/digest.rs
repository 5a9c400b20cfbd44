//! Identities: SHA-256 (FIPS 180-4) of canonical bytes, in lower-case hex.

use sha2::{Digest, Sha256};

/// The two digits of each byte.
const HEX: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut hex = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        hex[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    hex
};

/// SHA-256 of the bytes as 64 ASCII characters, for a caller that wants no allocation.
pub fn sha256_hex_array(bytes: &[u8]) -> [u8; 64] {
    let mut hex = [0; 64];
    for (pair, byte) in hex.chunks_exact_mut(2).zip(Sha256::digest(bytes)) {
        pair.copy_from_slice(&HEX[usize::from(byte)]);
    }
    hex
}

/// SHA-256 of the bytes in lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&sha256_hex_array(bytes)).into_owned()
}

/// `PREFIX@sha256:HEX` over canonical bytes.
pub fn content_id(prefix: &str, canonical: &[u8]) -> String {
    const MARK: &str = "@sha256:";
    let mut identity = String::with_capacity(prefix.len() + MARK.len() + 64);
    identity.push_str(prefix);
    identity.push_str(MARK);
    identity.push_str(std::str::from_utf8(&sha256_hex_array(canonical)).unwrap_or_default());
    identity
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_published_digests() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex(b""), empty);
        assert_eq!(sha256_hex(b"abc"), abc);
        assert_eq!(content_id("vector", b"abc"), format!("vector@sha256:{abc}"));
    }
}
