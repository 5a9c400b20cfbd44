//! Arrays stored in Fortran order, first axis fastest, whose indices are told in C order all the same.

use crate::finite::{Format, count};

/// The least index in C order of a non-finite element, if there is one below `best`.
///
/// `bytes` are the elements from the one numbered `start` on, as an array of `shape` stores them in Fortran order.
/// Along the first axis both orders agree, so that only the first non-finite element of each run along it matters, and
/// no run is looked at beyond `best`.
///
/// # Panics
///
/// Where `bytes` is no whole number of elements, or there are more of them than the shape has.
pub fn first_nonfinite_in_c_order(
    format: &Format,
    bytes: &[u8],
    byte_swapped: bool,
    shape: &[u64],
    start: u64,
    mut best: Option<u64>,
) -> Option<u64> {
    // An axis of extent 1 makes no difference to any index, and as the first one would make every run one element.
    let shape: Vec<u64> = shape.iter().copied().filter(|&extent| extent != 1).collect();
    let Some((&run, outer)) = shape.split_first() else {
        return count(format, bytes, byte_swapped).first_nonfinite.or(best);
    };
    let stride: u64 = outer.iter().product();
    let elements = (bytes.len() / format.width) as u64;
    assert!(start + elements <= run * stride, "more elements than the shape has");
    let mut done = 0;
    while done < elements {
        let (row, first) = ((start + done) / run, (start + done) % run);
        let many = (run - first).min(elements - done);
        let before = first * stride + in_c_order(outer, row);
        let wanted = best.map_or(many, |best| best.saturating_sub(before).div_ceil(stride).min(many));
        let part = &bytes[to_bytes(done, format)..to_bytes(done + wanted, format)];
        if let Some(inside) = count(format, part, byte_swapped).first_nonfinite {
            best = Some(before + inside * stride);
        }
        done += many;
    }
    best
}

/// The index in C order of an element numbered in Fortran order.
fn in_c_order(shape: &[u64], mut number: u64) -> u64 {
    let mut stride: u64 = shape.iter().product();
    let mut index = 0;
    for &extent in shape {
        stride /= extent;
        index += number % extent * stride;
        number /= extent;
    }
    index
}

/// The bytes of elements that lie in memory, so that there are no more than a `usize` tells.
#[allow(clippy::cast_possible_truncation, reason = "at most the length of a slice")]
fn to_bytes(elements: u64, format: &Format) -> usize {
    elements as usize * format.width
}
