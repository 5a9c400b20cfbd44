//! Counting, against one element at a time: every type, tail, alignment, byte order, and place of the first bad one.

use std::num::NonZeroUsize;

use firstnan_core::finite::{
    BLOCK_BYTES, Bits, Counts, FORMATS, Format, Kind, Strided, count, count_bits, count_masked, count_strided, count_with_threads,
};

const ONE: NonZeroUsize = NonZeroUsize::MIN;

fn format(name: &str) -> &'static Format {
    Format::named(name).expect("known")
}

/// Bytes that look random, the same every time (xorshift64).
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}

/// Elements one by one, so that no block, tail or vector is met.
fn one_by_one(format: &Format, bytes: &[u8], byte_swapped: bool) -> Counts {
    bytes.chunks(format.width).fold(Counts::default(), |sum, element| sum.merge(count(format, element, byte_swapped)))
}

#[test]
fn every_type_at_every_alignment_and_tail() {
    for (seed, format) in (1..).zip(&FORMATS) {
        let bytes = noise(16 + 2 * BLOCK_BYTES + 200 * format.width, seed);
        for alignment in 0..16 {
            for elements in [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 65, 127, 129, 130 + alignment] {
                let part = &bytes[alignment..alignment + elements * format.width];
                for swapped in [false, true] {
                    assert_eq!(count(format, part, swapped), one_by_one(format, part, swapped), "{} {elements}", format.name);
                }
            }
        }
        let most = &bytes[3..3 + (2 * BLOCK_BYTES / format.width + 5) * format.width];
        assert_eq!(count(format, most, false), one_by_one(format, most, false), "{}", format.name);
    }
}

#[test]
#[allow(clippy::float_cmp, reason = "exact by contract")]
fn wide_floats_as_the_processor_reads_them() {
    let bytes = noise(64 * 8 * 50, 7);
    for alignment in 0..8 {
        let bytes = &bytes[alignment..bytes.len() - 8 + alignment];
        let floats: Vec<f64> = bytes.as_chunks().0.iter().map(|&word| f64::from_le_bytes(word)).collect();
        let singles: Vec<f64> = bytes.as_chunks().0.iter().map(|&word| f64::from(f32::from_le_bytes(word))).collect();
        for (name, values) in [("float64", floats), ("float32", singles)] {
            let counts = count(format(name), bytes, false);
            assert_eq!(counts.checked, values.len() as u64);
            assert_eq!(counts.nan, values.iter().filter(|value| value.is_nan()).count() as u64);
            assert_eq!(counts.first_nonfinite, values.iter().position(|value| !value.is_finite()).map(|index| index as u64));
            let largest = values.iter().filter(|value| value.is_finite()).fold(0.0, |most: f64, value| most.max(value.abs()));
            assert_eq!(counts.maximum_absolute_finite, largest);
        }
    }
}

/// The last element of a type that is not finite; None of integers and of types without such a pattern.
fn bad(format: &Format) -> Option<Vec<u8>> {
    [vec![0xFF; format.width], (1..=format.width).map(|byte| if byte == format.width { 0x80 } else { 0 }).collect()]
        .into_iter()
        .find(|pattern| count(format, pattern, false).nan == 1)
}

#[test]
fn the_first_bad_one_on_either_side_of_every_boundary() {
    let mut seen = 0;
    for format in &FORMATS {
        let Some(pattern) = bad(format) else { continue };
        seen += 1;
        let elements = (5 << 20) / format.width + 3;
        let mut bytes = vec![0; elements * format.width];
        let boundaries = [BLOCK_BYTES, 2 * BLOCK_BYTES, 1 << 20, 2 << 20, 3 << 20, elements * format.width];
        for boundary in boundaries {
            let near = boundary / format.width;
            for first in [near - 1, near, near + 1].into_iter().filter(|&first| first < elements) {
                let at = first * format.width;
                bytes[at..at + format.width].copy_from_slice(&pattern);
                // Only near it in a debug build's time, and all of it for two types.
                let whole = matches!(format.name, "float32" | "bfloat16");
                let (from, threads) = if whole { (0, 3) } else { ((at - at.min(BLOCK_BYTES + 64)) / format.width, 1) };
                let to = if whole { bytes.len() } else { bytes.len().min(at + 4 * format.width) };
                let part = &bytes[from * format.width..to];
                let counts = count_with_threads(format, part, false, NonZeroUsize::new(threads).expect("not 0"));
                assert_eq!(counts.first_nonfinite, Some((first - from) as u64), "{} {first}", format.name);
                assert_eq!(counts.nan, 1);
                bytes[at..at + format.width].fill(0);
            }
        }
    }
    assert_eq!(seen, 17, "every float but the three without NaN");
}

#[test]
fn as_many_threads_as_asked_give_the_same() {
    let bytes = noise((4 << 20) + 12, 99);
    let expected = count(format("float32"), &bytes, false);
    for threads in 1..5 {
        assert_eq!(count_with_threads(format("float32"), &bytes, false, NonZeroUsize::new(threads).expect("not 0")), expected);
    }
}

#[test]
fn arrays_that_hold_nothing_finite() {
    for format in &FORMATS {
        let Some(pattern) = bad(format) else { continue };
        let elements = BLOCK_BYTES / format.width + 9;
        let counts = count(format, &pattern.repeat(elements), false);
        let all = Counts { checked: elements as u64, nan: elements as u64, first_nonfinite: Some(0), ..Counts::default() };
        assert_eq!(counts, all, "{}", format.name);
    }
}

#[test]
fn missing_elements_are_not_elements_whatever_lies_there() {
    for (seed, name) in (3..).zip(["float16", "float32", "float64", "int8", "uint64"]) {
        let format = format(name);
        for offset in [0, 1, 7, 8, 13] {
            let elements = 2 * BLOCK_BYTES / format.width + 21;
            let bytes = noise(elements * format.width, seed);
            let bits = noise((offset + elements).div_ceil(8), seed + 40);
            let valid = Bits { bytes: &bits, offset };
            let is_valid = |index: usize| bits[(offset + index) / 8] >> ((offset + index) % 8) & 1 == 1;
            let kept: Vec<u8> = (0..elements)
                .filter(|&index| is_valid(index))
                .flat_map(|index| bytes[index * format.width..(index + 1) * format.width].to_vec())
                .collect();
            let counts = count_masked(format, &bytes, false, valid, ONE);
            let expected = count(format, &kept, false);
            assert_eq!(Counts { first_nonfinite: None, ..counts }, Counts { first_nonfinite: None, ..expected });
            let is_bad = |index: usize| {
                count(format, &bytes[index * format.width..(index + 1) * format.width], false).first_nonfinite.is_some()
            };
            let first = (0..elements).find(|&index| is_valid(index) && is_bad(index));
            assert_eq!(counts.first_nonfinite, first.map(|index| index as u64));
        }
    }
}

#[test]
fn booleans_of_one_bit() {
    let (values, valid) = (noise(40, 5), noise(40, 6));
    let bit = |bytes: &[u8], index: usize| bytes[index / 8] >> (index % 8) & 1 == 1;
    for offset in 0..20 {
        for length in 0..90 {
            let present: Vec<usize> = (0..length).filter(|index| bit(&valid, 2 * offset + index)).collect();
            let any = present.iter().any(|index| bit(&values, offset + index));
            let counts = count_bits(Bits { bytes: &values, offset }, Some(Bits { bytes: &valid, offset: 2 * offset }), length);
            let expected =
                Counts { checked: present.len() as u64, maximum_absolute_finite: f64::from(u8::from(any)), ..Counts::default() };
            assert_eq!(counts, expected);
        }
    }
    assert_eq!(count_bits(Bits { bytes: &[0xF0], offset: 0 }, None, 4).maximum_absolute_finite.to_bits(), 0);
}

#[test]
fn strided_of_every_type() {
    for (seed, format) in (70..).zip(&FORMATS) {
        let width = format.width.cast_signed();
        let bytes = noise(60 * format.width, seed);
        // The transpose, reversed along its first axis, of three rows of ten in rows of twenty.
        let strided = Strided { bytes: &bytes, start: 9 * format.width, shape: &[10, 3], strides: &[-width, 20 * width] };
        let gathered: Vec<u8> = (0..10)
            .flat_map(|column| (0..3).map(move |row| row * 20 + 9 - column))
            .flat_map(|element| bytes[element * format.width..(element + 1) * format.width].to_vec())
            .collect();
        assert_eq!(count_strided(format, strided, false, ONE), count(format, &gathered, false), "{}", format.name);
    }
}

#[test]
fn integers_of_fewer_bits_than_their_byte() {
    for format in &FORMATS {
        if let Kind::Signed { bits } = format.kind {
            let lowest = count(format, &[0xFF; 8][..format.width], false).maximum_absolute_finite;
            assert_eq!(lowest.to_bits(), 1.0_f64.to_bits(), "-1 in {bits} bits");
        }
    }
}
