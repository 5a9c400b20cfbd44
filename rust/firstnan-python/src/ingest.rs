//! Lines of a source to tables. `python/firstnan/_core.pyi` documents the classes.

use std::fs::File;
use std::io;
#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use firstnan_core::{Error, ErrorKind, KINDS};
use firstnan_ingest::{
    Cut, Decoded as Tables, Input, Next, ReadError, Shard as CoreShard, Shards, decode, schema_of_kind, schema_of_quarantine,
};
use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString};

use crate::arrow::{ArrowTable, arrow_error};
use crate::errors::Outcome;
use crate::records::known_kind;

/// How long a wait goes on before Python may handle a signal.
const PATIENCE: Duration = Duration::from_millis(100);
/// The largest bounds that a caller may set; memory follows them.
const MAX_SHARD_BYTES: u64 = 1 << 30;
const MAX_LINE_BYTES: u64 = 1 << 28;
const MAX_THREADS: u64 = 1_024;

/// The text of a source, cut into shards.
#[pyclass(module = "firstnan._core", frozen)]
pub struct LineReader {
    name: String,
    shards: Mutex<Option<Shards>>,
}

#[pymethods]
impl LineReader {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "named in Python")]
    #[pyo3(signature = (file, *, name, head = None, kind = None, start = 0, first_line = 1, shard_bytes = 16_777_216,
        max_line_bytes = 1_048_576, hash_ahead = true))]
    fn new(
        file: &Bound<'_, PyAny>,
        name: String,
        head: Option<Vec<u8>>,
        kind: Option<&Bound<'_, PyAny>>,
        start: u64,
        first_line: u64,
        shard_bytes: u64,
        max_line_bytes: u64,
        hash_ahead: bool,
    ) -> Outcome<Self> {
        let kind = kind.map(known_kind).transpose()?;
        bounded("shard_bytes", shard_bytes, 1, MAX_SHARD_BYTES)?;
        bounded("max_line_bytes", max_line_bytes, 1, MAX_LINE_BYTES)?;
        bounded("start", start, 0, u64::MAX >> 1)?;
        bounded("first_line", first_line, 1, u64::MAX >> 1)?;
        let max_line_bytes = usize::try_from(max_line_bytes).unwrap_or(usize::MAX);
        let cut = Cut { source: name.as_str().into(), kind, start, first_line, shard_bytes, max_line_bytes, hash_ahead };
        let input = input(file, &name, head.unwrap_or_default())?;
        Ok(Self { name, shards: Mutex::new(Some(Shards::of(input, cut))) })
    }

    fn next_shard(&self, py: Python<'_>) -> Outcome<Option<Shard>> {
        loop {
            let next = py.detach(|| {
                let shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
                shards.as_ref().map_or(Next::End, |shards| shards.next(PATIENCE))
            });
            match next {
                Next::Shard(shard) => return Ok(Some(Shard { inner: *shard })),
                Next::Waiting => py.check_signals()?,
                Next::End => return Ok(None),
                Next::Failed(ReadError::Refused(error)) => return Err(error.into()),
                Next::Failed(ReadError::Io(error)) => return Err(os_error(py, &error, &self.name).into()),
            }
        }
    }

    /// Gives up what was read ahead; there are no more shards.
    fn close(&self) {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// A part of a text.
#[pyclass(module = "firstnan._core", frozen)]
pub struct Shard {
    inner: CoreShard,
}

#[pymethods]
impl Shard {
    #[getter]
    fn source(&self) -> &str {
        &self.inner.cut.source
    }

    #[getter]
    fn kind(&self) -> Option<&'static str> {
        self.inner.cut.kind.map(|kind| KINDS[kind])
    }

    #[getter]
    fn start(&self) -> u64 {
        self.inner.cut.start
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.inner.bytes
    }

    #[getter]
    fn first_line(&self) -> u64 {
        self.inner.cut.first_line
    }

    #[getter]
    fn lines(&self) -> u64 {
        self.inner.lines
    }

    #[getter]
    fn sha256(&self, py: Python<'_>) -> String {
        use std::fmt::Write;
        py.detach(|| self.inner.sha256()).iter().fold(String::with_capacity(64), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }

    #[getter]
    fn ended(&self) -> bool {
        self.inner.ended
    }

    #[pyo3(signature = (*, threads = None))]
    fn decode(&self, py: Python<'_>, threads: Option<u64>) -> Outcome<Decoded> {
        bounded("threads", threads.unwrap_or(1), 1, MAX_THREADS)?;
        let threads = threads.and_then(|threads| usize::try_from(threads).ok());
        let threads = threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
        let inner = py.detach(|| decode(&self.inner, threads)).map_err(|error| arrow_error(&error))?;
        Ok(Decoded { inner })
    }
}

/// What became of the lines of a shard.
#[pyclass(module = "firstnan._core", frozen)]
pub struct Decoded {
    inner: Tables,
}

#[pymethods]
impl Decoded {
    #[getter]
    fn lines(&self) -> u64 {
        self.inner.lines
    }

    #[getter]
    fn records(&self) -> u64 {
        self.inner.records
    }

    #[getter]
    fn quarantined(&self) -> u64 {
        self.inner.quarantined
    }

    #[getter]
    fn blank(&self) -> u64 {
        self.inner.blank
    }

    #[getter]
    fn kinds(&self) -> Vec<&'static str> {
        self.inner.tables.iter().map(|(kind, _)| KINDS[*kind]).collect()
    }

    fn table(&self, kind: &Bound<'_, PyAny>) -> Outcome<ArrowTable> {
        let kind = known_kind(kind)?;
        let schema = schema_of_kind(kind).map_err(|error| arrow_error(&error))?;
        let batches = self.inner.tables.iter().find(|(of, _)| *of == kind).map_or_else(Vec::new, |(_, batches)| batches.clone());
        Ok(ArrowTable::new(schema, batches))
    }

    fn quarantine(&self) -> Outcome<ArrowTable> {
        let schema = schema_of_quarantine().map_err(|error| arrow_error(&error))?;
        Ok(ArrowTable::new(schema, self.inner.quarantine.clone()))
    }
}

#[pyfunction]
pub fn table_of_kind(kind: &Bound<'_, PyAny>) -> Outcome<ArrowTable> {
    let schema = schema_of_kind(known_kind(kind)?).map_err(|error| arrow_error(&error))?;
    Ok(ArrowTable::new(schema, Vec::new()))
}

#[pyfunction]
pub fn table_of_quarantine() -> Outcome<ArrowTable> {
    let schema = schema_of_quarantine().map_err(|error| arrow_error(&error))?;
    Ok(ArrowTable::new(schema, Vec::new()))
}

fn bounded(name: &'static str, value: u64, least: u64, most: u64) -> Outcome<()> {
    let error = |kind, bound: u64| Err(Error::new(kind).bound(bound).at(name).into());
    match value {
        _ if value < least => error(ErrorKind::Minimum, least),
        _ if value > most => error(ErrorKind::Maximum, most),
        _ => Ok(()),
    }
}

/// A path, an open descriptor of which `head` was read before, or bytes.
fn input(file: &Bound<'_, PyAny>, name: &str, head: Vec<u8>) -> Outcome<Input> {
    if file.cast_exact::<PyInt>().is_ok() {
        return Ok(Input::Open(duplicate(file, name)?, head));
    }
    if !head.is_empty() {
        return Err(PyTypeError::new_err("head is of a descriptor").into());
    }
    if let Ok(bytes) = file.cast::<PyBytes>() {
        return Ok(Input::Bytes(bytes.as_bytes().to_vec()));
    }
    if file.hasattr("__fspath__")? || file.cast::<PyString>().is_ok() {
        let (py, path) = (file.py(), file.extract::<PathBuf>()?);
        // A named pipe opens when its writer does.
        return Ok(Input::Open(py.detach(|| File::open(path)).map_err(|error| os_error(py, &error, name))?, head));
    }
    Err(PyTypeError::new_err("a source is a path, a descriptor or bytes").into())
}

/// The descriptor again, of our own: the caller may close the first one while a thread reads.
#[cfg(unix)]
fn duplicate(file: &Bound<'_, PyAny>, name: &str) -> PyResult<File> {
    let descriptor: i32 = file.extract()?;
    if descriptor < 0 {
        return Err(PyValueError::new_err("a descriptor is not negative"));
    }
    // SAFETY: the descriptor is not -1, and is used for this one call only, which fails where it is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let owned = borrowed.try_clone_to_owned().map_err(|error| os_error(file.py(), &error, name))?;
    Ok(File::from(owned))
}

#[cfg(not(unix))]
fn duplicate(_: &Bound<'_, PyAny>, _: &str) -> PyResult<File> {
    Err(PyValueError::new_err("descriptors can be read on Unix only"))
}

/// The `OSError` of its number, with the name of the source.
fn os_error(py: Python<'_>, error: &io::Error, name: &str) -> PyErr {
    let Some(number) = error.raw_os_error() else { return PyOSError::new_err(format!("{name}: {error}")) };
    match py.import("os").and_then(|os| os.call_method1("strerror", (number,))) {
        Ok(words) => PyOSError::new_err((number, words.unbind(), name.to_owned())),
        Err(error) => error,
    }
}
