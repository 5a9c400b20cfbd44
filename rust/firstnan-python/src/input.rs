//! Text that comes in as `bytes`, `str` or anything with the buffer protocol.

use std::ops::Deref;

use firstnan_core::{Error, ErrorKind};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::errors::Outcome;
use crate::native;

/// From this length on the interpreter is let go while the core works; hashlib's own threshold.
const DETACH_FROM: usize = 2048;

/// Bytes that no one changes while they are read.
pub enum Input<'a> {
    /// Of `bytes` or `str`, which are immutable.
    Lent(&'a [u8]),
    /// Of a buffer that another thread may write to.
    Copied(Vec<u8>),
}

impl<'a> Input<'a> {
    /// The bytes of an argument; of a `str`, its UTF-8.
    pub fn new(data: &'a Bound<'_, PyAny>) -> Outcome<Self> {
        if let Ok(bytes) = data.cast::<PyBytes>() {
            return Ok(Self::Lent(bytes.as_bytes()));
        }
        if let Ok(text) = data.cast::<PyString>() {
            return Ok(Self::Lent(native::utf8(text.as_borrowed())?.as_bytes()));
        }
        let buffer = PyBuffer::<u8>::get(data).map_err(|_| Error::new(ErrorKind::Type).bound("bytes or str"))?;
        Ok(Self::Copied(buffer.to_vec(data.py())?))
    }

    /// Runs work of the core on the bytes, without the interpreter where they are many.
    pub fn work<'b, T: Send>(&'b self, py: Python<'_>, work: impl FnOnce(&'b [u8]) -> T + Send) -> T {
        let bytes: &[u8] = self;
        if bytes.len() < DETACH_FROM { work(bytes) } else { py.detach(|| work(bytes)) }
    }
}

impl Deref for Input<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Copied(bytes) => bytes,
        }
    }
}
