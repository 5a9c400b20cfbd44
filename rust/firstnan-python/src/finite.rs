//! Counting the elements of a buffer where they lie.

use std::num::NonZeroUsize;
use std::slice;

use firstnan_core::finite::{Counts, Format, Strided, count_strided, count_with_threads};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// checked, nan, positive infinity, negative infinity, largest finite magnitude, index of the first non-finite.
type Row = (u64, u64, u64, u64, f64, Option<u64>);

/// Counts a buffer's elements, which are of the named dtype, or of the buffer's own format where no name is given.
#[pyfunction]
#[pyo3(signature = (source, dtype=None, *, byte_swapped=false, threads))]
pub fn count_finite(source: &Bound<'_, PyAny>, dtype: Option<&str>, byte_swapped: bool, threads: usize) -> PyResult<Row> {
    let py = source.py();
    let threads = NonZeroUsize::new(threads).ok_or_else(|| PyValueError::new_err("threads must be at least 1"))?;
    let buffer = PyUntypedBuffer::get(source)?;
    let (format, byte_swapped) = match dtype {
        Some(name) => (Format::named(name).ok_or_else(|| unknown(name))?, byte_swapped),
        None => described(&buffer)?,
    };
    if buffer.item_size() != format.width {
        return Err(PyBufferError::new_err("the buffer's items are not as wide as its dtype"));
    }
    let counts = count(py, &buffer, format, byte_swapped, threads)?;
    buffer.release(py);
    Ok((
        counts.checked,
        counts.nan,
        counts.positive_infinity,
        counts.negative_infinity,
        counts.maximum_absolute_finite,
        counts.first_nonfinite,
    ))
}

fn unknown(what: &str) -> PyErr {
    PyTypeError::new_err(format!("dtype {what} holds no number that can be counted"))
}

/// The dtype of a buffer by its format, in the letters of the struct module; and whether its byte order is not ours.
fn described(buffer: &PyUntypedBuffer) -> PyResult<(&'static Format, bool)> {
    let text = buffer.format().to_str().unwrap_or("?");
    let (order, letters) = match text.as_bytes() {
        [order @ (b'@' | b'=' | b'<' | b'>' | b'!'), ..] => (*order, &text[1..]),
        _ => (b'@', text),
    };
    let bits = buffer.item_size() * 8;
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

fn count(
    py: Python<'_>,
    buffer: &PyUntypedBuffer,
    format: &'static Format,
    byte_swapped: bool,
    threads: NonZeroUsize,
) -> PyResult<Counts> {
    if buffer.suboffsets().is_some() {
        return Err(PyBufferError::new_err("a buffer of pointers to rows (suboffsets) cannot be counted"));
    }
    let (shape, strides) = (buffer.shape(), buffer.strides());
    if shape.contains(&0) {
        return Ok(Counts::default());
    }
    let (mut below, mut above) = (0, format.width);
    for (&extent, &stride) in shape.iter().zip(strides) {
        let span = stride.unsigned_abs().checked_mul(extent - 1).ok_or_else(too_large)?;
        let end = if stride < 0 { &mut below } else { &mut above };
        *end = end.checked_add(span).ok_or_else(too_large)?;
    }
    let length = below.checked_add(above).filter(|&length| isize::try_from(length).is_ok()).ok_or_else(too_large)?;
    // SAFETY: by the buffer protocol the exporter holds every element that shape and strides reach, in one block of
    // memory, for as long as the buffer is not released; `below` and `above` are the farthest of them on either side.
    // The caller keeps the buffer until the counts are back. Another thread may write meanwhile: that no reference
    // forbids is documented to the user ("nothing may write during the call"), as in hashlib and numpy; no index, length
    // or branch that guards memory is computed from what is read, so that a torn value can only give a wrong count.
    let bytes = unsafe { slice::from_raw_parts(buffer.buf_ptr().cast::<u8>().cast_const().sub(below), length) };
    let contiguous = buffer.is_c_contiguous();
    Ok(py.detach(|| {
        if contiguous {
            count_with_threads(format, bytes, byte_swapped, threads)
        } else {
            count_strided(format, Strided { bytes, start: below, shape, strides }, byte_swapped, threads)
        }
    }))
}

fn too_large() -> PyErr {
    PyValueError::new_err("the array spans more memory than there can be")
}
