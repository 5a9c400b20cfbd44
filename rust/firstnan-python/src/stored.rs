//! Counting arrays where a file stores them, and blocks of one that was unpacked from it.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use firstnan_core::finite::{Counts, Format, count};
use firstnan_core::stored::{Extent, Fault, Packing, ReadAt, count_extents, first_nonfinite_in_c_order};
use pyo3::exceptions::{PyEOFError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::memory::{Row, row};

/// dtype, whether it is big-endian, offset, bytes, the shape if in Fortran order, whether two elements share a byte.
type ExtentRow = (String, bool, u64, u64, Option<Vec<u64>>, bool);

/// How often the interpreter is asked for, to show how far it is and to see a Ctrl-C.
const TICK: Duration = Duration::from_millis(100);

/// A file open for reading at any offset.
#[pyclass(frozen, module = "firstnan._core")]
pub struct StoredFile {
    file: File,
}

#[pymethods]
impl StoredFile {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        Ok(Self { file: File::open(path)? })
    }

    /// The bytes of the file now.
    fn size(&self) -> PyResult<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Up to `length` bytes from `offset` on.
    fn read<'py>(&self, py: Python<'py>, offset: u64, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        // No more is set aside than the file has.
        let rest = usize::try_from(self.size()?.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut buffer = vec![0; length.min(rest)];
        let filled = py.detach(|| self.file.fill_at(&mut buffer, offset))?;
        Ok(PyBytes::new(py, &buffer[..filled]))
    }

    /// The counts of each extent, or the error that kept from them.
    #[pyo3(signature = (extents, *, threads, tick))]
    #[allow(clippy::needless_pass_by_value, reason = "pyo3 hands lists over")]
    fn count(
        &self,
        py: Python<'_>,
        extents: Vec<ExtentRow>,
        threads: usize,
        tick: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<Py<PyAny>>> {
        let threads = NonZeroUsize::new(threads).ok_or_else(|| PyValueError::new_err("threads must be at least 1"))?;
        let extents = extents.iter().map(described).collect::<PyResult<Vec<_>>>()?;
        let tick = tick.clone().unbind();
        let (mut last, mut raised) = (Instant::now(), None);
        let counted = py.detach(|| {
            count_extents(&self.file, &extents, threads, |read| {
                if last.elapsed() < TICK {
                    return true;
                }
                let told = Python::attach(|py| py.check_signals().and_then(|()| tick.call1(py, (read,))));
                last = Instant::now();
                raised = told.err();
                raised.is_none()
            })
        });
        match (counted, raised) {
            (_, Some(error)) => Err(error),
            (Ok(counted), None) => counted.into_iter().map(|counts| told(py, counts)).collect(),
            (Err(_), None) => Err(PyValueError::new_err("counting was stopped")),
        }
    }
}

fn described((dtype, byte_swapped, start, length, fortran, halves): &ExtentRow) -> PyResult<Extent> {
    let format = named(dtype)?;
    let length_fits = start.checked_add(*length).is_some() && length.is_multiple_of(format.width as u64);
    let packing = match fortran {
        _ if !length_fits => return Err(PyValueError::new_err("the extent is no whole number of elements of a file")),
        Some(shape) if elements_of(shape) != Some(length / format.width as u64) => {
            return Err(PyValueError::new_err("the extent does not have as many elements as its shape"));
        }
        Some(shape) => Packing::Fortran(shape.clone()),
        None if *halves => Packing::Halves,
        None => Packing::Plain,
    };
    Ok(Extent { format, byte_swapped: *byte_swapped, start: *start, length: *length, packing })
}

fn elements_of(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1_u64, |product, &extent| product.checked_mul(extent))
}

fn named(dtype: &str) -> PyResult<&'static Format> {
    Format::named(dtype).ok_or_else(|| PyValueError::new_err(format!("dtype {dtype} holds no number that can be counted")))
}

fn told(py: Python<'_>, counts: Result<Counts, Fault>) -> PyResult<Py<PyAny>> {
    Ok(match counts {
        Ok(counts) => row(counts).into_pyobject(py)?.into_any().unbind(),
        Err(Fault::Cut(at)) => PyEOFError::new_err(at).into_value(py).into_any(),
        Err(Fault::Read(error)) => as_error(error).into_value(py).into_any(),
    })
}

fn as_error(error: io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(code) => PyOSError::new_err((code, error.to_string())),
        None => error.into(),
    }
}

/// Counts elements of an array, in order from the one numbered `start` on; with a shape the order is Fortran's.
#[pyfunction]
#[pyo3(signature = (block, dtype, *, byte_swapped, start, fortran=None, best=None))]
#[allow(clippy::needless_pass_by_value, reason = "pyo3 hands lists over")]
pub fn count_block(
    py: Python<'_>,
    block: &[u8],
    dtype: &str,
    byte_swapped: bool,
    start: u64,
    fortran: Option<Vec<u64>>,
    best: Option<u64>,
) -> PyResult<Row> {
    let format = named(dtype)?;
    if !block.len().is_multiple_of(format.width) {
        return Err(PyValueError::new_err("the block is no whole number of elements"));
    }
    let end = start.checked_add((block.len() / format.width) as u64);
    if let Some(shape) = &fortran
        && elements_of(shape).is_none_or(|elements| end.is_none_or(|end| elements < end))
    {
        return Err(PyValueError::new_err("the block goes beyond its array's shape"));
    }
    Ok(row(py.detach(|| {
        let counts = count(format, block, byte_swapped);
        let first = match (&fortran, counts.first_nonfinite) {
            (Some(shape), Some(_)) => first_nonfinite_in_c_order(format, block, byte_swapped, shape, start, best),
            (_, first) => first.map(|first| start + first).into_iter().chain(best).min(),
        };
        Counts { first_nonfinite: first, ..counts }
    })))
}
