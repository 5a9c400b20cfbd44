//! Objects out: the core's `Builder` to Python objects.

use firstnan_core::{Builder, Choice, Real, RecordInfo};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString, PyTuple};

use crate::classes::Classes;

/// Builds records that are already checked.
pub struct ToPython<'py> {
    py: Python<'py>,
    classes: &'static Classes,
}

impl<'py> ToPython<'py> {
    /// A builder.
    pub fn new(py: Python<'py>) -> PyResult<Self> {
        Ok(Self { py, classes: Classes::get(py)? })
    }
}

impl<'py> Builder for ToPython<'py> {
    type Out = Bound<'py, PyAny>;
    type Error = PyErr;

    fn null(&mut self) -> PyResult<Self::Out> {
        Ok(self.py.None().into_bound(self.py))
    }

    fn text(&mut self, value: &str) -> PyResult<Self::Out> {
        Ok(PyString::from_bytes(self.py, value.as_bytes())?.into_any())
    }

    fn integer(&mut self, value: i64) -> PyResult<Self::Out> {
        Ok(value.into_pyobject(self.py)?.into_any())
    }

    fn real(&mut self, value: &Real<'_>) -> PyResult<Self::Out> {
        match value {
            Real::Int(value) => self.integer(*value),
            Real::Big(digits) => self.py.get_type::<PyInt>().call1((digits,)),
            Real::Float(value) => Ok(PyFloat::new(self.py, *value).into_any()),
        }
    }

    fn boolean(&mut self, value: bool) -> PyResult<Self::Out> {
        Ok(PyBool::new(self.py, value).to_owned().into_any())
    }

    fn choice(&mut self, choice: &'static Choice, index: usize) -> PyResult<Self::Out> {
        Ok(self.classes.choices[choice.index].values[index].bind(self.py).clone())
    }

    fn items(&mut self, values: Vec<Self::Out>) -> PyResult<Self::Out> {
        Ok(PyTuple::new(self.py, values)?.into_any())
    }

    fn record<const N: usize>(&mut self, info: &'static RecordInfo, values: [Self::Out; N]) -> PyResult<Self::Out> {
        let record = &self.classes.records[info.index];
        crate::native::instance(
            record.class.bind(self.py),
            record.new,
            &self.classes.no_arguments,
            record.names.iter().zip(values),
        )
    }
}
