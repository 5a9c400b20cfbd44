//! The quarantine table: what was refused, where, why, and its bytes.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, Field, Schema};
use firstnan_core::{Error, KINDS};

use crate::rows::{Place, Places, column};
use crate::texts::{Texts, offsets};

/// The growing rows.
#[derive(Default)]
pub(crate) struct Quarantine {
    places: Places,
    raw: Vec<u8>,
    raw_ends: Vec<i32>,
    raw_bytes: Vec<i64>,
    kinds: Texts,
    kind_known: Vec<bool>,
    layers: Texts,
    errors: Texts,
    pointers: Texts,
    messages: Texts,
}

impl Quarantine {
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Adds a line: the bytes of it that are kept, and how many it had.
    pub fn push(&mut self, place: Place, raw: &[u8], raw_bytes: u64, kind: Option<usize>, error: &Error) {
        self.places.push(place);
        self.raw.extend_from_slice(raw);
        self.raw_ends.push(i32::try_from(self.raw.len()).unwrap_or(-1));
        self.raw_bytes.push(i64::try_from(raw_bytes).unwrap_or(i64::MAX));
        self.kinds.push(kind.map_or("", |kind| KINDS[kind]));
        self.kind_known.push(kind.is_some());
        self.layers.push(error.layer().name());
        self.errors.push(error.kind().name());
        self.pointers.push(error.pointer());
        self.messages.push(&error.to_string());
    }

    pub fn finish(self, source: &str) -> Result<RecordBatch, ArrowError> {
        let mut columns = self.places.finish(source)?;
        let raw = BinaryArray::try_new(offsets(self.raw_ends)?, self.raw.into(), None)?;
        columns.push(column("raw", Arc::new(raw), false));
        columns.push(column("raw_bytes", Arc::new(Int64Array::from(self.raw_bytes)), false));
        columns.push(column("kind", self.kinds.finish(Some(NullBuffer::from(self.kind_known)))?, true));
        for (name, texts) in
            [("layer", self.layers), ("error", self.errors), ("pointer", self.pointers), ("message", self.messages)]
        {
            columns.push(column(name, texts.finish(None)?, false));
        }
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
    }
}
