//! Elements that lie one after the other, on one thread or several.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::counts::Counts;
use super::format::{Format, Kind};
use super::{float, integer, machine};

/// What is looked at in one go: half of a small first-level cache, and a multiple of every element's width.
pub const BLOCK_BYTES: usize = 8192;

/// What is reduced to one number before the memory after the next few is asked for.
pub(super) const PART_BYTES: usize = 1024;

/// What a thread takes at a time, so that one that is held up does not hold up the others.
const PIECE_BYTES: usize = 1 << 20;

/// Counts the elements in `bytes`, little-endian unless `byte_swapped`, of any alignment.
///
/// # Panics
///
/// Where `bytes` is no whole number of elements.
pub fn count(format: &Format, bytes: &[u8], byte_swapped: bool) -> Counts {
    assert!(bytes.len().is_multiple_of(format.width), "the bytes are no whole number of elements");
    machine::count(format, bytes, byte_swapped)
}

/// `count` for whatever processor it is compiled into.
#[inline(always)]
#[allow(clippy::inline_always, reason = "compiled once for each width of vectors")]
pub(super) fn count_plainly(format: &Format, bytes: &[u8], byte_swapped: bool) -> Counts {
    match format.kind {
        Kind::Float(layout) | Kind::Complex(layout) => {
            let parts = if matches!(format.kind, Kind::Complex(_)) { 2 } else { 1 };
            match (format.part_width(), byte_swapped) {
                (2, false) => float::count(bytes, u16::from_le_bytes, &layout, parts),
                (2, true) => float::count(bytes, u16::from_be_bytes, &layout, parts),
                (4, false) => float::count(bytes, u32::from_le_bytes, &layout, parts),
                (4, true) => float::count(bytes, u32::from_be_bytes, &layout, parts),
                (8, false) => float::count(bytes, u64::from_le_bytes, &layout, parts),
                (8, true) => float::count(bytes, u64::from_be_bytes, &layout, parts),
                _ => float::count(bytes, u8::from_le_bytes, &layout, parts),
            }
        }
        Kind::Signed { bits } => match (format.width, byte_swapped) {
            (2, false) => integer::count_i16(bytes, i16::from_le_bytes, bits),
            (2, true) => integer::count_i16(bytes, i16::from_be_bytes, bits),
            (4, false) => integer::count_i32(bytes, i32::from_le_bytes, bits),
            (4, true) => integer::count_i32(bytes, i32::from_be_bytes, bits),
            (8, false) => integer::count_i64(bytes, i64::from_le_bytes, bits),
            (8, true) => integer::count_i64(bytes, i64::from_be_bytes, bits),
            _ => integer::count_i8(bytes, i8::from_le_bytes, bits),
        },
        Kind::Unsigned { bits } => match (format.width, byte_swapped) {
            (2, false) => integer::count_u16(bytes, u16::from_le_bytes, bits),
            (2, true) => integer::count_u16(bytes, u16::from_be_bytes, bits),
            (4, false) => integer::count_u32(bytes, u32::from_le_bytes, bits),
            (4, true) => integer::count_u32(bytes, u32::from_be_bytes, bits),
            (8, false) => integer::count_u64(bytes, u64::from_le_bytes, bits),
            (8, true) => integer::count_u64(bytes, u64::from_be_bytes, bits),
            _ => integer::count_u8(bytes, u8::from_le_bytes, bits),
        },
        Kind::Boolean => integer::count_bool(bytes),
    }
}

/// As `count`, on up to `threads` threads that live only for the call.
///
/// Nothing outlives the call, so a process may fork at any time and both sides go on counting.
///
/// # Panics
///
/// As `count`.
pub fn count_with_threads(format: &Format, bytes: &[u8], byte_swapped: bool, threads: NonZeroUsize) -> Counts {
    in_pieces(bytes.len(), PIECE_BYTES, threads, |start, end| {
        let part = count(format, &bytes[start..end], byte_swapped);
        let moved = part.first_nonfinite.map(|index| (start / format.width) as u64 + index);
        Counts { first_nonfinite: moved, ..part }
    })
}

/// Shares `0..length` out in pieces among threads and adds up what `work` gives for each, indices from the same place.
pub(super) fn in_pieces(
    length: usize,
    piece: usize,
    threads: NonZeroUsize,
    work: impl Fn(usize, usize) -> Counts + Sync,
) -> Counts {
    let pieces = length.div_ceil(piece);
    // Below two pieces a thread, starting one costs more than it saves.
    let helpers = threads.get().min(pieces / 2).max(1) - 1;
    let next = AtomicUsize::new(0);
    let take = || {
        let mut sum = Counts::default();
        loop {
            let start = next.fetch_add(1, Ordering::Relaxed) * piece;
            if start >= length {
                return sum;
            }
            sum = sum.add(work(start, length.min(start + piece)));
        }
    };
    thread::scope(|scope| {
        // Where the system gives no more threads, those there are do the work.
        let started: Vec<_> = (0..helpers).map_while(|_| thread::Builder::new().spawn_scoped(scope, take).ok()).collect();
        started
            .into_iter()
            .fold(take(), |sum, helper| sum.add(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))))
    })
}
