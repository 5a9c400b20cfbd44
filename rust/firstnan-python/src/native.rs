//! The interpreter's functions that `PyO3` does not offer in the form needed here. All `unsafe` of the crate is here.

use std::cell::RefCell;
use std::ffi::c_int;
use std::mem;
use std::ptr;
use std::slice;

use arrayvec::ArrayVec;
use firstnan_core::{Error, ErrorKind};
use pyo3::exceptions::{PyMemoryError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString, PyTuple, PyType};
use pyo3::{Borrowed, ffi};

use crate::errors::{Failure, Outcome};

/// Is this the interpreter that the process started with? Its number is 0.
pub fn is_main_interpreter() -> bool {
    // SAFETY: a thread that runs Python code has an interpreter, whose number can always be asked.
    unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) == 0 }
}

/// The text of a string, subclass or not, as its content says; a lone surrogate has no UTF-8.
#[inline]
pub fn utf8<'a>(text: Borrowed<'a, '_, PyString>) -> Outcome<&'a str> {
    let mut length = 0;
    // SAFETY: the object is a str, and the result null with an error set, or its UTF-8 and the length of that.
    let start = unsafe { ffi::PyUnicode_AsUTF8AndSize(text.as_ptr(), &raw mut length) };
    if start.is_null() {
        return Err(no_utf8(text.py()));
    }
    // SAFETY: the object lives for 'a, and a str keeps its UTF-8 unchanged for as long as it lives.
    Ok(unsafe { str::from_utf8_unchecked(slice::from_raw_parts(start.cast(), length.unsigned_abs())) })
}

#[cold]
fn no_utf8(py: Python<'_>) -> Failure {
    let error = PyErr::fetch(py);
    if error.is_instance_of::<PyMemoryError>(py) { error.into() } else { Error::new(ErrorKind::LoneSurrogate).into() }
}

/// As [`utf8`] for any string: a lone surrogate is encoded like another code point, in three bytes.
pub fn wtf8<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyBytes>> {
    // SAFETY: the object is a str, and the result new bytes or null with an error set.
    let bytes = unsafe {
        let bytes = ffi::PyUnicode_AsEncodedString(text.as_ptr(), c"utf-8".as_ptr(), c"surrogatepass".as_ptr());
        Bound::from_owned_ptr_or_err(text.py(), bytes)
    }?;
    Ok(bytes.cast_into::<PyBytes>()?)
}

/// An integer of 64 bits, or the sign of a larger one. A subclass counts by its content.
#[inline]
pub fn integer(value: &Bound<'_, PyInt>) -> Result<i64, c_int> {
    let mut overflow = 0;
    // SAFETY: the object is an int, for which this runs no Python code and cannot fail.
    let result = unsafe { ffi::PyLong_AsLongLongAndOverflow(value.as_ptr(), &raw mut overflow) };
    if overflow == 0 { Ok(result) } else { Err(overflow) }
}

/// How many bits the magnitude of an int has, by its content.
pub fn bit_length(value: &Bound<'_, PyInt>) -> PyResult<usize> {
    let py = value.py();
    py.get_type::<PyInt>().call_method1(pyo3::intern!(py, "bit_length"), (value,))?.extract()
}

/// `hex(value)` of an int by its content, whatever a subclass makes of `str`. Python's limit on digits is for decimal ones.
pub fn hexadecimal<'py>(value: &Bound<'py, PyInt>) -> PyResult<Bound<'py, PyString>> {
    // SAFETY: the object is an int, and the result a new str or null with an error set.
    let text = unsafe { Bound::from_owned_ptr_or_err(value.py(), ffi::PyNumber_ToBase(value.as_ptr(), 16)) }?;
    Ok(text.cast_into::<PyString>()?)
}

/// The elements of any sequence, an exact list's as one snapshot. Of a subclass it is what iterating gives.
#[inline]
pub fn elements<'py>(sequence: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
    // SAFETY: a live object goes in, and a new tuple or null with an error set comes out.
    let tuple = unsafe { Bound::from_owned_ptr_or_err(sequence.py(), ffi::PySequence_Tuple(sequence.as_ptr())) }?;
    Ok(tuple.cast_into::<PyTuple>()?)
}

/// A key and its value.
pub type Entry<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// The keys and values of an exact dict, as one snapshot.
#[inline]
pub fn entries<'py>(dict: &Bound<'py, PyDict>) -> Outcome<Vec<Entry<'py>>> {
    let py = dict.py();
    let mut entries = Vec::new();
    entries.try_reserve_exact(dict.len()).map_err(|_| Error::new(ErrorKind::Memory))?;
    with_critical_section(dict, || {
        let (mut position, mut key, mut value) = (0, ptr::null_mut(), ptr::null_mut());
        // SAFETY: the object is a dict, and nothing that could change it runs during the loop: no Python code, and no
        // other thread, by the GIL or the critical section.
        while unsafe { ffi::PyDict_Next(dict.as_ptr(), &raw mut position, &raw mut key, &raw mut value) } != 0 {
            // SAFETY: both are live, since the dict holds them.
            entries.push(unsafe { (Bound::from_borrowed_ptr(py, key), Bound::from_borrowed_ptr(py, value)) });
        }
    });
    Ok(entries)
}

/// A value that no Python code is behind: exactly str (with UTF-8), int (of 64 bits), float, bool or None.
#[derive(Clone, Copy)]
pub enum Scalar<'a> {
    Text(&'a str),
    Integer(i64),
    Float(f64),
    /// true, false or null. As text, since copying a payload of one byte costs a stall for each value.
    Literal(&'static str),
}

/// A name, which is exactly a str, and a scalar.
#[derive(Clone, Copy)]
pub struct FlatEntry<'a, 'py> {
    name: Borrowed<'a, 'py, PyAny>,
    pub value: Scalar<'a>,
}

impl<'a, 'py> FlatEntry<'a, 'py> {
    pub fn name(&self) -> &Bound<'py, PyAny> {
        &self.name
    }

    /// None where the name has a lone surrogate; then no entry may be used any more.
    pub fn text(&self) -> Option<&'a str> {
        match scalar(self.name, usize::MAX) {
            Some(Scalar::Text(text)) => Some(text),
            _ => None,
        }
    }
}

/// The most entries that are looked at without taking references.
pub const FLAT_ENTRIES: usize = 32;

/// Lends the entries of an exact dict that is small and holds scalars only, without taking a reference to any; None for
/// any other dict, or where that is what it lent to says. What it lends to must run no Python code, which [`FlatEntry`]
/// gives no other occasion for than [`FlatEntry::text`] says.
///
/// A string of more than `max_points` code points is not encoded, but left to the other way. Always None on
/// free-threaded builds: a critical section ends early where a lock inside it is waited for.
#[inline]
pub fn flat<'py, R>(
    dict: &Bound<'py, PyDict>,
    max_points: usize,
    lend: impl FnOnce(&[FlatEntry<'_, 'py>]) -> Option<R>,
) -> Option<R> {
    if cfg!(Py_GIL_DISABLED) || dict.len() > FLAT_ENTRIES {
        return None;
    }
    let py = dict.py();
    let mut entries = ArrayVec::<FlatEntry<'_, 'py>, FLAT_ENTRIES>::new();
    let (mut position, mut key, mut value) = (0, ptr::null_mut(), ptr::null_mut());
    // SAFETY: the object is a dict, and nothing that could change it runs until `lend` returns: no Python code, and no
    // other thread, by the GIL. So keys and values live for as long, by the dict's references.
    while unsafe { ffi::PyDict_Next(dict.as_ptr(), &raw mut position, &raw mut key, &raw mut value) } != 0 {
        // SAFETY: as above.
        let (name, value) = unsafe { (Borrowed::from_ptr(py, key), Borrowed::from_ptr(py, value)) };
        fits(&*name.cast_exact::<PyString>().ok()?, max_points)?;
        entries.try_push(FlatEntry { name, value: scalar(value, max_points)? }).ok()?;
    }
    lend(&entries)
}

/// [`flat`] on the attributes of an instance, if they are these names in this order.
#[inline]
pub fn flat_attributes<'py, R>(
    object: &Bound<'py, PyAny>,
    names: &[Py<PyString>],
    max_points: usize,
    lend: impl FnOnce(&[FlatEntry<'_, 'py>]) -> R,
) -> Option<R> {
    let dict = instance_dict(object)?;
    let same = |entries: &[FlatEntry<'_, '_>]| {
        entries.len() == names.len() && entries.iter().zip(names).all(|(entry, name)| entry.name.as_ptr() == name.as_ptr())
    };
    flat(&dict, max_points, |entries| same(entries).then(|| lend(entries)))
}

/// None for a string of more code points.
#[inline]
fn fits(text: &Bound<'_, PyString>, max_points: usize) -> Option<()> {
    (max_points == usize::MAX || text.code_point_len().is_ok_and(|points| points <= max_points)).then_some(())
}

/// None for any other object, for a str with a lone surrogate and for one of more code points.
#[expect(clippy::inline_always, reason = "returned in memory, each value costs a stall: measured")]
#[inline(always)]
fn scalar<'a>(object: Borrowed<'a, '_, PyAny>, max_points: usize) -> Option<Scalar<'a>> {
    if let Ok(text) = object.cast_exact::<PyString>() {
        fits(&text, max_points)?;
        let mut length = 0;
        // SAFETY: the object is a str, and the result null with an error set, or its UTF-8 and the length of that.
        let start = unsafe { ffi::PyUnicode_AsUTF8AndSize(text.as_ptr(), &raw mut length) };
        if start.is_null() {
            drop(PyErr::take(object.py()));
            return None;
        }
        // SAFETY: the object lives for 'a, and a str keeps its UTF-8 unchanged for as long as it lives.
        let text = unsafe { str::from_utf8_unchecked(slice::from_raw_parts(start.cast(), length.unsigned_abs())) };
        return Some(Scalar::Text(text));
    }
    if let Ok(number) = object.cast_exact::<PyInt>() {
        return integer(&number).ok().map(Scalar::Integer);
    }
    if let Ok(number) = object.cast_exact::<PyFloat>() {
        return Some(Scalar::Float(number.value()));
    }
    if let Ok(value) = object.cast_exact::<PyBool>() {
        return Some(Scalar::Literal(if value.is_true() { "true" } else { "false" }));
    }
    object.is_none().then_some(Scalar::Literal("null"))
}

/// The `__dict__` of an instance; None where it has none.
fn instance_dict<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyDict>> {
    // SAFETY: a live object goes in, and a new reference to its dict or null with an error set comes out.
    let dict =
        unsafe { Bound::from_owned_ptr_or_opt(object.py(), ffi::PyObject_GenericGetDict(object.as_ptr(), ptr::null_mut())) };
    if dict.is_none() {
        drop(PyErr::take(object.py()));
    }
    dict?.cast_into_exact().ok()
}

/// Takes the attributes of an instance for as long as its `__dict__` holds these names, in this order, and says how
/// many it took. That is all of them, unless the instance was tampered with.
#[inline]
pub fn attributes<'py>(object: &Bound<'py, PyAny>, names: &[Py<PyString>], mut take: impl FnMut(Bound<'py, PyAny>)) -> usize {
    let py = object.py();
    let Some(dict) = instance_dict(object) else { return 0 };
    let mut taken = 0;
    with_critical_section(&dict, || {
        let (mut position, mut key, mut value) = (0, ptr::null_mut(), ptr::null_mut());
        while let Some(name) = names.get(taken) {
            // SAFETY: an instance's `__dict__` is a dict, and nothing that could change it runs during the loop: no
            // Python code, and no other thread, by the GIL or the critical section.
            let more = unsafe { ffi::PyDict_Next(dict.as_ptr(), &raw mut position, &raw mut key, &raw mut value) } != 0;
            if !more || key != name.as_ptr() {
                break;
            }
            // SAFETY: it is live, since the dict holds it.
            take(unsafe { Bound::from_borrowed_ptr(py, value) });
            taken += 1;
        }
    });
    taken
}

/// Does this object's class inherit from the class? What `isinstance` says, without its hooks.
#[inline]
pub fn inherits(object: &Bound<'_, PyAny>, class: &Py<PyType>) -> bool {
    // SAFETY: two live type objects.
    unsafe { ffi::PyType_IsSubtype(object.get_type_ptr(), class.as_ptr().cast()) != 0 }
}

/// The `tp_new` of a class.
pub fn constructor(class: &Bound<'_, PyType>) -> PyResult<ffi::newfunc> {
    // SAFETY: a live type object; the slot is null or holds a function of this signature.
    let slot = unsafe { ffi::PyType_GetSlot(class.as_type_ptr(), ffi::Py_tp_new) };
    if slot.is_null() {
        return Err(PyTypeError::new_err("the class cannot be instantiated"));
    }
    // SAFETY: as above, and not null.
    Ok(unsafe { mem::transmute::<*mut std::ffi::c_void, ffi::newfunc>(slot) })
}

/// A new instance with these attributes. Neither `__init__` nor the `__setattr__` of a frozen dataclass runs.
#[inline]
pub fn instance<'py>(
    class: &Bound<'py, PyType>,
    new: ffi::newfunc,
    no_arguments: &Py<PyTuple>,
    attributes: impl Iterator<Item = (&'py Py<PyString>, Bound<'py, PyAny>)>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    // SAFETY: this is `class.__new__(class)`: `new` is the slot of that class, called with it and an empty tuple.
    let instance = unsafe { Bound::from_owned_ptr_or_err(py, new(class.as_type_ptr(), no_arguments.as_ptr(), ptr::null_mut())) }?;
    for (name, value) in attributes {
        // SAFETY: three live objects; this is `object.__setattr__`.
        let status = unsafe { ffi::PyObject_GenericSetAttr(instance.as_ptr(), name.as_ptr(), value.as_ptr()) };
        if status != 0 {
            return Err(PyErr::fetch(py));
        }
    }
    Ok(instance)
}

/// Holds references so that what was borrowed from them lives as long as this.
pub struct Keep<'py>(RefCell<Vec<Bound<'py, PyAny>>>);

impl<'py> Keep<'py> {
    /// Room for so many references.
    pub fn new(room: usize) -> Self {
        Self(RefCell::new(Vec::with_capacity(room)))
    }

    /// Takes a reference and lends it for its own life.
    #[inline]
    pub fn keep<'a>(&'a self, object: Bound<'py, PyAny>) -> Borrowed<'a, 'py, PyAny> {
        let (py, pointer) = (object.py(), object.as_ptr());
        self.0.borrow_mut().push(object);
        // SAFETY: `self` gives up no reference before it is dropped, which 'a does not outlive.
        unsafe { Borrowed::from_ptr(py, pointer) }
    }
}
