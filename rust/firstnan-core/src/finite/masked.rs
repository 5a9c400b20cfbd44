//! Elements of which some are missing, and booleans of one bit, as Arrow has them.

use std::num::NonZeroUsize;

use super::contiguous::{BLOCK_BYTES, count, in_pieces};
use super::counts::Counts;
use super::format::Format;

/// Elements that a thread takes at a time.
const PIECE_ELEMENTS: usize = 1 << 18;

/// Bits in memory, the first of each byte its lowest.
#[derive(Clone, Copy, Debug)]
pub struct Bits<'a> {
    /// Memory that holds them.
    pub bytes: &'a [u8],
    /// The number of the first bit.
    pub offset: usize,
}

impl Bits<'_> {
    fn at(self, index: usize) -> bool {
        let bit = self.offset + index;
        self.bytes[bit / 8] >> (bit % 8) & 1 == 1
    }

    /// Eight bits from `index`, of which those past the end of the memory are 0.
    fn eight(self, index: usize) -> u8 {
        let bit = self.offset + index;
        let low = u16::from(self.bytes[bit / 8]);
        let high = u16::from(self.bytes.get(bit / 8 + 1).copied().unwrap_or(0));
        ((low | high << 8) >> (bit % 8) & 0xFF) as u8
    }

    /// Visits the bits of `range`, eight at a time, with how many of them there are.
    fn each(self, range: std::ops::Range<usize>, mut visit: impl FnMut(usize, u8)) {
        for index in range.clone().step_by(8) {
            let many = (range.end - index).min(8);
            visit(index, self.eight(index) & (0xFF >> (8 - many)));
        }
    }
}

/// As `count_with_threads`, without those whose bit in `valid` is 0, whatever lies there.
///
/// They are not among `checked`, but `first_nonfinite` is the index among all. Memory used: one block a thread.
///
/// # Panics
///
/// Where `bytes` is no whole number of elements, or `valid` holds fewer bits than there are elements.
pub fn count_masked(format: &Format, bytes: &[u8], byte_swapped: bool, valid: Bits<'_>, threads: NonZeroUsize) -> Counts {
    let width = format.width;
    assert!(bytes.len().is_multiple_of(width), "the bytes are no whole number of elements");
    let step = BLOCK_BYTES / width;
    in_pieces(bytes.len() / width, PIECE_ELEMENTS, threads, |from, to| {
        let mut sum = Counts::default();
        let mut block = [0_u8; BLOCK_BYTES];
        for start in (from..to).step_by(step) {
            let end = to.min(start + step);
            let elements = &bytes[start * width..end * width];
            let mut present: u64 = 0;
            valid.each(start..end, |_, bits| present += u64::from(bits.count_ones()));
            let absent = (end - start) as u64 - present;
            // The pattern 0 is finite and no magnitude is below it, so that it stands for what is missing.
            let mut part = if absent == 0 {
                count(format, elements, byte_swapped)
            } else {
                let block = &mut block[..elements.len()];
                block.copy_from_slice(elements);
                for (index, element) in block.chunks_exact_mut(width).enumerate() {
                    if !valid.at(start + index) {
                        element.fill(0);
                    }
                }
                count(format, block, byte_swapped)
            };
            part.checked -= absent;
            part.first_nonfinite = part.first_nonfinite.map(|index| start as u64 + index);
            sum = sum.add(part);
        }
        sum
    })
}

/// Counts booleans of one bit, without those whose bit in `valid` is 0.
///
/// # Panics
///
/// Where `values` or `valid` hold fewer than `length` bits.
pub fn count_bits(values: Bits<'_>, valid: Option<Bits<'_>>, length: usize) -> Counts {
    let (mut checked, mut any) = (0, false);
    values.each(0..length, |index, bits| {
        let among = (0xFF_u8 >> (8 - (length - index).min(8))) & valid.map_or(0xFF, |valid| valid.eight(index));
        checked += u64::from(among.count_ones());
        any |= bits & among != 0;
    });
    Counts { checked, maximum_absolute_finite: f64::from(u8::from(any)), ..Counts::default() }
}
