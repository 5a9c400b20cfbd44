//! Finds the end of the plain part of a string, eight bytes at a time.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// The high bit of each byte that equals `byte`; bits above the lowest one set may be false.
const fn equal(word: u64, byte: u8) -> u64 {
    let zero = word ^ (ONES * byte as u64);
    zero.wrapping_sub(ONES) & !zero & HIGHS
}

/// The high bit of each byte below 0x20; bits above the lowest one set may be false.
const fn control(word: u64) -> u64 {
    word.wrapping_sub(ONES * 0x20) & !word & HIGHS
}

/// Does this byte end the plain part of a string? With `PRINTABLE`, everything outside printable ASCII does.
const fn is_special<const PRINTABLE: bool>(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\' || (PRINTABLE && byte >= 0x7f)
}

/// The high bit of each byte that ends the plain part of a string; bits above the lowest one set may be false.
#[inline]
pub(crate) const fn special_in_word<const PRINTABLE: bool>(word: u64) -> u64 {
    if PRINTABLE {
        // A byte from 0x80 up is special itself, so none of these needs to leave it out.
        let quote = (word ^ (ONES * b'"' as u64)).wrapping_sub(ONES);
        let backslash = (word ^ (ONES * b'\\' as u64)).wrapping_sub(ONES);
        (quote | backslash | word.wrapping_sub(ONES * 0x20) | word.wrapping_add(ONES) | word) & HIGHS
    } else {
        equal(word, b'"') | equal(word, b'\\') | control(word)
    }
}

/// The index of the first `"`, `\`, byte below 0x20, or with `PRINTABLE` byte from 0x7f up, else the length.
#[inline]
pub(crate) fn plain_end<const PRINTABLE: bool>(bytes: &[u8], from: usize) -> usize {
    let mut index = from;
    while let Some(chunk) = bytes.get(index..).and_then(<[u8]>::first_chunk::<8>) {
        let found = special_in_word::<PRINTABLE>(u64::from_le_bytes(*chunk));
        if found != 0 {
            return index + (found.trailing_zeros() / 8) as usize;
        }
        index += 8;
    }
    while index < bytes.len() && !is_special::<PRINTABLE>(bytes[index]) {
        index += 1;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pair of byte values at every place in and around a word, against the plain loop.
    #[test]
    fn agrees_with_a_loop_over_bytes() {
        for length in [1, 7, 8, 9, 16, 19] {
            for place in 0..length {
                for pair in 0..=u16::MAX {
                    let mut bytes = [b'a'; 19];
                    bytes[place] = pair.to_be_bytes()[0];
                    bytes[(place + 1) % length] = pair.to_be_bytes()[1];
                    let bytes = &bytes[..length];
                    let loose = bytes.iter().position(|&b| is_special::<false>(b));
                    let printable = bytes.iter().position(|&b| is_special::<true>(b));
                    assert_eq!(plain_end::<false>(bytes, 0), loose.unwrap_or(length));
                    assert_eq!(plain_end::<true>(bytes, 0), printable.unwrap_or(length));
                }
            }
        }
    }
}
