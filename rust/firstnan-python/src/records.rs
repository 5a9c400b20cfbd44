//! Records from text, to text, and checked. `python/firstnan/_core.pyi` documents the functions.

use firstnan_core::limits::MAX_CONSENSUS_BYTES;
use firstnan_core::{
    AnyRecord, Error, ErrorKind, KINDS, RECORDS, Record, StageMessage, extract_and_check, extract_and_write, kind_index,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use crate::build::ToPython;
use crate::errors::{Failure, Outcome};
use crate::extract::{Context, Otherwise};
use crate::identity::bytes;
use crate::input::Input;
use crate::native;

#[pyfunction]
pub fn kinds(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, KINDS)
}

#[pyfunction]
pub fn decode<'py>(kind: &Bound<'py, PyAny>, data: &Bound<'py, PyAny>) -> Outcome<Bound<'py, PyAny>> {
    let (py, kind) = (data.py(), known_kind(kind)?);
    let input = Input::new(data)?;
    let record = input.work(py, |bytes| AnyRecord::decode(kind, bytes))?;
    Ok(record.build(&mut ToPython::new(py)?)?)
}

#[pyfunction]
pub fn validate(kind: &Bound<'_, PyAny>, data: &Bound<'_, PyAny>) -> Outcome<()> {
    let kind = known_kind(kind)?;
    Input::new(data)?.work(data.py(), |bytes| AnyRecord::decode(kind, bytes).map(drop))?;
    Ok(())
}

#[pyfunction]
pub fn encode<'py>(record: &Bound<'py, PyAny>) -> Outcome<Bound<'py, PyBytes>> {
    let py = record.py();
    let context = Context::new(py, 32)?;
    let class = context.record_like(record).ok_or_else(|| PyTypeError::new_err("encode() takes a record"))?;
    let mut out = Vec::with_capacity(1024);
    let object = context.object(record, if class.info.exact { Otherwise::Type } else { Otherwise::Subclass });
    extract_and_write(class.info.index, object, &mut out).map_err(|e| e.in_record(class.info.kind))?;
    bytes(py, &out)
}

#[pyfunction]
pub fn check(index: usize, record: &Bound<'_, PyAny>) -> Outcome<()> {
    let kind = RECORDS.get(index).ok_or_else(|| Error::new(ErrorKind::RecordKind))?.kind;
    let context = Context::new(record.py(), 32)?;
    extract_and_check(index, context.object(record, Otherwise::Subclass)).map_err(|e| e.in_record(kind))
}

#[pyfunction]
pub fn stage_message_from_bytes<'py>(payload: &Bound<'py, PyAny>) -> Outcome<Bound<'py, PyAny>> {
    let refuse = |error: Error| Failure::Contract(error.in_record(StageMessage::KIND));
    let payload = payload.cast::<PyBytes>().map_err(|_| refuse(Error::new(ErrorKind::Type).bound("bytes")))?;
    let bytes = payload.as_bytes();
    if bytes.len() > MAX_CONSENSUS_BYTES {
        return Err(refuse(Error::new(ErrorKind::Size).bound(MAX_CONSENSUS_BYTES)));
    }
    let message = StageMessage::decode(bytes)?;
    if message.encode()? != bytes {
        return Err(refuse(Error::new(ErrorKind::NotCanonical)));
    }
    Ok(message.build(&mut ToPython::new(payload.py())?)?)
}

/// The index of a kind in `KINDS`; anything else is a `ContractError`, whatever its type.
pub fn known_kind(kind: &Bound<'_, PyAny>) -> Outcome<usize> {
    let name = kind.cast::<PyString>().ok().and_then(|text| native::utf8(text.as_borrowed()).ok());
    let index = name.and_then(kind_index);
    index.ok_or_else(|| Error::new(ErrorKind::RecordKind).bound(KINDS.join(", ")).at("kind").into())
}
