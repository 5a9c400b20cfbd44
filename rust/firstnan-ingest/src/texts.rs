//! Growing columns of text.

use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use firstnan_core::canonical;

/// Text of any length, its ends and its bytes.
#[derive(Default)]
pub(crate) struct Texts {
    ends: Vec<i32>,
    bytes: Vec<u8>,
}

impl Texts {
    /// An empty column with room for as much text as this one has.
    pub fn like(&self) -> Self {
        Self { ends: room(&self.ends), bytes: room(&self.bytes) }
    }

    pub fn push(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        self.end();
    }

    pub fn push_integer(&mut self, value: i64) {
        canonical::write_integer(value, &mut self.bytes);
        self.end();
    }

    pub fn end(&mut self) {
        // Beyond the range `finish` refuses the column.
        self.ends.push(i32::try_from(self.bytes.len()).unwrap_or(-1));
    }

    pub fn finish(self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(StringArray::try_new(offsets(self.ends)?, self.bytes.into(), nulls)?))
    }
}

/// An empty vector with room for as many values as this one has, and a few more.
pub(crate) fn room<T>(of: &[T]) -> Vec<T> {
    Vec::with_capacity(of.len() + of.len() / 16)
}

/// The offsets of a list from the ends of its items, -1 where one is out of range.
pub(crate) fn offsets(ends: Vec<i32>) -> Result<OffsetBuffer<i32>, ArrowError> {
    if ends.contains(&-1) {
        return Err(ArrowError::OffsetOverflowError(i32::MAX as usize));
    }
    let mut all = Vec::with_capacity(ends.len() + 1);
    all.push(0);
    all.extend(ends);
    Ok(OffsetBuffer::new(ScalarBuffer::from(all)))
}
