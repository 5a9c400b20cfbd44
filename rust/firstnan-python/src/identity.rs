//! Canonical bytes and identities. `python/firstnan/_core.pyi` documents the functions.

use firstnan_core::limits::MAX_CONSENSUS_BYTES;
use firstnan_core::{Error, ErrorKind, Profile, canonical, digest};
use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString};

use crate::errors::{Failure, Outcome};
use crate::input::Input;
use crate::native;
use crate::walk::with_canonical_bytes;

#[pyfunction]
#[pyo3(signature = (value, *, max_bytes = MaxBytes(MAX_CONSENSUS_BYTES)), text_signature = "(value, *, max_bytes=65536)")]
pub fn canonical_record<'py>(value: &Bound<'py, PyAny>, max_bytes: MaxBytes) -> Outcome<Bound<'py, PyBytes>> {
    with_canonical_bytes(value, Profile::Record, max_bytes.0, |canonical| bytes(value.py(), canonical))?
}

#[pyfunction]
pub fn contract_digest<'py>(value: &Bound<'py, PyAny>) -> Outcome<Bound<'py, PyString>> {
    let digest = with_canonical_bytes(value, Profile::Record, MAX_CONSENSUS_BYTES, digest::sha256_hex_array)?;
    string(value.py(), &digest)
}

#[pyfunction]
pub fn canonical_evidence<'py>(value: &Bound<'py, PyAny>) -> Outcome<Bound<'py, PyBytes>> {
    with_canonical_bytes(value, Profile::Evidence, usize::MAX, |canonical| bytes(value.py(), canonical))?
}

#[pyfunction]
pub fn content_id<'py>(prefix: &Bound<'py, PyString>, payload: &Bound<'py, PyAny>) -> Outcome<Bound<'py, PyString>> {
    let prefix = native::utf8(prefix.as_borrowed())?;
    let identity =
        with_canonical_bytes(payload, Profile::Evidence, usize::MAX, |canonical| digest::content_id(prefix, canonical))?;
    string(payload.py(), identity.as_bytes())
}

#[pyfunction]
#[pyo3(signature = (data, *, profile))]
pub fn canonicalize<'py>(data: &Bound<'py, PyAny>, profile: &Bound<'py, PyAny>) -> Outcome<Bound<'py, PyBytes>> {
    let name = profile.cast::<PyString>().ok().and_then(|name| native::utf8(name.as_borrowed()).ok());
    let profile = match name {
        Some("record") => Profile::Record,
        Some("evidence") => Profile::Evidence,
        _ => return Err(Error::new(ErrorKind::Enum).bound("record, evidence").at("profile").into()),
    };
    let canonical = Input::new(data)?.work(data.py(), |bytes| canonical::canonicalize(bytes, profile))?;
    bytes(data.py(), &canonical)
}

/// `max_bytes`: exactly an int, 1 to 65,536.
#[derive(Clone, Copy)]
pub struct MaxBytes(usize);

impl<'a, 'py> FromPyObject<'a, 'py> for MaxBytes {
    type Error = Failure;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> Outcome<Self> {
        let error = |kind, bound: &str| Error::new(kind).bound(bound).at("max_bytes");
        let number = value.cast_exact::<PyInt>().map_err(|_| error(ErrorKind::Type, "integer"))?;
        match native::integer(&number).map(usize::try_from) {
            Ok(Ok(bytes @ 1..=MAX_CONSENSUS_BYTES)) => Ok(Self(bytes)),
            Ok(Ok(1..)) | Err(1) => Err(error(ErrorKind::Maximum, "65536").into()),
            _ => Err(error(ErrorKind::Minimum, "1").into()),
        }
    }
}

/// New `bytes`, or a `MemoryError`.
pub fn bytes<'py>(py: Python<'py>, bytes: &[u8]) -> Outcome<Bound<'py, PyBytes>> {
    Ok(PyBytes::new_with(py, bytes.len(), |buffer| {
        buffer.copy_from_slice(bytes);
        Ok(())
    })?)
}

fn string<'py>(py: Python<'py>, text: &[u8]) -> Outcome<Bound<'py, PyString>> {
    Ok(PyString::from_bytes(py, text)?)
}
