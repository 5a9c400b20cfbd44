//! Unsigned words as memory holds them, and the key by which one pass over a block finds its largest magnitude.
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss, reason = "bits, no numbers")]
#![allow(clippy::inline_always, reason = "compiled once for each width of vectors")]

use super::contiguous::BLOCK_BYTES;

/// An unsigned word of 8, 16, 32 or 64 bits.
///
/// `Key` orders magnitudes (words with a clear sign bit) by a comparison that plain SSE2 has: signed 16 and 32 bits,
/// unsigned 8. Of a 64-bit word it is the high half, which decides whether it is finite.
pub trait Word: Copy + Ord + Into<u64> + From<bool> {
    /// What a block's pass compares.
    type Key: Copy + Ord;
    /// The key below all others.
    const LOWEST: Self::Key;
    /// How many ones a word can add up, as a multiple of all vectors; a block of wider words has fewer.
    const LANE: usize;
    /// The word of a value that fits.
    fn narrow(value: u64) -> Self;
    /// The bits that both have.
    #[must_use]
    fn and(self, mask: Self) -> Self;
    /// The sum, which must not overflow.
    #[must_use]
    fn add(self, other: Self) -> Self;
    /// A value below 2^32 as a number.
    #[inline(always)]
    fn small(self) -> u32 {
        self.into() as u32
    }
    /// The key of a magnitude.
    fn key(self) -> Self::Key;
    /// The largest magnitude of a block whose largest key is `peak`.
    fn exact(magnitudes: impl Iterator<Item = Self>, peak: Self::Key) -> Self;
}

macro_rules! word {
    ($word:ty, $key:ty, $unkey:ty) => {
        impl Word for $word {
            type Key = $key;
            const LOWEST: $key = 0;
            const LANE: usize = if size_of::<$word>() == 1 { 128 } else { BLOCK_BYTES };

            #[inline(always)]
            fn narrow(value: u64) -> Self {
                value as Self
            }
            #[inline(always)]
            fn and(self, mask: Self) -> Self {
                self & mask
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn key(self) -> $key {
                self as $key
            }
            #[inline(always)]
            fn exact(_: impl Iterator<Item = Self>, peak: $key) -> Self {
                peak as $unkey
            }
        }
    };
}

word!(u8, u8, u8);
word!(u16, i16, u16);
word!(u32, i32, u32);

impl Word for u64 {
    type Key = i32;
    const LOWEST: i32 = 0;
    const LANE: usize = BLOCK_BYTES;

    #[inline(always)]
    fn narrow(value: u64) -> Self {
        value
    }
    #[inline(always)]
    fn and(self, mask: Self) -> Self {
        self & mask
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn key(self) -> i32 {
        (self >> 32) as i32
    }
    #[inline(always)]
    fn exact(magnitudes: impl Iterator<Item = Self>, peak: i32) -> Self {
        // The low halves as signed numbers in the same order, since SSE2 compares no unsigned ones.
        let low =
            magnitudes.map(|word| if word.key() == peak { word as i32 ^ i32::MIN } else { i32::MIN }).fold(i32::MIN, i32::max);
        (u64::from(peak.cast_unsigned()) << 32) | u64::from((low ^ i32::MIN).cast_unsigned())
    }
}
