//! Elements at regular distances: transposed, reversed, sliced or broadcast.

use std::num::NonZeroUsize;

use super::contiguous::{BLOCK_BYTES, count, in_pieces};
use super::counts::Counts;
use super::format::Format;

/// Elements gathered by a thread before it asks for more.
const PIECE_ELEMENTS: usize = 1 << 18;

/// Where elements lie in memory: element `[i, j, …]` starts at byte `start + i * strides[0] + j * strides[1] + …`.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a> {
    /// Memory that holds every element.
    pub bytes: &'a [u8],
    /// Where the element of all-zero indices starts.
    pub start: usize,
    /// Elements along each axis.
    pub shape: &'a [usize],
    /// Bytes from one element to the next along each axis; of any sign, and 0 where an axis is broadcast.
    pub strides: &'a [isize],
}

#[derive(Clone, Copy)]
struct Axis {
    extent: usize,
    stride: isize,
}

/// Counts the elements of a strided array; `first_nonfinite` is its index in C order.
///
/// They are gathered into blocks in the order of memory, whatever that of the axes; only where one is not finite is the
/// first of them looked for in C order. A broadcast axis is read once. Memory used: one block a thread.
///
/// # Panics
///
/// Where an element lies outside the bytes, `shape` and `strides` differ in length, or there are 2^64 elements or more.
pub fn count_strided(format: &Format, array: Strided<'_>, byte_swapped: bool, threads: NonZeroUsize) -> Counts {
    assert_eq!(array.shape.len(), array.strides.len(), "one stride an axis");
    if array.shape.contains(&0) {
        return Counts::default();
    }
    let axes: Vec<Axis> = array.shape.iter().zip(array.strides).map(|(&extent, &stride)| Axis { extent, stride }).collect();
    let times: usize = product(axes.iter().filter(|axis| axis.stride == 0));
    let kept: Vec<Axis> = axes.iter().copied().filter(|axis| axis.stride != 0 && axis.extent > 1).collect();
    let (start, ordered) = in_memory_order(array.start, &kept);
    let length = product(ordered.iter());
    let counted = in_pieces(length, PIECE_ELEMENTS, threads, |from, to| {
        let mut sum = Counts::default();
        gather(format.width, array.bytes, start, &ordered, from..to, |_, block| {
            sum = sum.merge(count(format, block, byte_swapped));
            true
        });
        sum
    });
    let times = times as u64;
    Counts {
        checked: counted.checked.checked_mul(times).expect("fewer than 2^64 elements"),
        nan: counted.nan * times,
        positive_infinity: counted.positive_infinity * times,
        negative_infinity: counted.negative_infinity * times,
        maximum_absolute_finite: counted.maximum_absolute_finite,
        first_nonfinite: counted.first_nonfinite.and_then(|_| first(format, array, &axes, byte_swapped)),
    }
}

fn product<'a>(axes: impl Iterator<Item = &'a Axis>) -> usize {
    axes.fold(1, |product: usize, axis| product.checked_mul(axis.extent).expect("fewer than 2^64 elements"))
}

/// The same elements with no negative stride, the largest stride outermost, and axes that follow each other made one.
fn in_memory_order(start: usize, axes: &[Axis]) -> (usize, Vec<Axis>) {
    let mut start = start;
    let mut turned: Vec<Axis> = Vec::with_capacity(axes.len());
    for axis in axes {
        if axis.stride < 0 {
            start -= axis.stride.unsigned_abs() * (axis.extent - 1);
        }
        turned.push(Axis { stride: axis.stride.abs(), ..*axis });
    }
    turned.sort_by_key(|axis| std::cmp::Reverse(axis.stride));
    (start, joined(&turned))
}

/// Axes of which the outer continues the inner, made one.
fn joined(axes: &[Axis]) -> Vec<Axis> {
    let mut out: Vec<Axis> = Vec::with_capacity(axes.len());
    for axis in axes {
        match out.last_mut() {
            Some(outer) if outer.stride == axis.stride * axis.extent.cast_signed() => {
                *outer = Axis { extent: outer.extent * axis.extent, stride: axis.stride };
            }
            _ => out.push(*axis),
        }
    }
    out
}

/// The index in C order of the first element that is not finite.
fn first(format: &Format, array: Strided<'_>, axes: &[Axis], byte_swapped: bool) -> Option<u64> {
    // Of a broadcast axis the first element comes first.
    let single: Vec<Axis> = axes.iter().map(|axis| if axis.stride == 0 { Axis { extent: 1, ..*axis } } else { *axis }).collect();
    let walked: Vec<Axis> = joined(&single.iter().copied().filter(|axis| axis.extent > 1).collect::<Vec<_>>());
    let mut found = None;
    gather(format.width, array.bytes, array.start, &walked, 0..product(single.iter()), |before, block| {
        found = count(format, block, byte_swapped).first_nonfinite.map(|index| before as u64 + index);
        found.is_none()
    });
    let (mut rest, mut index, mut step) = (found?, 0, 1);
    for (single, axis) in single.iter().zip(axes).rev() {
        index += rest % single.extent as u64 * step;
        rest /= single.extent as u64;
        step *= axis.extent as u64;
    }
    Some(index)
}

/// Gathers the elements numbered `range` in the order of the axes, and hands on block by block while `take` says so.
fn gather(
    width: usize,
    bytes: &[u8],
    start: usize,
    axes: &[Axis],
    range: std::ops::Range<usize>,
    mut take: impl FnMut(usize, &[u8]) -> bool,
) {
    let (outer, inner) = match axes.split_last() {
        Some((inner, outer)) => (outer, *inner),
        None => (axes, Axis { extent: 1, stride: width.cast_signed() }),
    };
    let capacity = BLOCK_BYTES / width * width;
    let mut block = [0_u8; BLOCK_BYTES];
    let (mut filled, mut handed, mut at) = (0, range.start, range.start);
    while at < range.end {
        let (mut row, column) = (at / inner.extent, at % inner.extent);
        let mut offset = start.cast_signed() + column.cast_signed() * inner.stride;
        for axis in outer.iter().rev() {
            offset += (row % axis.extent).cast_signed() * axis.stride;
            row /= axis.extent;
        }
        let many = (inner.extent - column).min(range.end - at).min((capacity - filled) / width);
        copy_row(width, bytes, offset.cast_unsigned(), inner.stride, &mut block[filled..filled + many * width]);
        (at, filled) = (at + many, filled + many * width);
        if filled == capacity || at == range.end {
            if !take(handed, &block[..filled]) {
                return;
            }
            (handed, filled) = (at, 0);
        }
    }
}

fn copy_row(width: usize, bytes: &[u8], offset: usize, stride: isize, row: &mut [u8]) {
    if stride == width.cast_signed() {
        row.copy_from_slice(&bytes[offset..offset + row.len()]);
        return;
    }
    match width {
        1 => copy_elements::<1>(bytes, offset, stride, row),
        2 => copy_elements::<2>(bytes, offset, stride, row),
        4 => copy_elements::<4>(bytes, offset, stride, row),
        8 => copy_elements::<8>(bytes, offset, stride, row),
        _ => copy_elements::<16>(bytes, offset, stride, row),
    }
}

fn copy_elements<const N: usize>(bytes: &[u8], offset: usize, stride: isize, row: &mut [u8]) {
    let mut offset = offset;
    for element in row.as_chunks_mut::<N>().0 {
        element.copy_from_slice(&bytes[offset..offset + N]);
        offset = offset.wrapping_add_signed(stride);
    }
}
