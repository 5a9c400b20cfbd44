//! A text cut into shards: at least so many bytes, then up to the end of a line; SHA-256 of each.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use memchr::{memchr, memchr_iter, memrchr};
use sha2::{Digest, Sha256};

use crate::text::{ReadError, Text};

/// Bytes read at a time: hashed and searched while they are in the cache.
const CHUNK: usize = 256 << 10;
/// Bytes of a piece, the unit of work of a thread: its size is the same whatever the number of threads.
const PIECE: usize = 1 << 20;

/// How a text is cut, and what is known of its lines beforehand.
#[derive(Clone, Debug)]
pub struct Cut {
    /// The name of the source, as rows carry it.
    pub source: Arc<str>,
    /// The kind of every record (an index of `firstnan_core::KINDS`), where it is given.
    pub kind: Option<usize>,
    /// The byte of the text at which reading starts.
    pub start: u64,
    /// The number of the first line read.
    pub first_line: u64,
    /// The fewest bytes of a shard that is not the last.
    pub shard_bytes: u64,
    /// The most bytes of a line without its end; a longer one goes to quarantine.
    pub max_line_bytes: usize,
    /// Hash while reading, as is best where [`Shard::sha256`] is asked for; else it is made when it is.
    pub hash_ahead: bool,
}

/// Bytes of a line that is far too long: hashed and counted, not kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elision {
    /// Where in the kept text they are missing.
    pub at: usize,
    pub bytes: u64,
}

/// Whole lines of a shard.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// In the kept text.
    pub range: Range<usize>,
    pub first_line: u64,
    /// Of its first byte in the text.
    pub offset: u64,
}

/// Room that is made for a shard at once; pages that are not written to cost nothing.
const USUAL_SHARD: usize = 16 << 20;

type Buffers = Arc<Mutex<Vec<Vec<u8>>>>;

/// A part of a text that is decoded at once.
pub struct Shard {
    /// How it was cut; `start` and `first_line` are those of the shard.
    pub cut: Cut,
    /// Its bytes in the text.
    pub bytes: u64,
    /// Its lines, a last one without an end included.
    pub lines: u64,
    /// Of its bytes, where it was made while reading.
    sha256: OnceLock<[u8; 32]>,
    /// Does the last line have its end?
    pub ended: bool,
    pub(crate) text: Vec<u8>,
    pub(crate) elisions: Vec<Elision>,
    pub(crate) pieces: Vec<Piece>,
    buffers: Buffers,
}

impl Shard {
    /// SHA-256 of its bytes.
    pub fn sha256(&self) -> [u8; 32] {
        *self.sha256.get_or_init(|| Sha256::digest(&self.text).into())
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        // The pages of a buffer that comes back need not be asked of the system again.
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if buffers.is_empty() {
            buffers.push(std::mem::take(&mut self.text));
        }
    }
}

/// The hashes that a line without an end needs, once bytes of it are dropped.
struct LongLine {
    before: Sha256,
    line: Sha256,
}

/// Cuts a text.
pub struct Cutter {
    text: Text,
    cut: Cut,
    /// Kept text from the start of the shard on, and how much of it is filled.
    buffer: Vec<u8>,
    filled: usize,
    elisions: Vec<Elision>,
    /// Where the last line begins in `buffer`.
    line: usize,
    at_end: bool,
    failure: Option<ReadError>,
    last_digest: Option<[u8; 32]>,
    buffers: Buffers,
}

impl Cutter {
    /// Cuts a text that was opened at `cut.start`.
    pub fn new(text: Text, cut: Cut) -> Self {
        Self {
            text,
            cut,
            buffer: Vec::new(),
            filled: 0,
            elisions: Vec::new(),
            line: 0,
            at_end: false,
            failure: None,
            last_digest: None,
            buffers: Buffers::default(),
        }
    }

    /// The next shard, None at the end of the text.
    ///
    /// # Errors
    ///
    /// The text cannot be read further; its whole lines before that came as shards, a line that it cuts does not.
    pub fn next_shard(&mut self) -> Result<Option<Shard>, ReadError> {
        let mut hash = Sha256::new();
        let mut hashed = 0;
        let mut long: Option<LongLine> = None;
        let dropped: u64 = self.elisions.iter().map(|elision| elision.bytes).sum();
        let mut bytes = self.filled as u64 + dropped;
        // What is carried over holds whole lines only where it was more than a shard.
        let mut searched = 0;
        loop {
            let kept = self.filled;
            let missing = self.cut.shard_bytes.saturating_sub(bytes - (kept - searched) as u64);
            let from = searched + usize::try_from(missing.saturating_sub(1)).unwrap_or(usize::MAX).min(kept - searched);
            if let Some(end) = memchr(b'\n', &self.buffer[from..kept]) {
                let end = from + end + 1;
                let digest = self.digest(hash, hashed, end);
                return Ok(Some(self.take(end, true, digest)));
            }
            if let Some(line) = memrchr(b'\n', &self.buffer[searched..kept]) {
                self.line = searched + line + 1;
                long = None;
            }
            if self.at_end {
                return self.last(hash, hashed, long);
            }
            // Bytes that are certain to be of this shard are hashed while they are in the cache.
            if self.cut.hash_ahead && long.is_none() && hashed < self.line {
                hash.update(&self.buffer[hashed..self.line]);
                hashed = self.line;
            }
            searched = kept;
            if self.filled - self.line > self.cut.max_line_bytes {
                bytes += self.pass_over(&mut hash, &mut hashed, &mut long);
                searched = searched.min(self.filled);
            } else {
                bytes += self.fill();
            }
        }
    }

    /// Reads a chunk behind what is filled.
    fn fill(&mut self) -> u64 {
        if self.buffer.capacity() == 0 {
            self.buffer = self.new_buffer();
        }
        if self.buffer.len() < self.filled + CHUNK {
            self.buffer.resize(self.filled + CHUNK, 0);
        }
        match self.text.read(&mut self.buffer[self.filled..self.filled + CHUNK]) {
            Ok(0) => self.at_end = true,
            Ok(bytes) => {
                self.filled += bytes;
                return bytes as u64;
            }
            Err(error) => {
                self.failure = Some(error);
                self.at_end = true;
            }
        }
        0
    }

    /// One that came back, or a new one with room for a usual shard.
    fn new_buffer(&self) -> Vec<u8> {
        let old = self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let usual = usize::try_from(self.cut.shard_bytes).unwrap_or(usize::MAX).min(USUAL_SHARD);
        old.unwrap_or_else(|| Vec::with_capacity(usual + 2 * CHUNK))
    }

    /// Reads a chunk of a line that is too long already, and keeps of it only what stands from the end of the line on.
    fn pass_over(&mut self, hash: &mut Sha256, hashed: &mut usize, long: &mut Option<LongLine>) -> u64 {
        let kept = self.filled;
        let bytes = self.fill();
        let end = memchr(b'\n', &self.buffer[kept..self.filled]).map_or(self.filled, |end| kept + end);
        let both = long.get_or_insert_with(|| {
            hash.update(&self.buffer[*hashed..self.line]);
            LongLine { before: hash.clone(), line: Sha256::new_with_prefix(&self.buffer[self.line..kept]) }
        });
        hash.update(&self.buffer[(*hashed).max(self.line)..end]);
        both.line.update(&self.buffer[kept..end]);
        *hashed = kept;
        let dropped = (end - kept) as u64;
        self.buffer.copy_within(end..self.filled, kept);
        self.filled -= end - kept;
        match self.elisions.last_mut() {
            Some(elision) if elision.at == kept => elision.bytes += dropped,
            _ => self.elisions.push(Elision { at: kept, bytes: dropped }),
        }
        bytes
    }

    /// What is left at the end of the text: whole lines, then the last one without its end.
    fn last(&mut self, hash: Sha256, hashed: usize, long: Option<LongLine>) -> Result<Option<Shard>, ReadError> {
        if self.line > 0 {
            let digest = if let Some(LongLine { before, line }) = long {
                self.last_digest = Some(line.finalize().into());
                Some(before.finalize().into())
            } else {
                self.last_digest = None;
                self.digest(hash, hashed.min(self.line), self.line)
            };
            return Ok(Some(self.take(self.line, true, digest)));
        }
        if let Some(failure) = self.failure.take() {
            self.filled = 0;
            self.elisions.clear();
            return Err(failure);
        }
        if self.filled == 0 {
            return Ok(None);
        }
        let digest = self.last_digest.take().or_else(|| long.map(|long| long.line.finalize().into()));
        Ok(Some(self.take(self.filled, false, digest)))
    }

    /// The hash up to `end`, unless nothing was hashed ahead: then no byte was dropped either, and the shard can make it.
    fn digest(&self, mut hash: Sha256, hashed: usize, end: usize) -> Option<[u8; 32]> {
        (self.cut.hash_ahead || hashed > 0).then(|| {
            hash.update(&self.buffer[hashed..end]);
            hash.finalize().into()
        })
    }

    /// The kept text up to `end` as a shard; the rest is carried over.
    fn take(&mut self, end: usize, ended: bool, sha256: Option<[u8; 32]>) -> Shard {
        let rest = self.filled - end;
        let mut next = self.new_buffer();
        if next.len() < rest {
            next.resize(rest, 0);
        }
        next[..rest].copy_from_slice(&self.buffer[end..self.filled]);
        let mut text = std::mem::replace(&mut self.buffer, next);
        text.truncate(end);
        self.filled = rest;
        self.line = 0;
        let of_shard = self.elisions.iter().take_while(|elision| elision.at < end || !ended).count();
        let elisions: Vec<Elision> = self.elisions.drain(..of_shard).collect();
        for elision in &mut self.elisions {
            elision.at -= end;
        }
        let (pieces, lines) = pieces(&text, &elisions, &self.cut);
        let bytes = text.len() as u64 + elisions.iter().map(|elision| elision.bytes).sum::<u64>();
        let cut = self.cut.clone();
        self.cut.start += bytes;
        self.cut.first_line += lines;
        let sha256 = sha256.map_or_else(OnceLock::new, OnceLock::from);
        Shard { cut, bytes, lines, sha256, ended, text, elisions, pieces, buffers: Arc::clone(&self.buffers) }
    }
}

/// The pieces of a shard, and how many lines they have.
fn pieces(text: &[u8], elisions: &[Elision], cut: &Cut) -> (Vec<Piece>, u64) {
    let mut pieces = Vec::with_capacity(text.len() / PIECE + 1);
    let (mut begin, mut lines) = (0, 0);
    while begin < text.len() {
        let least = (begin + PIECE).min(text.len());
        let end = memchr(b'\n', &text[least - 1..]).map_or(text.len(), |end| least + end);
        let before: u64 = elisions.iter().filter(|elision| elision.at < begin).map(|elision| elision.bytes).sum();
        pieces.push(Piece { range: begin..end, first_line: cut.first_line + lines, offset: cut.start + begin as u64 + before });
        lines += memchr_iter(b'\n', &text[begin..end]).count() as u64;
        begin = end;
    }
    let open = u64::from(text.last().is_some_and(|last| *last != b'\n'));
    (pieces, lines + open)
}
