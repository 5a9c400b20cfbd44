//! Rows of an Arrow stream to lines. `python/firstnan/_core.pyi` documents the class.

use std::sync::{Mutex, PoisonError};

use arrow_array::ffi_stream::RecordBatchStreamReader;
use firstnan_ingest::RowLines as BatchLines;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::stream;
use crate::errors::Outcome;
use crate::records::known_kind;

/// Lines in parts of about so many bytes.
const ENOUGH: usize = 1 << 20;

/// The rows of a stream as lines.
#[pyclass(module = "firstnan._core", frozen)]
pub struct RowLines(Mutex<Rows>);

struct Rows {
    batches: RecordBatchStreamReader,
    open: Option<BatchLines>,
    kind: Option<usize>,
}

impl Rows {
    fn next_lines(&mut self) -> Outcome<Option<Vec<u8>>> {
        loop {
            if let Some(open) = &mut self.open
                && let Some(lines) = open.next_lines(ENOUGH)?
            {
                return Ok(Some(lines));
            }
            let Some(batch) = self.batches.next() else { return Ok(None) };
            let batch = batch.map_err(|error| PyValueError::new_err(error.to_string()))?;
            self.open = Some(BatchLines::new(&batch, self.kind)?);
        }
    }
}

#[pymethods]
impl RowLines {
    #[new]
    #[pyo3(signature = (rows, *, kind = None))]
    fn new(rows: &Bound<'_, PyAny>, kind: Option<&Bound<'_, PyAny>>) -> Outcome<Self> {
        let kind = kind.map(known_kind).transpose()?;
        Ok(Self(Mutex::new(Rows { batches: stream(rows)?, open: None, kind })))
    }

    fn next_lines<'py>(&self, py: Python<'py>) -> Outcome<Option<Bound<'py, PyBytes>>> {
        let lines = py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).next_lines())?;
        Ok(lines.map(|lines| PyBytes::new(py, &lines)))
    }
}
