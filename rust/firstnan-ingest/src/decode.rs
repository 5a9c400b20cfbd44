//! A shard to tables, by as many threads as there are cores; what comes out does not depend on how many.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use firstnan_core::{AnyRecord, Error, ErrorKind, KINDS};
use memchr::memchr;

use crate::line::{Line, Lines, Usual};
use crate::quarantine::Quarantine;
use crate::rows::{NewRow, Place, Rows};
use crate::shard::{Elision, Piece, Shard};

/// What became of the lines of a shard: `lines` is always `records + quarantined + blank`.
pub struct Decoded {
    /// Every line.
    pub lines: u64,
    /// Rows of a kind.
    pub records: u64,
    /// Rows of the quarantine.
    pub quarantined: u64,
    /// Lines of white space.
    pub blank: u64,
    /// The rows by kind (an index of `KINDS`), in the order of the lines.
    pub tables: Vec<(usize, Vec<RecordBatch>)>,
    /// What was refused, in the order of the lines.
    pub quarantine: Vec<RecordBatch>,
}

/// What became of the lines of a piece.
struct PieceTables {
    records: u64,
    quarantined: u64,
    blank: u64,
    tables: Vec<(usize, RecordBatch)>,
    quarantine: Option<RecordBatch>,
}

/// The columns of a kind (an index of `KINDS`).
///
/// # Errors
///
/// None for a kind of the contract.
pub fn schema_of_kind(kind: usize) -> Result<SchemaRef, ArrowError> {
    Ok(Rows::new(kind).finish("")?.schema())
}

/// The columns of the quarantine.
///
/// # Errors
///
/// None.
pub fn schema_of_quarantine() -> Result<SchemaRef, ArrowError> {
    Ok(Quarantine::default().finish("")?.schema())
}

/// Decodes every line of a shard.
///
/// # Errors
///
/// A column of one piece has more than 2 GiB.
pub fn decode(shard: &Shard, threads: usize) -> Result<Decoded, ArrowError> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(shard.pieces.len()));
    let work = || {
        let mut worker = Worker::new(shard.cut.kind);
        while let Some((index, piece)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, shard.pieces.get(i)?)))
        {
            let tables = worker.piece(shard, piece);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((index, tables));
        }
    };
    let threads = threads.min(shard.pieces.len());
    if threads <= 1 {
        work();
    } else {
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
    }
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(index, _)| *index);
    let mut decoded =
        Decoded { lines: shard.lines, records: 0, quarantined: 0, blank: 0, tables: Vec::new(), quarantine: Vec::new() };
    let mut tables: Vec<Vec<RecordBatch>> = vec![Vec::new(); KINDS.len()];
    for (_, piece) in done {
        let piece = piece?;
        decoded.records += piece.records;
        decoded.quarantined += piece.quarantined;
        decoded.blank += piece.blank;
        decoded.quarantine.extend(piece.quarantine);
        for (kind, batch) in piece.tables {
            tables[kind].push(batch);
        }
    }
    decoded.tables = tables.into_iter().enumerate().filter(|(_, batches)| !batches.is_empty()).collect();
    Ok(decoded)
}

/// What a thread keeps from line to line and from piece to piece.
struct Worker {
    lines: Lines,
    scratch: Vec<u8>,
    /// Empty rows by kind, with room for as many as the last piece had.
    empty: Vec<Option<Box<Rows>>>,
}

impl Worker {
    fn new(kind: Option<usize>) -> Self {
        Self { lines: Lines::new(kind), scratch: Vec::new(), empty: no_tables() }
    }

    fn line(&mut self, tables: &mut [Option<Box<Rows>>], place: Place, line: &[u8]) -> Fate {
        let scratch = &mut self.scratch;
        let mut refused = None;
        if let Some(Usual { kind, envelope, record }) = self.lines.usual(line) {
            let row = NewRow { rows: rows_of(tables, kind), place, envelope: envelope.as_ref(), scratch };
            match AnyRecord::decode_then(kind, record, row) {
                Ok(taken) => return Fate::of_record(kind, taken),
                Err(error) => refused = envelope.is_none().then_some((kind, error)),
            }
        }
        match self.lines.decode(line, refused) {
            Line::Blank => Fate::Blank,
            Line::Refused { kind, error } => Fate::Refused { kind, error },
            Line::Record { kind, envelope, record } => {
                let row = NewRow { rows: rows_of(tables, kind), place, envelope: envelope.as_ref(), scratch };
                Fate::of_record(kind, record.take(row))
            }
        }
    }

    fn piece(&mut self, shard: &Shard, piece: &Piece) -> Result<PieceTables, ArrowError> {
        let mut rows = std::mem::replace(&mut self.empty, no_tables());
        let mut quarantine = Quarantine::default();
        let (mut records, mut blank) = (0, 0);
        let most = shard.cut.max_line_bytes;
        let mut elisions = Elisions::from(&shard.elisions, piece.range.start);
        let mut number = piece.first_line;
        let mut offset = piece.offset;
        let mut begin = piece.range.start;
        while begin < piece.range.end {
            let rest = &shard.text[begin..piece.range.end];
            let (line, step) = memchr(b'\n', rest).map_or((rest, rest.len()), |end| (&rest[..end], end + 1));
            let dropped = elisions.before(begin + line.len());
            let place = Place { number, offset };
            let whole = line.len() as u64 + dropped;
            if whole > most as u64 {
                let error = Error::new(ErrorKind::Size).detail("a line").bound(most);
                quarantine.push(place, &line[..most], whole, shard.cut.kind, &error);
            } else {
                match self.line(&mut rows, place, line) {
                    Fate::Row => records += 1,
                    Fate::Blank => blank += 1,
                    Fate::Refused { kind, error } => quarantine.push(place, line, whole, kind, &error),
                }
            }
            number += 1;
            offset += step as u64 + dropped;
            begin += step;
        }
        let source = &shard.cut.source;
        let quarantined = quarantine.len() as u64;
        let mut tables = Vec::new();
        for (kind, rows) in rows.into_iter().enumerate() {
            if let Some(rows) = rows.filter(|rows| rows.len() > 0) {
                self.empty[kind] = Some(Box::new(rows.like()));
                tables.push((kind, rows.finish(source)?));
            }
        }
        let quarantine = if quarantined > 0 { Some(quarantine.finish(source)?) } else { None };
        Ok(PieceTables { records, quarantined, blank, tables, quarantine })
    }
}

fn no_tables() -> Vec<Option<Box<Rows>>> {
    (0..KINDS.len()).map(|_| None).collect()
}

fn rows_of(tables: &mut [Option<Box<Rows>>], kind: usize) -> &mut Rows {
    tables[kind].get_or_insert_with(|| Box::new(Rows::new(kind)))
}

/// What became of a line.
enum Fate {
    Row,
    Blank,
    Refused { kind: Option<usize>, error: Error },
}

impl Fate {
    fn of_record(kind: usize, taken: Result<(), Error>) -> Self {
        taken.map_or_else(|error| Self::Refused { kind: Some(kind), error }, |()| Self::Row)
    }
}

/// The bytes that lines lack, asked for in the order of the text.
struct Elisions<'a> {
    left: &'a [Elision],
}

impl<'a> Elisions<'a> {
    fn from(all: &'a [Elision], start: usize) -> Self {
        Self { left: &all[all.partition_point(|elision| elision.at < start)..] }
    }

    /// How many bytes are missing up to a place, since the place that was asked for before.
    fn before(&mut self, end: usize) -> u64 {
        let mut bytes = 0;
        while let Some((first, rest)) = self.left.split_first()
            && first.at <= end
        {
            bytes += first.bytes;
            self.left = rest;
        }
        bytes
    }
}
