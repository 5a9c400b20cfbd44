//! From the core's error to the Python exception.

use firstnan_core::{Error, ErrorKind, Located, is_plain_word};
use pyo3::exceptions::{PyAttributeError, PyMemoryError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{IntoPyDict, PyType};

/// Why a call ends without a result.
pub enum Failure {
    /// The contract is broken: a `ContractError`.
    Contract(Error),
    /// The contract is broken where the specification asks for a `TypeError`.
    Type(Error),
    /// Python code that ran on the way raised; boxed, so that results stay small.
    Python(Box<PyErr>),
}

/// A result of the extension.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// Applies a change to the core's error, if it is one.
    fn map(self, change: impl FnOnce(Error) -> Error) -> Self {
        match self {
            Self::Contract(error) => Self::Contract(change(error)),
            Self::Type(error) => Self::Type(change(error)),
            Self::Python(error) => Self::Python(error),
        }
    }

    /// Names the kind of record.
    #[cold]
    pub fn in_record(self, kind: &'static str) -> Self {
        self.map(|error| error.in_record(kind))
    }

    /// Moves the error below a name of the user's, which stands as `?` where it may not be shown.
    #[cold]
    pub fn below(self, name: &str) -> Self {
        self.map(|error| error.at(if is_plain_word(name) { name } else { "?" }))
    }
}

impl Located for Failure {
    #[cold]
    fn at(self, name: &'static str) -> Self {
        self.map(|error| error.at(name))
    }

    #[cold]
    fn at_index(self, index: usize) -> Self {
        self.map(|error| error.at_index(index))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Contract(error)
    }
}

impl From<PyErr> for Failure {
    #[cold]
    fn from(error: PyErr) -> Self {
        Self::Python(Box::new(error))
    }
}

impl From<Failure> for PyErr {
    #[cold]
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Python(error) => *error,
            Failure::Type(error) => PyTypeError::new_err(error.to_string()),
            Failure::Contract(error) if error.kind() == ErrorKind::Memory => PyMemoryError::new_err(error.to_string()),
            Failure::Contract(error) => {
                Python::attach(|py| contract_error(py, &error).map_or_else(|error| error, PyErr::from_value))
            }
        }
    }
}

/// A field that an instance lacks; any other error is one of the user's own code.
#[cold]
pub fn missing(py: Python<'_>, error: PyErr, name: &str) -> Failure {
    let failure = Failure::from(error);
    match failure {
        Failure::Python(error) if error.is_instance_of::<PyAttributeError>(py) => {
            Failure::Contract(Error::new(ErrorKind::Required)).below(name)
        }
        other => other,
    }
}

/// Did the interpreter itself say that an object lacks what it was asked for? The user's own code leaves a traceback.
#[cold]
pub fn not_a_protocol(py: Python<'_>, error: &PyErr) -> bool {
    error.traceback(py).is_none() && (error.is_instance_of::<PyTypeError>(py) || error.is_instance_of::<PyAttributeError>(py))
}

/// The instance of `firstnan.errors.ContractError`.
fn contract_error<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = CLASS.import(py, "firstnan.errors", "ContractError")?;
    let attributes = [
        ("kind", Some(error.kind().name())),
        ("layer", Some(error.layer().name())),
        ("pointer", Some(error.pointer())),
        ("bound", error.bound_text()),
        ("record", error.record()),
    ]
    .into_py_dict(py)?;
    attributes.set_item("offset", error.byte_offset())?;
    class.call((error.to_string(),), Some(&attributes))
}
