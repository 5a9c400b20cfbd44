//! The text of one source: an open file or bytes; plain, gzip or zstd, told by the first bytes.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firstnan_core::{Error, ErrorKind};
use flate2::bufread::MultiGzDecoder;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The frames that a zstd reader passes over (RFC 8878, 3.1.2); the low half of the first byte is free.
const ZSTD_SKIPPABLE: [u8; 3] = [0x2a, 0x4d, 0x18];
/// Bytes read from the source at a time where it is compressed.
const COMPRESSED_CHUNK: usize = 256 << 10;
/// From here on the text may not be more than `MOST_EXPANSION` times what was read for it.
const EXPANSION_FROM: u64 = 64 << 20;
const MOST_EXPANSION: u64 = 1_000;

/// Why a source cannot be read further.
#[derive(Debug)]
pub enum ReadError {
    /// The operating system says so.
    Io(io::Error),
    /// Its compressed form is broken, or decompresses to too much.
    Refused(Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Where the text comes from.
pub enum Input {
    /// An open file, pipe or terminal, read from where it stands, and the bytes that were read of it before.
    Open(File, Vec<u8>),
    /// Bytes in memory.
    Bytes(Vec<u8>),
}

/// The text after decompression.
pub struct Text {
    reader: Box<dyn Read + Send>,
    compressed: Option<Arc<AtomicU64>>,
    produced: u64,
}

/// Counts what goes through.
struct Counted<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.count.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

impl Text {
    /// The text from its byte `start` on; one that ends before is empty.
    ///
    /// # Errors
    ///
    /// The source cannot be read, or is not a whole gzip or zstd stream up to there.
    pub fn open(input: Input, start: u64) -> Result<Self, ReadError> {
        let mut text = match input {
            Input::Open(mut file, before) => {
                let seekable = before.is_empty() && file.metadata()?.is_file();
                let head = head(before, &mut file)?;
                if seekable && !is_compressed(&head) {
                    file.seek(SeekFrom::Current(-i64::try_from(head.len()).unwrap_or_default()))?;
                    file.seek(SeekFrom::Current(i64::try_from(start).unwrap_or(i64::MAX)))?;
                    return Ok(Self { reader: Box::new(file), compressed: None, produced: 0 });
                }
                Self::of(head, file)?
            }
            Input::Bytes(bytes) => {
                let mut bytes = Cursor::new(bytes);
                Self::of(head(Vec::new(), &mut bytes)?, bytes)?
            }
        };
        let mut left = start;
        let mut scratch = vec![0; COMPRESSED_CHUNK];
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(scratch.len());
            match text.read(&mut scratch[..most])? {
                0 => break,
                bytes => left -= bytes as u64,
            }
        }
        Ok(text)
    }

    fn of(head: Vec<u8>, rest: impl Read + Send + 'static) -> Result<Self, ReadError> {
        let gzip = head.starts_with(&GZIP);
        if !is_compressed(&head) {
            return Ok(Self { reader: Box::new(Cursor::new(head).chain(rest)), compressed: None, produced: 0 });
        }
        let count = Arc::new(AtomicU64::new(0));
        let whole = Counted { inner: Cursor::new(head).chain(rest), count: Arc::clone(&count) };
        let buffered = BufReader::with_capacity(COMPRESSED_CHUNK, whole);
        // A zstd frame that asks for a window above 128 MiB is refused by the decoder itself.
        let reader: Box<dyn Read + Send> =
            if gzip { Box::new(MultiGzDecoder::new(buffered)) } else { Box::new(zstd::Decoder::with_buffer(buffered)?) };
        Ok(Self { reader, compressed: Some(count), produced: 0 })
    }

    /// Reads some bytes; 0 at the end of the text.
    ///
    /// # Errors
    ///
    /// As [`Self::open`], or the text is over 1,000 times as long as what was read for it.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let bytes = loop {
            match self.reader.read(buffer) {
                Ok(bytes) => break bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if self.compressed.is_some() && error.raw_os_error().is_none() => {
                    return Err(ReadError::Refused(Error::new(ErrorKind::Compression)));
                }
                Err(error) => return Err(ReadError::Io(error)),
            }
        };
        self.produced += bytes as u64;
        if let Some(count) = &self.compressed
            && self.produced > EXPANSION_FROM
            && self.produced / MOST_EXPANSION > count.load(Ordering::Relaxed)
        {
            let bound = format_args!("{MOST_EXPANSION} times");
            return Err(ReadError::Refused(Error::new(ErrorKind::Expansion).bound(bound)));
        }
        Ok(bytes)
    }
}

/// The first four bytes or more, those that were read before among them; fewer where the source is shorter.
fn head(mut head: Vec<u8>, reader: &mut impl Read) -> io::Result<Vec<u8>> {
    reader.take(4_u64.saturating_sub(head.len() as u64)).read_to_end(&mut head)?;
    Ok(head)
}

fn is_compressed(head: &[u8]) -> bool {
    let skippable = head.len() >= 4 && head[0] & 0xf0 == 0x50 && head[1..4] == ZSTD_SKIPPABLE;
    head.starts_with(&GZIP) || head.starts_with(&ZSTD) || skippable
}
