//! Counting the elements of a buffer where they lie.

use std::num::NonZeroUsize;

use firstnan_core::finite::Format;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

use super::memory::{Layout, Row, count_layout, row, unknown};

/// Counts a buffer's elements, which are of the named dtype, or of the given or the buffer's own format.
#[pyfunction]
#[pyo3(signature = (source, dtype=None, *, format=None, byte_swapped=false, threads))]
pub fn count_finite(
    source: &Bound<'_, PyAny>,
    dtype: Option<&str>,
    format: Option<&str>,
    byte_swapped: bool,
    threads: usize,
) -> PyResult<Row> {
    let py = source.py();
    let threads = number_of_threads(threads)?;
    let buffer = PyUntypedBuffer::get(source)?;
    // The bytes of one element, where its format is given.
    let width = if format.is_some() { buffer.len_bytes() } else { buffer.item_size() };
    let (found, byte_swapped) = match dtype {
        Some(name) => (Format::named(name).ok_or_else(|| unknown(name))?, byte_swapped),
        None => described(format.unwrap_or_else(|| buffer.format().to_str().unwrap_or("?")), width)?,
    };
    if width != found.width {
        return Err(PyBufferError::new_err("the buffer's items are not as wide as its dtype"));
    }
    if buffer.suboffsets().is_some() {
        return Err(PyBufferError::new_err("a buffer of pointers to rows (suboffsets) cannot be counted"));
    }
    let first = buffer.buf_ptr().cast::<u8>().cast_const();
    let (shape, strides) = if format.is_some() { (&[][..], &[][..]) } else { (buffer.shape(), buffer.strides()) };
    // SAFETY: by the buffer protocol the exporter holds every element that shape and strides reach, in one block of memory,
    // for as long as the buffer is not released, which is below. Where a format is given, the one element is all bytes of
    // the buffer, which was asked for as contiguous.
    let counts = unsafe { count_layout(py, &Layout { first, shape, strides }, found, byte_swapped, threads) }?;
    buffer.release(py);
    Ok(row(counts))
}

/// The bound that Python has checked, as a type.
pub fn number_of_threads(threads: usize) -> PyResult<NonZeroUsize> {
    NonZeroUsize::new(threads).ok_or_else(|| PyValueError::new_err("threads must be at least 1"))
}

/// The dtype of a buffer by its format, in the letters of the struct module; and whether its byte order is not ours.
fn described(text: &str, width: usize) -> PyResult<(&'static Format, bool)> {
    let (order, letters) = match text.as_bytes() {
        [order @ (b'@' | b'=' | b'<' | b'>' | b'!'), ..] => (*order, &text[1..]),
        _ => (b'@', text),
    };
    let bits = width * 8;
    let name = match letters {
        "e" | "f" | "d" => format!("float{bits}"),
        "Zf" | "Zd" | "F" | "D" => format!("complex{bits}"),
        "?" => "bool".to_owned(),
        "b" | "h" | "i" | "l" | "q" | "n" => format!("int{bits}"),
        "B" | "H" | "I" | "L" | "Q" | "N" => format!("uint{bits}"),
        _ => return Err(unknown(&format!("of format {text:?}"))),
    };
    let big = match order {
        b'<' => false,
        b'>' | b'!' => true,
        _ => cfg!(target_endian = "big"),
    };
    Ok((Format::named(&name).ok_or_else(|| unknown(&name))?, big))
}
