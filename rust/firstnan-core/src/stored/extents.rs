//! Many arrays of one file, shared out among threads piece by piece.

use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::fortran::first_nonfinite_in_c_order;
use super::source::ReadAt;
use crate::finite::{Counts, Format, count};

/// What a thread reads at a time: what is read is counted while it is still in the second-level cache. A multiple of
/// every element's width. In page cache 128 to 512 KiB read and count at 5 GB/s a thread, 8 MiB at 4.
pub const PIECE_BYTES: usize = 256 << 10;

/// One array in a file.
#[derive(Clone, Debug)]
pub struct Extent {
    /// The element type.
    pub format: &'static Format,
    /// Whether the elements are big-endian.
    pub byte_swapped: bool,
    /// The offset of its first byte.
    pub start: u64,
    /// Its bytes.
    pub length: u64,
    /// How elements lie in the bytes.
    pub packing: Packing,
}

/// How elements lie in the bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Packing {
    /// One after the other in C order.
    Plain,
    /// In Fortran order, of this shape.
    Fortran(Vec<u64>),
    /// Two elements of four bits in each byte, the lower half first.
    Halves,
}

/// Why an array has no counts.
#[derive(Debug)]
pub enum Fault {
    /// The file ends at this offset, before the array does.
    Cut(u64),
    /// The system could not read.
    Read(io::Error),
}

/// The caller asked for no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

type Found = (usize, Result<Counts, Fault>);

/// The pieces of all extents in a row: those of extent `i` are numbered from `before[i]` on.
struct Plan<'a> {
    extents: &'a [Extent],
    before: Vec<u64>,
    pieces: u64,
}

impl<'a> Plan<'a> {
    fn new(extents: &'a [Extent]) -> Self {
        let mut pieces = 0;
        let before = extents.iter().map(|extent| {
            let first = pieces;
            pieces += extent.length.div_ceil(PIECE_BYTES as u64);
            first
        });
        Self { before: before.collect(), extents, pieces }
    }

    /// The extent of a piece, and the piece's place in it.
    #[allow(clippy::cast_possible_truncation, reason = "at most PIECE_BYTES")]
    fn piece(&self, number: u64) -> (usize, u64, usize) {
        let index = self.before.partition_point(|&before| before <= number) - 1;
        let start = (number - self.before[index]) * PIECE_BYTES as u64;
        (index, start, (self.extents[index].length - start).min(PIECE_BYTES as u64) as usize)
    }
}

/// Counts every extent; one that cannot be read keeps none of the others from its counts.
///
/// `tick` is called on the calling thread, between pieces, with the bytes read so far, and says whether to go on. Threads
/// live only for the call.
pub fn count_extents<S: ReadAt + ?Sized>(
    source: &S,
    extents: &[Extent],
    threads: NonZeroUsize,
    mut tick: impl FnMut(u64) -> bool,
) -> Result<Vec<Result<Counts, Fault>>, Stopped> {
    let plan = Plan::new(extents);
    let (next, read, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let work = |tick: &mut dyn FnMut(u64) -> bool| {
        let mut buffers = Buffers::new();
        let mut found: Vec<Found> = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= plan.pieces {
                break;
            }
            let (index, start, length) = plan.piece(number);
            let best = match found.last() {
                Some((last, Ok(counts))) if *last == index => counts.first_nonfinite,
                // Its counts are lost already, as the report will say.
                Some((last, Err(_))) if *last == index => continue,
                _ => None,
            };
            let counts = buffers.count(source, &extents[index], start, length, best);
            match found.last_mut() {
                Some((last, sum)) if *last == index => add(sum, counts),
                _ => found.push((index, counts)),
            }
            let read = read.fetch_add(length as u64, Ordering::Relaxed) + length as u64;
            if !tick(read) {
                stop.store(true, Ordering::Relaxed);
            }
        }
        found
    };
    let helpers = usize::try_from(plan.pieces).unwrap_or(usize::MAX).min(threads.get()).max(1) - 1;
    let found = thread::scope(|scope| {
        // Where the system gives no more threads, those there are do the work.
        let helpers: Vec<_> =
            (0..helpers).map_while(|_| thread::Builder::new().spawn_scoped(scope, || work(&mut |_| true)).ok()).collect();
        let mut found = work(&mut tick);
        for helper in helpers {
            found.extend(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        found
    });
    if stop.into_inner() {
        return Err(Stopped);
    }
    let mut sums: Vec<_> = extents.iter().map(|_| Ok(Counts::default())).collect();
    for (index, counts) in found {
        add(&mut sums[index], counts);
    }
    Ok(sums)
}

/// Adds counts of the same array, indices from its start; of two faults the first one told stays.
fn add(sum: &mut Result<Counts, Fault>, more: Result<Counts, Fault>) {
    match (sum, more) {
        (Ok(sum), Ok(more)) => {
            let first = [sum.first_nonfinite, more.first_nonfinite].into_iter().flatten().min();
            *sum = Counts { first_nonfinite: first, ..sum.merge(more) };
        }
        (sum @ Ok(_), Err(fault)) => *sum = Err(fault),
        (Err(_), _) => {}
    }
}

/// What one thread reads into and unpacks into.
struct Buffers {
    read: Vec<u8>,
    unpacked: Vec<u8>,
}

impl Buffers {
    fn new() -> Self {
        Self { read: vec![0; PIECE_BYTES], unpacked: Vec::new() }
    }

    /// Counts one piece; the index counts from the extent's start, and is no greater than `best` in Fortran order.
    fn count<S: ReadAt + ?Sized>(
        &mut self,
        source: &S,
        extent: &Extent,
        start: u64,
        length: usize,
        best: Option<u64>,
    ) -> Result<Counts, Fault> {
        let bytes = &mut self.read[..length];
        let filled = source.fill_at(bytes, extent.start + start).map_err(Fault::Read)?;
        if filled < length {
            return Err(Fault::Cut(extent.start + start + filled as u64));
        }
        let (bytes, before): (&[u8], u64) = if extent.packing == Packing::Halves {
            self.unpacked.clear();
            self.unpacked.extend(bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]));
            (&self.unpacked, start * 2)
        } else {
            (bytes, start / extent.format.width as u64)
        };
        let mut counts = count(extent.format, bytes, extent.byte_swapped);
        counts.first_nonfinite = match (&extent.packing, counts.first_nonfinite) {
            (Packing::Fortran(shape), Some(_)) => {
                first_nonfinite_in_c_order(extent.format, bytes, extent.byte_swapped, shape, before, best)
            }
            (_, first) => first.map(|first| before + first),
        };
        Ok(counts)
    }
}
