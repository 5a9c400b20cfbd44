//! Arrays in a file are counted as they are in memory, whatever the threads, the order and the packing.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "small numbers, exact values"
)]

use std::num::NonZeroUsize;

use firstnan_core::finite::{Format, count};
use firstnan_core::stored::{Extent, Fault, PIECE_BYTES, Packing, Stopped, count_extents, first_nonfinite_in_c_order};

const FLOAT32: &str = "float32";

fn extent(format: &str, start: usize, length: usize) -> Extent {
    let format = Format::named(format).unwrap();
    Extent { format, byte_swapped: false, start: start as u64, length: length as u64, packing: Packing::Plain }
}

fn threads(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).unwrap()
}

fn floats(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values.flat_map(f32::to_le_bytes).collect()
}

#[test]
fn extents_count_as_in_memory() {
    let many = PIECE_BYTES / 4 * 3 + 17;
    let bad = |place: usize| match place {
        90_001 => f32::NAN,
        90_002 => f32::INFINITY,
        200_000 => f32::NEG_INFINITY,
        _ => (place % 1000) as f32,
    };
    let file = floats((0..many).map(bad));
    let extents =
        [extent(FLOAT32, 0, file.len()), extent(FLOAT32, 4, 4 * 70_000), extent("bfloat16", 6, 2 * 7), extent("bool", 9, 0)];
    for number in [1, 2, 7] {
        let counted = count_extents(&file[..], &extents, threads(number), |_| true).unwrap();
        for (extent, counted) in extents.iter().zip(counted) {
            let bytes = &file[extent.start as usize..][..extent.length as usize];
            assert_eq!(counted.unwrap(), count(extent.format, bytes, false));
        }
    }
}

#[test]
fn a_cut_file_keeps_what_is_whole() {
    let file = floats((0..PIECE_BYTES / 2).map(|_| 1.0));
    let extents = [extent(FLOAT32, 0, file.len() - 8), extent(FLOAT32, file.len() - 8, 12), extent("uint8", file.len() + 5, 1)];
    let counted = count_extents(&file[..], &extents, threads(2), |_| true).unwrap();
    assert_eq!(counted[0].as_ref().unwrap().checked, file.len() as u64 / 4 - 2);
    assert!(matches!(counted[1], Err(Fault::Cut(at)) if at == file.len() as u64), "{:?}", counted[1]);
    assert!(matches!(counted[2], Err(Fault::Cut(_))), "{:?}", counted[2]);
}

#[test]
fn the_caller_may_stop() {
    let file = vec![0; PIECE_BYTES * 5];
    let mut told = Vec::new();
    let tick = |read| {
        told.push(read);
        told.len() < 2
    };
    assert_eq!(count_extents(&file[..], &[extent("uint8", 0, file.len())], threads(1), tick).unwrap_err(), Stopped);
    assert_eq!(told, [PIECE_BYTES as u64, 2 * PIECE_BYTES as u64]);
}

#[test]
fn halves_of_bytes_are_elements() {
    // 6 is the largest magnitude of float4_e2m1fn, 0.5 the least above zero.
    let halves = Extent { packing: Packing::Halves, ..extent("float4_e2m1fn", 0, 3) };
    let counted = count_extents(&[0x10, 0x01, 0xF0][..], &[halves], threads(1), |_| true).unwrap();
    let counts = *counted[0].as_ref().unwrap();
    assert_eq!((counts.checked, counts.nonfinite(), counts.maximum_absolute_finite), (6, 0, 6.0));
}

#[test]
fn fortran_order_is_told_in_c_order() {
    let format = Format::named(FLOAT32).unwrap();
    for shape in [vec![5, 3, 4], vec![1, 2, 30], vec![60], vec![60, 1, 1], vec![2, 30], vec![], vec![1, 1]] {
        let elements: u64 = shape.iter().product();
        // Every pair of bad elements, by their index in C order.
        for (one, two) in (0..elements).flat_map(|one| (one..elements).map(move |two| (one, two))) {
            let mut stored = vec![1.0_f32; elements as usize];
            for bad in [one, two] {
                let (mut rest, mut place) = (bad, 0);
                for axis in (0..shape.len()).rev() {
                    place += rest % shape[axis] * shape[..axis].iter().product::<u64>();
                    rest /= shape[axis];
                }
                stored[place as usize] = f32::NAN;
            }
            let bytes = floats(stored.into_iter());
            let mut best = None;
            for (number, part) in bytes.chunks(4 * 7).enumerate() {
                best = first_nonfinite_in_c_order(format, part, false, &shape, number as u64 * 7, best);
            }
            assert_eq!(best, Some(one), "{shape:?} {two}");
            let whole = Extent { packing: Packing::Fortran(shape.clone()), ..extent(FLOAT32, 0, bytes.len()) };
            let counted = count_extents(&bytes[..], &[whole], threads(1), |_| true).unwrap();
            assert_eq!(counted[0].as_ref().unwrap().first_nonfinite, Some(one));
        }
    }
}
