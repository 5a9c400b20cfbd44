//! Counting the elements of a block of memory that another library holds.

use std::num::NonZeroUsize;
use std::slice;

use firstnan_core::finite::{Counts, Format, Strided, count_strided, count_with_threads};
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// checked, nan, positive infinity, negative infinity, largest finite magnitude, index of the first non-finite.
pub type Row = (u64, u64, u64, u64, f64, Option<u64>);

/// Where the elements of an array lie.
pub struct Layout<'a> {
    /// Where that of all-zero indices starts; anything where there is none.
    pub first: *const u8,
    /// Elements along each axis.
    pub shape: &'a [usize],
    /// Bytes from one to the next along each axis.
    pub strides: &'a [isize],
}

pub fn row(counts: Counts) -> Row {
    (
        counts.checked,
        counts.nan,
        counts.positive_infinity,
        counts.negative_infinity,
        counts.maximum_absolute_finite,
        counts.first_nonfinite,
    )
}

pub fn unknown(what: &str) -> PyErr {
    PyTypeError::new_err(format!("dtype {what} holds no number that can be counted"))
}

pub fn too_large() -> PyErr {
    PyValueError::new_err("the array spans more memory than there can be")
}

/// Counts with the interpreter released.
///
/// # Safety
///
/// Every element that shape and strides reach, of the format's width, is memory of one block that stays readable during
/// the call, in this process and by the processor.
pub unsafe fn count_layout(
    py: Python<'_>,
    layout: &Layout<'_>,
    format: &'static Format,
    byte_swapped: bool,
    threads: NonZeroUsize,
) -> PyResult<Counts> {
    let &Layout { first, shape, strides } = layout;
    if shape.contains(&0) {
        return Ok(Counts::default());
    }
    if first.is_null() {
        return Err(PyBufferError::new_err("an array with elements points to no memory"));
    }
    let (mut below, mut above) = (0, format.width);
    for (&extent, &stride) in shape.iter().zip(strides) {
        let span = stride.unsigned_abs().checked_mul(extent - 1).ok_or_else(too_large)?;
        let end = if stride < 0 { &mut below } else { &mut above };
        *end = end.checked_add(span).ok_or_else(too_large)?;
    }
    let length = below.checked_add(above).filter(|&length| isize::try_from(length).is_ok()).ok_or_else(too_large)?;
    if shape.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent)).is_none() {
        return Err(too_large());
    }
    // SAFETY: the caller says that every element lies in one readable block; `below` and `above` are the farthest bytes
    // of them on either side of the first. Another thread may write meanwhile: that no reference forbids is documented to
    // the user ("nothing may write during the call"), as in hashlib and numpy; no index, length or branch that guards
    // memory is computed from what is read, so that a torn value can only give a wrong count.
    let bytes = unsafe { slice::from_raw_parts(first.sub(below), length) };
    let contiguous = is_contiguous(shape, strides, format.width);
    Ok(py.detach(|| {
        if contiguous {
            count_with_threads(format, bytes, byte_swapped, threads)
        } else {
            count_strided(format, Strided { bytes, start: below, shape, strides }, byte_swapped, threads)
        }
    }))
}

/// Whether the elements follow each other in C order; of no axis of one element does the stride matter.
fn is_contiguous(shape: &[usize], strides: &[isize], width: usize) -> bool {
    let mut expected = width;
    shape.iter().zip(strides).rev().filter(|&(&extent, _)| extent != 1).all(|(&extent, &stride)| {
        let follows = stride >= 0 && stride.unsigned_abs() == expected;
        expected = expected.saturating_mul(extent);
        follows
    })
}
