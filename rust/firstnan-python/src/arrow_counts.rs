//! Counting Arrow arrays where they lie, through the structures of the Arrow C data and stream interfaces.
//!
//! A reader of our own, since what is read of an array is three buffers: `arrow-array` would build and check all of it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::num::NonZeroUsize;
use std::{ptr, slice};

use firstnan_core::finite::{Bits, Counts, Format, count_bits, count_masked, count_with_threads};
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use super::finite::number_of_threads;
use super::memory::{Row, row, too_large};

const EXTENSION: &[u8] = b"ARROW:extension:name";

#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const u8,
    flags: i64,
    children_length: i64,
    children: *const *const Schema,
    dictionary: *const Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private: *mut c_void,
}

#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    buffers_length: i64,
    children_length: i64,
    buffers: *const *const u8,
    children: *const *const Array,
    dictionary: *const Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private: *mut c_void,
}

#[repr(C)]
struct Stream {
    get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private: *mut c_void,
}

/// A structure that the producer filled for us to release.
struct Owned<T: Releasable>(T);

trait Releasable {
    const EMPTY: Self;
    fn release(&mut self);
}

macro_rules! releasable {
    ($name:ident, $empty:expr) => {
        impl Releasable for $name {
            const EMPTY: Self = $empty;
            fn release(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: a release that is not null is to be called once; it sets itself to null.
                    unsafe { release(self) };
                }
            }
        }
    };
}

releasable!(
    Schema,
    Schema {
        format: ptr::null(),
        name: ptr::null(),
        metadata: ptr::null(),
        flags: 0,
        children_length: 0,
        children: ptr::null(),
        dictionary: ptr::null(),
        release: None,
        private: ptr::null_mut(),
    }
);
releasable!(
    Array,
    Array {
        length: 0,
        null_count: 0,
        offset: 0,
        buffers_length: 0,
        children_length: 0,
        buffers: ptr::null(),
        children: ptr::null(),
        dictionary: ptr::null(),
        release: None,
        private: ptr::null_mut(),
    }
);

impl<T: Releasable> Drop for Owned<T> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// What the elements are.
#[derive(Clone, Copy)]
enum Elements {
    Of(&'static Format),
    Bits,
}

/// Counts one array: the capsules `arrow_schema` and `arrow_array`, which go on owning it.
#[pyfunction]
#[pyo3(signature = (schema, array, *, threads))]
pub fn count_arrow_array(schema: &Bound<'_, PyCapsule>, array: &Bound<'_, PyCapsule>, threads: usize) -> PyResult<Row> {
    let py = array.py();
    let threads = number_of_threads(threads)?;
    // SAFETY: a capsule of this name points to this structure; the caller holds it, and its destructor releases.
    let schema = unsafe { schema.pointer_checked(Some(c"arrow_schema"))?.cast::<Schema>().as_ref() };
    // SAFETY: as above.
    let array = unsafe { array.pointer_checked(Some(c"arrow_array"))?.cast::<Array>().as_ref() };
    if schema.release.is_none() || array.release.is_none() {
        return Err(PyBufferError::new_err("an Arrow array that was released"));
    }
    // SAFETY: neither is released while the capsules are held.
    let elements = unsafe { elements_of(schema) }?;
    // SAFETY: as above.
    unsafe { count(py, elements, array, threads) }.map(row)
}

/// Counts the arrays of a stream one after the other: a capsule `arrow_array_stream`, which is read to its end.
#[pyfunction]
#[pyo3(signature = (stream, *, threads))]
pub fn count_arrow_stream(stream: &Bound<'_, PyCapsule>, threads: usize) -> PyResult<Row> {
    let threads = number_of_threads(threads)?;
    let py = stream.py();
    let stream = stream.pointer_checked(Some(c"arrow_array_stream"))?.cast::<Stream>().as_ptr();
    // SAFETY: a capsule of this name points to this structure; the caller holds it, and its destructor releases.
    let (get_schema, get_next, release) = unsafe { ((*stream).get_schema, (*stream).get_next, (*stream).release) };
    let (Some(get_schema), Some(get_next), Some(_)) = (get_schema, get_next, release) else {
        return Err(PyBufferError::new_err("an Arrow stream that was released"));
    };
    let mut schema = Owned(Schema::EMPTY);
    // SAFETY: the stream is not released, and what it fills is ours.
    let code = unsafe { get_schema(stream, &raw mut schema.0) };
    // SAFETY: right after the call.
    unsafe { told(stream, code) }?;
    // SAFETY: filled by the stream, and released when it falls out of scope.
    let elements = unsafe { elements_of(&schema.0) }?;
    let (mut sum, mut passed) = (Counts::default(), 0_u64);
    loop {
        let mut array = Owned(Array::EMPTY);
        let call = Call { get_next, stream, array: &raw mut array.0 };
        let code = py.detach(move || call.made());
        py.check_signals()?;
        // SAFETY: no other call on the stream came between.
        unsafe { told(stream, code) }?;
        if array.0.release.is_none() {
            return Ok(row(sum));
        }
        // SAFETY: filled by the stream, and released when it falls out of scope.
        let counts = unsafe { count(py, elements, &array.0, threads) }?;
        let moved = counts.first_nonfinite.map(|index| passed + index);
        sum = Counts { first_nonfinite: sum.first_nonfinite.or(moved), ..sum.merge(counts) };
        passed += array.0.length.unsigned_abs();
    }
}

/// A call for the next array, made with the interpreter released, for what the producer waits for may need it.
struct Call {
    get_next: unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int,
    stream: *mut Stream,
    array: *mut Array,
}

// SAFETY: the call is made on the thread that holds the stream; it is only carried past the interpreter's release.
unsafe impl Send for Call {}

impl Call {
    fn made(self) -> c_int {
        // SAFETY: the stream is not released, for the caller holds its capsule, and what it fills is the caller's.
        unsafe { (self.get_next)(self.stream, self.array) }
    }
}

/// The error of a stream, in its words.
///
/// # Safety
///
/// The stream is not released, and the code is of the last call.
unsafe fn told(stream: *mut Stream, code: c_int) -> PyResult<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: by the caller.
    let text = unsafe { (*stream).get_last_error }.map_or(ptr::null(), |ask| {
        // SAFETY: a call failed, and the stream is not released.
        unsafe { ask(stream) }
    });
    let text = if text.is_null() {
        String::new()
    } else {
        // SAFETY: text that ends with a zero and lives until the next call.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    Err(PyValueError::new_err(format!("the Arrow stream gave error {code}: {text}")))
}

/// The type of the elements.
///
/// # Safety
///
/// The schema is not released.
unsafe fn elements_of(schema: &Schema) -> PyResult<Elements> {
    let refused = |what: &str| PyTypeError::new_err(format!("an Arrow array of {what} holds no numbers that can be counted"));
    if schema.format.is_null() {
        return Err(PyBufferError::new_err("an Arrow schema without a format"));
    }
    if !schema.dictionary.is_null() {
        return Err(refused("a dictionary"));
    }
    // SAFETY: by the interface text that ends with a zero and lives as long as the schema.
    let text = unsafe { CStr::from_ptr(schema.format) }.to_str().unwrap_or("?");
    // SAFETY: by the caller.
    if unsafe { is_extension(schema.metadata) } {
        return Err(refused("an extension type"));
    }
    let name = match text {
        "b" => return Ok(Elements::Bits),
        "c" => "int8",
        "C" => "uint8",
        "s" => "int16",
        "S" => "uint16",
        "i" => "int32",
        "I" => "uint32",
        "l" => "int64",
        "L" => "uint64",
        "e" => "float16",
        "f" => "float32",
        "g" => "float64",
        "n" => return Err(refused("nulls alone")),
        "u" | "U" | "vu" => return Err(refused("strings")),
        "z" | "Z" | "vz" => return Err(refused("bytes")),
        _ if text.starts_with("w:") => return Err(refused("bytes")),
        _ if text.starts_with('+') => return Err(refused("a nested type (lists, structs, unions, tables)")),
        _ if text.starts_with('d') => return Err(refused("decimals")),
        _ if text.starts_with('t') => return Err(refused("dates, times or durations")),
        _ => return Err(refused(&format!("format {text:?}"))),
    };
    Ok(Elements::Of(Format::named(name).expect("a name of the table")))
}

/// Whether metadata name an extension type, whose storage may be no numbers.
///
/// # Safety
///
/// Null, or metadata as the C data interface encodes them.
unsafe fn is_extension(metadata: *const u8) -> bool {
    if metadata.is_null() {
        return false;
    }
    // SAFETY: the encoding has a number of 32 bits, of any alignment, where this is asked, for the caller promises it.
    let number = |at: *const u8| usize::try_from(unsafe { at.cast::<i32>().read_unaligned() }).unwrap_or(0);
    let mut at = metadata.wrapping_add(4);
    for index in 0..2 * number(metadata) {
        let (text, length) = (at.wrapping_add(4), number(at));
        // SAFETY: by the encoding so many bytes follow their number.
        if index % 2 == 0 && unsafe { slice::from_raw_parts(text, length) } == EXTENSION {
            return true;
        }
        at = text.wrapping_add(length);
    }
    false
}

/// Counts an array with the interpreter released.
///
/// # Safety
///
/// The array is not released during the call and is of the elements' type.
unsafe fn count(py: Python<'_>, elements: Elements, array: &Array, threads: NonZeroUsize) -> PyResult<Counts> {
    let bounds = || PyBufferError::new_err("an Arrow array whose length, offset or buffers are out of bounds");
    let length = usize::try_from(array.length).map_err(|_| bounds())?;
    let offset = usize::try_from(array.offset).map_err(|_| bounds())?;
    let end = offset.checked_add(length).ok_or_else(bounds)?;
    if array.buffers_length != 2 || array.buffers.is_null() || !array.dictionary.is_null() {
        return Err(bounds());
    }
    if length == 0 {
        return Ok(Counts::default());
    }
    // SAFETY: an array of numbers has two buffers, as was just seen.
    let [validity, values] = unsafe { *array.buffers.cast::<[*const u8; 2]>() };
    if values.is_null() {
        return Err(bounds());
    }
    let valid = (!validity.is_null() && array.null_count != 0).then(|| Bits {
        // SAFETY: by the interface the buffer holds a bit for each element from the first on, offset included.
        bytes: unsafe { slice::from_raw_parts(validity, end.div_ceil(8)) },
        offset,
    });
    let format = match elements {
        Elements::Bits => {
            // SAFETY: as of the validity.
            let bits = Bits { bytes: unsafe { slice::from_raw_parts(values, end.div_ceil(8)) }, offset };
            return Ok(py.detach(|| count_bits(bits, valid, length)));
        }
        Elements::Of(format) => format,
    };
    let size = length.checked_mul(format.width).filter(|&size| isize::try_from(size).is_ok()).ok_or_else(too_large)?;
    let before = offset.checked_mul(format.width).ok_or_else(too_large)?;
    // SAFETY: by the interface the buffer holds the elements from the first on, offset included. That another thread may
    // write meanwhile is as in `memory.rs`.
    let bytes = unsafe { slice::from_raw_parts(values.add(before), size) };
    let swapped = cfg!(target_endian = "big");
    Ok(py.detach(|| match valid {
        Some(valid) => count_masked(format, bytes, swapped, valid, threads),
        None => count_with_threads(format, bytes, swapped, threads),
    }))
}
