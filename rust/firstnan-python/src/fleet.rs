//! Bulk triage for Python: two Arrow streams in, tables of verdicts out.

use std::sync::{Mutex, PoisonError};
use std::thread;

use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_schema::ArrowError;
use firstnan_ingest::{BulkTriage as Inner, schema_of_verdicts};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow::{ArrowTable, stream};

type Streams = Inner<RecordBatchStreamReader, RecordBatchStreamReader>;

/// The verdicts of a fleet, batch after batch.
#[pyclass(module = "firstnan._core", frozen)]
pub struct BulkTriage(Mutex<Streams>);

#[pymethods]
impl BulkTriage {
    #[new]
    fn new(py: Python<'_>, contracts: &Bound<'_, PyAny>, telemetry: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (contracts, telemetry) = (stream(contracts)?, stream(telemetry)?);
        let threads = thread::available_parallelism().map_or(1, usize::from);
        py.detach(|| Inner::new(contracts, telemetry, threads))
            .map(|inner| Self(Mutex::new(inner)))
            .map_err(|error| refused(&error))
    }

    fn next_table(&self, py: Python<'_>) -> PyResult<Option<ArrowTable>> {
        let batch = py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).next_batch());
        Ok(batch.map_err(|error| refused(&error))?.map(|batch| ArrowTable::new(batch.schema(), vec![batch])))
    }
}

/// The table of verdicts without rows.
#[pyfunction]
pub fn table_of_verdicts() -> PyResult<ArrowTable> {
    Ok(ArrowTable::new(schema_of_verdicts().map_err(|error| refused(&error))?, Vec::new()))
}

fn refused(error: &ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
