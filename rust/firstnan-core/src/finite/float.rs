//! Floating-point elements, real and complex, by integer tests of their bits.
#![allow(clippy::cast_possible_truncation, reason = "lengths of blocks")]
#![allow(clippy::needless_bitwise_bool, reason = "no branch, so that loops are vectorised")]

use super::contiguous::BLOCK_BYTES;
use super::counts::Counts;
use super::format::FloatLayout;
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
    fn new(layout: &FloatLayout) -> Self {
        Self {
            magnitude: W::narrow(layout.magnitude_mask()),
            sign: W::narrow(layout.sign),
            largest: W::narrow(layout.largest),
            infinity: layout.has_infinity.then(|| W::narrow(layout.largest + 1)),
            negative_zero: layout.nan_is_negative_zero.then(|| W::narrow(layout.sign)),
        }
    }
}

/// Counts elements of `parts` words each, 1 or 2; `load` says what byte order they have.
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
        let magnitudes = block.iter().map(|&word| load(word).and(masks.magnitude));
        let peak = magnitudes.clone().fold(W::LOWEST, |peak, word| peak.max(word.key()));
        let one_nan = masks.negative_zero.is_some_and(|nan| contains(block, load, nan));
        if peak <= masks.largest.key() && !one_nan {
            if largest.is_none_or(|largest: W| peak >= largest.key()) {
                largest = largest.max(Some(W::exact(magnitudes, peak)));
            }
            continue;
        }
        let found = if parts == 1 { classify(block, load, masks) } else { classify_complex(block, load, masks) };
        counts.nan += u64::from(found.nan);
        counts.positive_infinity += u64::from(found.positive);
        counts.negative_infinity += u64::from(found.negative);
        if found.finite > 0 {
            largest = largest.max(Some(found.largest));
        }
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

/// One branchless pass, so that it is vectorised; only for formats of one byte.
fn contains<W: Word, const N: usize>(block: &[[u8; N]], load: impl Fn([u8; N]) -> W, wanted: W) -> bool {
    block.iter().fold(0, |found, &word| found | u8::from(load(word) == wanted)) != 0
}

struct Found<W> {
    nan: u32,
    positive: u32,
    negative: u32,
    finite: u32,
    largest: W,
}

impl<W: Word> Masks<W> {
    #[inline]
    fn is_infinite(&self, word: W) -> bool {
        self.infinity == Some(word.and(self.magnitude))
    }
    #[inline]
    fn is_finite(&self, word: W) -> bool {
        (word.and(self.magnitude) <= self.largest) & (self.negative_zero != Some(word))
    }
    #[inline]
    fn is_negative(&self, word: W) -> bool {
        word.and(self.sign) != W::narrow(0)
    }
}

fn classify<W: Word, const N: usize>(block: &[[u8; N]], load: impl Fn([u8; N]) -> W, masks: Masks<W>) -> Found<W> {
    let mut found = Found { nan: 0, positive: 0, negative: 0, finite: 0, largest: W::narrow(0) };
    let none = W::narrow(0);
    // Counted in lanes as narrow as the element, which 255 elements cannot overflow.
    for part in block.chunks(255) {
        let (mut finite, mut positive, mut negative) = (none, none, none);
        for &word in part {
            let word = load(word);
            let (is_finite, is_infinite) = (masks.is_finite(word), masks.is_infinite(word));
            let below_zero = masks.is_negative(word);
            finite = finite.add(W::from(is_finite));
            positive = positive.add(W::from(is_infinite & !below_zero));
            negative = negative.add(W::from(is_infinite & below_zero));
            found.largest = found.largest.max(if is_finite { word.and(masks.magnitude) } else { none });
        }
        let [finite, positive, negative] = [finite, positive, negative].map(Word::small);
        found.finite += finite;
        found.positive += positive;
        found.negative += negative;
        found.nan += part.len() as u32 - finite - positive - negative;
    }
    found
}

/// NaN if either part is; else the sign of the first infinite part; the magnitude is the larger of both parts'.
fn classify_complex<W: Word, const N: usize>(block: &[[u8; N]], load: impl Fn([u8; N]) -> W, masks: Masks<W>) -> Found<W> {
    let mut found = Found { nan: 0, positive: 0, negative: 0, finite: 0, largest: W::narrow(0) };
    for [real, imaginary] in block.as_chunks::<2>().0 {
        let parts = [load(*real), load(*imaginary)];
        if parts.iter().all(|&part| masks.is_finite(part)) {
            found.finite += 1;
            found.largest = parts.iter().fold(found.largest, |largest, part| largest.max(part.and(masks.magnitude)));
        } else if parts.iter().any(|&part| !masks.is_finite(part) && !masks.is_infinite(part)) {
            found.nan += 1;
        } else {
            let first = if masks.is_infinite(parts[0]) { parts[0] } else { parts[1] };
            if masks.is_negative(first) { found.negative += 1 } else { found.positive += 1 }
        }
    }
    found
}
