//! Objects in: the core's `Value` over Python objects.

use std::borrow::Cow;

use firstnan_core::{Choice, Error, ErrorKind, FieldType, Real, RecordInfo, Value, beyond_binary64};
use pyo3::Borrowed;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString, PyTuple};

use crate::classes::{Classes, RecordClass};
use crate::decimal;
use crate::errors::{Failure, Outcome, missing};
use crate::native::{self, Keep};

/// A Python object about to be taken for what the schema says it is.
#[derive(Clone, Copy)]
pub struct Object<'a, 'py> {
    inner: Borrowed<'a, 'py, PyAny>,
    context: &'a Context<'py>,
    /// What to make of an object of another class than a record's, or of something other than a tuple of records.
    otherwise: Otherwise,
}

/// What all objects of one call share.
pub struct Context<'py> {
    keep: Keep<'py>,
    classes: &'static Classes,
}

impl<'py> Context<'py> {
    /// Room for so many values.
    pub fn new(py: Python<'py>, values: usize) -> PyResult<Self> {
        Ok(Self { keep: Keep::new(values), classes: Classes::get(py)? })
    }

    /// The record whose class is exactly the object's.
    pub fn record_of(&self, object: &Bound<'_, PyAny>) -> Option<&'static RecordClass> {
        self.classes.record_of(object)
    }

    /// As [`Self::record_of`], or the one whose class it inherits from, where the contract does not ask for exact classes.
    pub fn record_like(&self, object: &Bound<'_, PyAny>) -> Option<&'static RecordClass> {
        let inherits = |record: &&RecordClass| !record.info.exact && native::inherits(object, &record.class);
        self.record_of(object).or_else(|| self.classes.records.iter().find(inherits))
    }

    /// An argument, and what to answer if it is not what is asked for.
    pub fn object<'a>(&'a self, object: &Bound<'py, PyAny>, otherwise: Otherwise) -> Object<'a, 'py> {
        Object { inner: self.keep.keep(object.clone()), context: self, otherwise }
    }
}

/// The answer to an object that is not of the class asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Otherwise {
    /// A `ContractError`.
    Contract,
    /// A `TypeError`: arguments, and the stages of evidence.
    Type,
    /// As `Type`, but a subclass will do: a record that is being constructed.
    Subclass,
}

impl Object<'_, '_> {
    fn refuse(&self, wanted: &str) -> Failure {
        let error = Error::new(ErrorKind::Type).bound(wanted);
        if self.otherwise == Otherwise::Contract { Failure::Contract(error) } else { Failure::Type(error) }
    }
}

#[cold]
fn wrong_type(wanted: &str) -> Failure {
    Error::new(ErrorKind::Type).bound(wanted).into()
}

impl<'a, 'py: 'a> Value<'a> for Object<'a, 'py> {
    type Error = Failure;

    #[inline]
    fn is_null(&self) -> bool {
        self.inner.is_none()
    }

    #[inline]
    fn text(self, exact: bool) -> Outcome<Cow<'a, str>> {
        let text = if exact { self.inner.cast_exact::<PyString>().ok() } else { self.inner.cast::<PyString>().ok() };
        native::utf8(text.ok_or_else(|| wrong_type("string"))?).map(Cow::Borrowed)
    }

    #[inline]
    fn integer(self, exact: bool) -> Outcome<i128> {
        let number = if exact { self.inner.cast_exact::<PyInt>().ok() } else { self.inner.cast::<PyInt>().ok() };
        let number = number.filter(|it| !it.is_instance_of::<PyBool>()).ok_or_else(|| wrong_type("integer"))?;
        Ok(match native::integer(&number) {
            Ok(value) => value.into(),
            Err(sign) if sign < 0 => i128::MIN,
            Err(_) => i128::MAX,
        })
    }

    #[inline]
    fn real(self) -> Outcome<Real<'a>> {
        if let Ok(number) = self.inner.cast::<PyFloat>() {
            return Ok(Real::Float(number.value()));
        }
        let number = self.inner.cast_exact::<PyInt>().map_err(|_| wrong_type("number"))?;
        match native::integer(&number) {
            Ok(value) => Ok(Real::Int(value)),
            Err(sign) => large(&number, sign),
        }
    }

    #[inline]
    fn boolean(self) -> Outcome<bool> {
        self.inner.cast_exact::<PyBool>().map(|it| it.is_true()).map_err(|_| wrong_type("boolean"))
    }

    #[inline]
    fn choice(self, choice: &'static Choice, exact: bool) -> Outcome<usize> {
        let class = &self.context.classes.choices[choice.index];
        if class.class.is_none() {
            return Ok(choice.index_of(&self.text(exact)?)?);
        }
        class.index_of(&self.inner).ok_or_else(|| wrong_type(choice.name))
    }

    fn items(self, most: usize) -> Outcome<Vec<Self>> {
        let tuple = self.inner.cast_exact::<PyTuple>().map_err(|_| self.refuse("tuple"))?;
        let count = tuple.len().min(most);
        let mut items = Vec::with_capacity(count);
        for index in 0..count {
            let inner = self.context.keep.keep(tuple.get_item(index)?);
            items.push(Self { inner, ..self });
        }
        Ok(items)
    }

    #[inline]
    fn fields<const N: usize>(self, info: &'static RecordInfo) -> Outcome<[Self; N]> {
        let record = &self.context.classes.records[info.index];
        let exact = self.inner.get_type_ptr() == record.class.as_ptr().cast();
        let inherits = || self.otherwise == Otherwise::Subclass && native::inherits(&self.inner, &record.class);
        if !exact && !inherits() {
            return Err(self.refuse(info.name));
        }
        let mut fields = [Self { otherwise: Otherwise::Contract, ..self }; N];
        let mut slots = fields.iter_mut();
        let mut fill = |value| {
            if let Some(field) = slots.next() {
                field.inner = self.context.keep.keep(value);
            }
        };
        let taken = if exact { native::attributes(&self.inner, &record.names, &mut fill) } else { 0 };
        for (name, field) in record.names[taken..].iter().zip(&info.fields[taken..]) {
            let py = self.inner.py();
            fill(self.inner.getattr(name.bind(py)).map_err(|error| missing(py, error, field.name))?);
        }
        if info.exact {
            for (field, info) in fields.iter_mut().zip(info.fields) {
                if matches!(info.kind, FieldType::Array(FieldType::Record(_))) {
                    field.otherwise = Otherwise::Type;
                }
            }
        }
        Ok(fields)
    }

    fn variant(&self, of: &'static [&'static RecordInfo]) -> Outcome<usize> {
        let class = self.context.classes.record_of(&self.inner).map(|record| record.info.index);
        of.iter().position(|info| Some(info.index) == class).ok_or_else(|| self.refuse("one of the records"))
    }
}

/// An int beyond 64 bits, by its digits; one beyond binary64 has too many of them to be looked at.
#[cold]
fn large<'a>(number: &Bound<'_, PyInt>, sign: i32) -> Outcome<Real<'a>> {
    let py = number.py();
    if let Err(error) = number.extract::<f64>() {
        if !error.is_instance_of::<PyOverflowError>(py) {
            return Err(error.into());
        }
        return Err(beyond_binary64(sign < 0).into());
    }
    Ok(Real::Big(Cow::Owned(decimal::digits(number)?)))
}
