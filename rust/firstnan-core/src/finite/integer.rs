//! Integers and booleans: finite by nature, with a magnitude.

use super::contiguous::PART_BYTES;
use super::counts::Counts;
use super::machine::ask_ahead;

macro_rules! signed {
    ($name:ident, $word:ty) => {
        /// Two's complement in the low `bits` bits.
        #[inline(always)]
        #[allow(clippy::inline_always, reason = "compiled once for each width of vectors")]
        pub fn $name<const N: usize>(bytes: &[u8], load: impl Fn([u8; N]) -> $word, bits: u32) -> Counts {
            let unused = <$word>::BITS - bits;
            let (mut least, mut most): ($word, $word) = (0, 0);
            for part in bytes.as_chunks::<N>().0.chunks(PART_BYTES / N) {
                ask_ahead(part);
                let values = part.iter().map(|&word| load(word) << unused >> unused);
                (least, most) = values.fold((least, most), |(least, most), x| (least.min(x), most.max(x)));
            }
            counted(bytes.len() / N, u64::from(least.unsigned_abs().max(most.unsigned_abs())))
        }
    };
}

macro_rules! unsigned {
    ($name:ident, $word:ty) => {
        /// The low `bits` bits.
        #[inline(always)]
        #[allow(clippy::inline_always, reason = "compiled once for each width of vectors")]
        pub fn $name<const N: usize>(bytes: &[u8], load: impl Fn([u8; N]) -> $word, bits: u32) -> Counts {
            let mask = <$word>::MAX >> (<$word>::BITS - bits);
            let mut most: $word = 0;
            for part in bytes.as_chunks::<N>().0.chunks(PART_BYTES / N) {
                ask_ahead(part);
                most = part.iter().fold(most, |most, &word| most.max(load(word) & mask));
            }
            counted(bytes.len() / N, u64::from(most))
        }
    };
}

signed!(count_i8, i8);
signed!(count_i16, i16);
signed!(count_i32, i32);
signed!(count_i64, i64);
unsigned!(count_u8, u8);
unsigned!(count_u16, u16);
unsigned!(count_u32, u32);
unsigned!(count_u64, u64);

/// One byte a value, true unless zero.
#[inline(always)]
#[allow(clippy::inline_always, reason = "compiled once for each width of vectors")]
pub fn count_bool(bytes: &[u8]) -> Counts {
    counted(bytes.len(), u64::from(bytes.iter().fold(0, |any, byte| any | byte) != 0))
}

fn counted(checked: usize, largest: u64) -> Counts {
    // Rounding keeps the order of integers, so the largest may be rounded first and compared later.
    #[allow(clippy::cast_precision_loss, reason = "to nearest, as documented")]
    let rounded = largest as f64;
    Counts { checked: checked as u64, maximum_absolute_finite: rounded, ..Counts::default() }
}
