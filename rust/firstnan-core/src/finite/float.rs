//! Floating-point elements, real and complex, by integer tests of their bits.
#![allow(clippy::cast_possible_truncation, reason = "lengths of blocks")]
#![allow(clippy::needless_bitwise_bool, reason = "no branch, so that loops are vectorised")]
#![allow(clippy::inline_always, reason = "compiled once for each width of vectors")]

use super::contiguous::{BLOCK_BYTES, PART_BYTES};
use super::counts::Counts;
use super::format::FloatLayout;
use super::machine::ask_ahead;
use super::word::Word;

/// The layout's masks as words.
#[derive(Clone, Copy)]
struct Masks<W> {
    magnitude: W,
    sign: W,
    largest: W,
    infinity: Option<W>,
    negative_zero: Option<W>,
}

impl<W: Word> Masks<W> {
    #[inline(always)]
    fn new(layout: &FloatLayout) -> Self {
        Self {
            magnitude: W::narrow(layout.magnitude_mask()),
            sign: W::narrow(layout.sign),
            largest: W::narrow(layout.largest),
            infinity: layout.has_infinity.then(|| W::narrow(layout.largest + 1)),
            negative_zero: layout.nan_is_negative_zero.then(|| W::narrow(layout.sign)),
        }
    }
    #[inline(always)]
    fn is_infinite(&self, word: W) -> bool {
        self.infinity == Some(word.and(self.magnitude))
    }
    #[inline(always)]
    fn is_finite(&self, word: W) -> bool {
        (word.and(self.magnitude).key() <= self.largest.key()) & (self.negative_zero != Some(word))
    }
    #[inline(always)]
    fn is_negative(&self, word: W) -> bool {
        word.and(self.sign) != W::narrow(0)
    }
}

/// Counts elements of `parts` words each, 1 or 2; `load` says what byte order they have.
#[inline(always)]
pub fn count<W: Word, const N: usize>(
    bytes: &[u8],
    load: impl Fn([u8; N]) -> W + Copy,
    layout: &FloatLayout,
    parts: usize,
) -> Counts {
    let masks = Masks::<W>::new(layout);
    let words = bytes.as_chunks::<N>().0;
    let mut counts = Counts { checked: (words.len() / parts) as u64, ..Counts::default() };
    let mut largest = None;
    for (number, block) in words.chunks(BLOCK_BYTES / N).enumerate() {
        let peak = peak(block, load, masks);
        let one_nan = masks.negative_zero.is_some_and(|nan| contains(block, load, nan));
        if peak <= masks.largest.key() && !one_nan {
            if largest.is_none_or(|largest: W| peak >= largest.key()) {
                largest = largest.max(Some(W::exact(block.iter().map(|&word| load(word).and(masks.magnitude)), peak)));
            }
            continue;
        }
        let found = if parts == 1 { classify(block, load, masks) } else { classify_complex(block, load, masks) };
        counts.nan += u64::from(found.nan);
        counts.positive_infinity += u64::from(found.positive);
        counts.negative_infinity += u64::from(found.negative);
        largest = largest.max(found.largest);
        let before = (number * (BLOCK_BYTES / N) / parts) as u64;
        counts.first_nonfinite = counts.first_nonfinite.or_else(|| {
            let inside = block.chunks(parts).position(|element| element.iter().any(|&w| !masks.is_finite(load(w))));
            inside.map(|inside| before + inside as u64)
        });
    }
    // Where no element is finite there is no magnitude; in e8m0 even the pattern 0 would be one.
    counts.maximum_absolute_finite = largest.map_or(0.0, |pattern| layout.decode(pattern.into()));
    counts
}

/// The largest key of a block's magnitudes.
#[inline(always)]
fn peak<W: Word, const N: usize>(block: &[[u8; N]], load: impl Fn([u8; N]) -> W, masks: Masks<W>) -> W::Key {
    let mut peak = W::LOWEST;
    for part in block.chunks(PART_BYTES / N) {
        ask_ahead(part);
        // Reduced by itself, since a reduction over the parts of a block is not vectorised as one.
        peak = peak.max(part.iter().fold(W::LOWEST, |peak, &word| peak.max(load(word).and(masks.magnitude).key())));
    }
    peak
}

/// One branchless pass, so that it is vectorised; only for formats of one byte.
#[inline(always)]
fn contains<W: Word, const N: usize>(block: &[[u8; N]], load: impl Fn([u8; N]) -> W, wanted: W) -> bool {
    block.iter().fold(0, |found, &word| found | u8::from(load(word) == wanted)) != 0
}

struct Found<W> {
    nan: u32,
    positive: u32,
    negative: u32,
    /// Of the finite elements, None where there is none.
    largest: Option<W>,
}

/// One simple loop for each question: the block is in the first-level cache, and each is vectorised.
#[inline(always)]
fn classify<W: Word, const N: usize>(block: &[[u8; N]], load: impl Fn([u8; N]) -> W + Copy, masks: Masks<W>) -> Found<W> {
    // What cannot change is asked outside the loops, for a loop that asks it is not vectorised.
    let below = |word: W| word.and(masks.magnitude).key() <= masks.largest.key();
    let finite = match masks.negative_zero {
        None => number_of(block, load, below),
        Some(nan) => number_of(block, load, |word| below(word) & (word != nan)),
    };
    let (positive, negative) = masks.infinity.map_or((0, 0), |infinity| {
        let significant = masks.magnitude.add(masks.sign);
        let below_zero = infinity.add(masks.sign);
        (
            number_of(block, load, |word| word.and(significant) == infinity),
            number_of(block, load, |word| word.and(significant) == below_zero),
        )
    });
    let largest = (finite > 0).then(|| {
        // The magnitude of a NaN that is -0 is 0, which is above none.
        let finite_or_zero = |&word: &[u8; N]| {
            let magnitude = load(word).and(masks.magnitude);
            if magnitude.key() <= masks.largest.key() { magnitude } else { W::narrow(0) }
        };
        let mut peak = W::LOWEST;
        for word in block {
            peak = peak.max(finite_or_zero(word).key());
        }
        W::exact(block.iter().map(finite_or_zero), peak)
    });
    Found { nan: block.len() as u32 - finite - positive - negative, positive, negative, largest }
}

/// How many words are so, counted in lanes as narrow as a word, which `Word::LANE` of them cannot overflow.
#[inline(always)]
fn number_of<W: Word, const N: usize>(block: &[[u8; N]], load: impl Fn([u8; N]) -> W, is_so: impl Fn(W) -> bool) -> u32 {
    let mut number = 0;
    for part in block.chunks(W::LANE) {
        let mut sum = W::narrow(0);
        for &word in part {
            sum = sum.add(W::from(is_so(load(word))));
        }
        number += sum.small();
    }
    number
}

/// NaN if either part is; else the sign of the first infinite part; the magnitude is the larger of both parts'.
#[inline(always)]
fn classify_complex<W: Word, const N: usize>(block: &[[u8; N]], load: impl Fn([u8; N]) -> W, masks: Masks<W>) -> Found<W> {
    let (mut finite, mut positive, mut negative) = (0_u32, 0_u32, 0_u32);
    let mut largest = W::narrow(0);
    for [real, imaginary] in block.as_chunks::<2>().0 {
        let (real, imaginary) = (load(*real), load(*imaginary));
        let is_finite = masks.is_finite(real) & masks.is_finite(imaginary);
        let (real_is_infinite, imaginary_is_infinite) = (masks.is_infinite(real), masks.is_infinite(imaginary));
        let is_infinite = (real_is_infinite & (imaginary_is_infinite | masks.is_finite(imaginary)))
            | (imaginary_is_infinite & masks.is_finite(real));
        let below_zero = if real_is_infinite { masks.is_negative(real) } else { masks.is_negative(imaginary) };
        finite += u32::from(is_finite);
        positive += u32::from(is_infinite & !below_zero);
        negative += u32::from(is_infinite & below_zero);
        let magnitude = real.and(masks.magnitude).max(imaginary.and(masks.magnitude));
        largest = largest.max(if is_finite { magnitude } else { W::narrow(0) });
    }
    let nan = (block.len() / 2) as u32 - finite - positive - negative;
    Found { nan, positive, negative, largest: (finite > 0).then_some(largest) }
}
