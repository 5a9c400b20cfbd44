//! The rows of one kind: where each line came from, its identity, its envelope, and the fields of its record.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, FixedSizeBinaryArray, Int32Array, Int64Array, RecordBatch, StringArray, new_null_array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use firstnan_core::{Envelope, KIND_TYPES, Record, Result, Taker};
use sha2::{Digest, Sha256};

use crate::columns::Columns;
use crate::texts::{Texts, room};

const DIGEST_BYTES: i32 = 32;

/// Where a line stands.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// Counted from 1.
    pub number: u64,
    /// Of its first byte in the text.
    pub offset: u64,
}

/// The growing numbers and offsets of lines.
#[derive(Default)]
pub(crate) struct Places {
    numbers: Vec<i64>,
    offsets: Vec<i64>,
}

impl Places {
    fn like(&self) -> Self {
        Self { numbers: room(&self.numbers), offsets: room(&self.offsets) }
    }

    pub fn push(&mut self, place: Place) {
        // A text of 2^63 bytes is out of reach.
        self.numbers.push(i64::try_from(place.number).unwrap_or(i64::MAX));
        self.offsets.push(i64::try_from(place.offset).unwrap_or(i64::MAX));
    }

    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// `line_source`, `line_number`, `line_offset`.
    pub fn finish(self, source: &str) -> std::result::Result<Vec<(Field, ArrayRef)>, ArrowError> {
        let keys = Int32Array::from(vec![0; self.len()]);
        let names = Arc::new(StringArray::from(vec![source]));
        let source = DictionaryArray::<Int32Type>::try_new(keys, names)?;
        Ok(vec![
            column("line_source", Arc::new(source), false),
            column("line_number", Arc::new(Int64Array::from(self.numbers)), false),
            column("line_offset", Arc::new(Int64Array::from(self.offsets)), false),
        ])
    }
}

pub(crate) fn column(name: &str, array: ArrayRef, nullable: bool) -> (Field, ArrayRef) {
    (Field::new(name, array.data_type().clone(), nullable), array)
}

/// The envelopes of as many rows as are counted; rows of bare records after the last enveloped one are not yet in it.
#[derive(Default)]
struct Envelopes {
    valid: Vec<bool>,
    numbers: [Vec<i64>; 4],
    source: Texts,
}

const ENVELOPE_NUMBERS: [&str; 4] = ["envelope_rank", "envelope_world_size", "envelope_attempt", "envelope_sequence"];

impl Envelopes {
    fn like(&self) -> Self {
        Self {
            valid: room(&self.valid),
            numbers: self.numbers.each_ref().map(|numbers| room(numbers)),
            source: self.source.like(),
        }
    }

    fn pad(&mut self, rows: usize) {
        let missing = rows.saturating_sub(self.valid.len());
        self.valid.resize(rows, false);
        for numbers in &mut self.numbers {
            numbers.resize(rows, 0);
        }
        for _ in 0..missing {
            self.source.end();
        }
    }

    fn push(&mut self, row: usize, envelope: &Envelope<'_>) {
        self.pad(row);
        self.valid.push(true);
        let values = [envelope.rank, envelope.world_size, envelope.attempt, envelope.sequence];
        for (numbers, value) in self.numbers.iter_mut().zip(values) {
            numbers.push(value);
        }
        self.source.push(&envelope.source);
    }

    fn finish(mut self, rows: usize) -> std::result::Result<Vec<(Field, ArrayRef)>, ArrowError> {
        let mut columns = Vec::new();
        if self.valid.is_empty() {
            for name in ENVELOPE_NUMBERS {
                columns.push(column(name, new_null_array(&DataType::Int64, rows), true));
            }
            columns.push(column("envelope_source", new_null_array(&DataType::Utf8, rows), true));
            return Ok(columns);
        }
        self.pad(rows);
        let nulls = Some(NullBuffer::from(self.valid));
        for (name, numbers) in ENVELOPE_NUMBERS.into_iter().zip(self.numbers) {
            columns.push(column(name, Arc::new(Int64Array::try_new(numbers.into(), nulls.clone())?), true));
        }
        columns.push(column("envelope_source", self.source.finish(nulls)?, true));
        Ok(columns)
    }
}

/// Adds one row; `scratch` takes the record's canonical bytes.
pub(crate) struct NewRow<'r> {
    pub rows: &'r mut Rows,
    pub place: Place,
    pub envelope: Option<&'r Envelope<'r>>,
    pub scratch: &'r mut Vec<u8>,
}

impl Taker for NewRow<'_> {
    type Out = Result<()>;

    fn take<'a, R: Record<'a>>(self, record: &R) -> Result<()> {
        let Self { rows, place, envelope, scratch } = self;
        scratch.clear();
        record.write(scratch)?;
        rows.digests.extend_from_slice(&Sha256::digest(scratch));
        if let Some(envelope) = envelope {
            rows.envelopes.push(rows.places.len(), envelope);
        }
        rows.places.push(place);
        rows.columns.next_row();
        record.visit(&mut rows.columns);
        Ok(())
    }
}

/// The growing rows of one kind.
pub(crate) struct Rows {
    places: Places,
    digests: Vec<u8>,
    envelopes: Envelopes,
    columns: Columns,
}

impl Rows {
    pub fn new(kind: usize) -> Self {
        let columns = Columns::new(&KIND_TYPES[kind]);
        Self { places: Places::default(), digests: Vec::new(), envelopes: Envelopes::default(), columns }
    }

    /// No rows, with room for as many as these.
    pub fn like(&self) -> Self {
        Self {
            places: self.places.like(),
            digests: room(&self.digests),
            envelopes: self.envelopes.like(),
            columns: self.columns.like(),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// The table: where from, identity, envelope, then the fields in the order of the schema.
    pub fn finish(self, source: &str) -> std::result::Result<RecordBatch, ArrowError> {
        let rows = self.places.len();
        let mut columns = self.places.finish(source)?;
        let digests = FixedSizeBinaryArray::try_new(DIGEST_BYTES, self.digests.into(), None)?;
        columns.push(column("record_sha256", Arc::new(digests), false));
        columns.extend(self.envelopes.finish(rows)?);
        let record = self.columns.finish()?;
        let (mut fields, mut arrays): (Vec<Arc<Field>>, Vec<ArrayRef>) =
            columns.into_iter().map(|(field, array)| (Arc::new(field), array)).unzip();
        fields.extend(record.schema().fields().iter().cloned());
        arrays.extend(record.columns().iter().cloned());
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
    }
}
