//! Counting what a `DLPack` capsule points to, as the header `dlpack.h` of version 1.1 lays it out.

use std::ffi::{CStr, c_void};
use std::slice;

use firstnan_core::finite::Format;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use super::finite::number_of_threads;
use super::memory::{Layout, Row, count_layout, row, too_large};

const UNVERSIONED: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const MAJOR: u32 = 1;
/// One value of less than eight bits a byte.
const PADDED: u64 = 1 << 2;
/// Memory of the host, and of the host pinned for CUDA or `ROCm`.
const ON_HOST: [i32; 3] = [1, 3, 11];

#[repr(C)]
struct Tensor {
    data: *const u8,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    manager_context: *mut c_void,
    deleter: *const c_void,
    flags: u64,
    tensor: Tensor,
}

/// Counts the tensor of a capsule, which goes on owning it.
#[pyfunction]
#[pyo3(signature = (capsule, *, threads))]
pub fn count_dlpack(capsule: &Bound<'_, PyCapsule>, threads: usize) -> PyResult<Row> {
    let threads = number_of_threads(threads)?;
    let (tensor, padded) = tensor_of(capsule)?;
    if !ON_HOST.contains(&tensor.device_type) {
        return Err(PyBufferError::new_err(format!("the tensor is on a device of DLPack's type {}", tensor.device_type)));
    }
    let format = format_of(tensor, padded)?;
    let ndim = usize::try_from(tensor.ndim).map_err(|_| PyBufferError::new_err("a tensor of fewer than 0 dimensions"))?;
    let (mut shape, mut strides): (Vec<usize>, Vec<isize>) = (Vec::new(), Vec::new());
    if ndim > 0 {
        if tensor.shape.is_null() {
            return Err(PyBufferError::new_err("a tensor without a shape"));
        }
        // SAFETY: by DLPack `shape` points to `ndim` numbers, which live as long as the tensor.
        let extents = unsafe { slice::from_raw_parts(tensor.shape, ndim) };
        shape = extents.iter().map(|&extent| usize::try_from(extent)).collect::<Result<_, _>>().map_err(|_| too_large())?;
        let width = format.width.cast_signed();
        if tensor.strides.is_null() {
            let mut step = width;
            strides = vec![0; ndim];
            for (stride, &extent) in strides.iter_mut().zip(&shape).rev() {
                *stride = step;
                step = isize::try_from(extent.max(1)).ok().and_then(|extent| step.checked_mul(extent)).ok_or_else(too_large)?;
            }
        } else {
            // SAFETY: as of the shape.
            let steps = unsafe { slice::from_raw_parts(tensor.strides, ndim) };
            let bytes = |&step: &i64| isize::try_from(step).ok().and_then(|step| step.checked_mul(width));
            strides = steps.iter().map(bytes).collect::<Option<_>>().ok_or_else(too_large)?;
        }
    }
    let offset = usize::try_from(tensor.byte_offset).map_err(|_| too_large())?;
    let layout = Layout { first: tensor.data.wrapping_add(offset), shape: &shape, strides: &strides };
    // SAFETY: the producer holds every element that shape and strides reach, from `data` and the offset on, until the
    // deleter is called; the capsule's destructor calls it, and the caller holds the capsule. The memory is the host's.
    let counts = unsafe { count_layout(capsule.py(), &layout, format, cfg!(target_endian = "big"), threads) }?;
    Ok(row(counts))
}

/// The tensor, and whether its values of less than eight bits lie one to a byte.
fn tensor_of<'a>(capsule: &'a Bound<'_, PyCapsule>) -> PyResult<(&'a Tensor, bool)> {
    if capsule.is_valid_checked(Some(VERSIONED)) {
        let pointer = capsule.pointer_checked(Some(VERSIONED))?.cast::<Versioned>();
        // SAFETY: a capsule of this name points to this structure, of which every version 1 has the same beginning; a
        // capsule that was consumed has another name, and the caller holds this one.
        let (major, flags) = unsafe { ((*pointer.as_ptr()).major, &raw const (*pointer.as_ptr()).flags) };
        if major != MAJOR {
            return Err(PyBufferError::new_err(format!("DLPack {major}, where {MAJOR} is read")));
        }
        // SAFETY: as above, now that the version is known.
        return Ok(unsafe { (&(*pointer.as_ptr()).tensor, *flags & PADDED != 0) });
    }
    let pointer = capsule
        .pointer_checked(Some(UNVERSIONED))
        .map_err(|_| PyBufferError::new_err("__dlpack__ gave no capsule of a tensor, or one that was consumed"))?;
    // SAFETY: a capsule of this name points to a structure that begins with the tensor.
    Ok((unsafe { pointer.cast::<Tensor>().as_ref() }, false))
}

fn format_of(tensor: &Tensor, padded: bool) -> PyResult<&'static Format> {
    let (code, bits) = (tensor.code, tensor.bits);
    let name = match (code, bits) {
        (0, _) => format!("int{bits}"),
        (1, _) => format!("uint{bits}"),
        (2, _) => format!("float{bits}"),
        (4, 16) => "bfloat16".to_owned(),
        (5, _) => format!("complex{bits}"),
        (6, 8) => "bool".to_owned(),
        (7, 8) => "float8_e3m4".to_owned(),
        (8, 8) => "float8_e4m3".to_owned(),
        (9, 8) => "float8_e4m3b11fnuz".to_owned(),
        (10, 8) => "float8_e4m3fn".to_owned(),
        (11, 8) => "float8_e4m3fnuz".to_owned(),
        (12, 8) => "float8_e5m2".to_owned(),
        (13, 8) => "float8_e5m2fnuz".to_owned(),
        (14, 8) => "float8_e8m0fnu".to_owned(),
        (15, 6) => "float6_e2m3fn".to_owned(),
        (16, 6) => "float6_e3m2fn".to_owned(),
        (17, 4) => "float4_e2m1fn".to_owned(),
        _ => String::new(),
    };
    let format = Format::named(&name).filter(|_| tensor.lanes == 1);
    let format = format.ok_or_else(|| {
        let lanes = tensor.lanes;
        PyTypeError::new_err(format!(
            "DLPack's type code {code} of {bits} bits and {lanes} lanes holds no number that can be counted"
        ))
    })?;
    if bits < 8 && !padded {
        return Err(PyTypeError::new_err(format!("{name} packed several to a byte cannot be counted")));
    }
    Ok(format)
}
