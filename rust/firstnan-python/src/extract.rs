//! Objects in: the core's `Value` over Python objects.

use std::borrow::Cow;

use firstnan_core::{Choice, Error, ErrorKind, FieldType, Real, RecordInfo, Value};
use pyo3::Borrowed;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString, PyTuple};

use crate::classes::Classes;
use crate::errors::{Failure, Outcome, missing};
use crate::native::{self, Keep};

/// A Python object about to be taken for what the schema says it is.
#[derive(Clone, Copy)]
pub struct Object<'a, 'py> {
    object: Borrowed<'a, 'py, PyAny>,
    keep: &'a Keep<'py>,
    classes: &'static Classes,
    /// What to make of an object of another class than a record's, or of something other than a tuple of records.
    otherwise: Otherwise,
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

impl<'a, 'py> Object<'a, 'py> {
    /// An argument. What is read from it is kept by `keep`.
    pub fn new(
        object: Borrowed<'a, 'py, PyAny>,
        keep: &'a Keep<'py>,
        classes: &'static Classes,
        otherwise: Otherwise,
    ) -> Self {
        Self { object, keep, classes, otherwise }
    }

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
        self.object.is_none()
    }

    #[inline]
    fn text(self, exact: bool) -> Outcome<Cow<'a, str>> {
        let text = if exact { self.object.cast_exact::<PyString>().ok() } else { self.object.cast::<PyString>().ok() };
        native::utf8(text.ok_or_else(|| wrong_type("string"))?).map(Cow::Borrowed)
    }

    #[inline]
    fn integer(self, exact: bool) -> Outcome<i128> {
        let number = if exact { self.object.cast_exact::<PyInt>().ok() } else { self.object.cast::<PyInt>().ok() };
        let number = number.filter(|it| !it.is_instance_of::<PyBool>()).ok_or_else(|| wrong_type("integer"))?;
        Ok(match native::integer(&number) {
            Ok(value) => value.into(),
            Err(sign) if sign < 0 => i128::MIN,
            Err(_) => i128::MAX,
        })
    }

    #[inline]
    fn real(self) -> Outcome<Real<'a>> {
        if let Ok(number) = self.object.cast::<PyFloat>() {
            return Ok(Real::Float(number.value()));
        }
        let number = self.object.cast_exact::<PyInt>().map_err(|_| wrong_type("number"))?;
        match native::integer(&number) {
            Ok(value) => Ok(Real::Int(value)),
            Err(sign) => self.large(&number, sign),
        }
    }

    #[inline]
    fn boolean(self) -> Outcome<bool> {
        self.object.cast_exact::<PyBool>().map(|it| it.is_true()).map_err(|_| wrong_type("boolean"))
    }

    #[inline]
    fn choice(self, choice: &'static Choice, exact: bool) -> Outcome<usize> {
        let class = &self.classes.choices[choice.index];
        if class.class.is_none() {
            return Ok(choice.index_of(&self.text(exact)?)?);
        }
        class.index_of(&self.object).ok_or_else(|| wrong_type(choice.name))
    }

    fn items(self, most: usize) -> Outcome<Vec<Self>> {
        let tuple = self.object.cast_exact::<PyTuple>().map_err(|_| self.refuse("tuple"))?;
        let count = tuple.len().min(most);
        let mut items = Vec::with_capacity(count);
        for index in 0..count {
            let object = self.keep.keep(tuple.get_item(index)?);
            items.push(Self { object, ..self });
        }
        Ok(items)
    }

    #[inline]
    fn fields<const N: usize>(self, info: &'static RecordInfo) -> Outcome<[Self; N]> {
        let record = &self.classes.records[info.index];
        let exact = self.object.get_type_ptr() == record.class.as_ptr().cast();
        if !exact && !(self.otherwise == Otherwise::Subclass && native::inherits(&self.object, &record.class)) {
            return Err(self.refuse(info.name));
        }
        let mut fields = [self; N];
        for (index, field) in fields.iter_mut().enumerate() {
            let value = self.object.getattr(record.names[index].bind(self.object.py()));
            let value = value.map_err(|error| missing(self.object.py(), error, info.fields[index].name))?;
            field.object = self.keep.keep(value);
            field.otherwise = match info.fields[index].kind {
                FieldType::Array(FieldType::Record(_)) if info.exact => Otherwise::Type,
                _ => Otherwise::Contract,
            };
        }
        Ok(fields)
    }

    fn variant(&self, of: &'static [&'static RecordInfo]) -> Outcome<usize> {
        let class = self.classes.record_of(&self.object).map(|record| record.info.index);
        of.iter().position(|info| Some(info.index) == class).ok_or_else(|| self.refuse("one of the records"))
    }
}

impl<'a> Object<'a, '_> {
    /// An int beyond 64 bits, by its digits; one beyond binary64 has too many of them to be looked at.
    #[cold]
    fn large(&self, number: &Bound<'_, PyInt>, sign: i32) -> Outcome<Real<'a>> {
        let py = number.py();
        if let Err(error) = number.extract::<f64>() {
            if !error.is_instance_of::<PyOverflowError>(py) {
                return Err(error.into());
            }
            let kind = if sign < 0 { ErrorKind::Minimum } else { ErrorKind::Maximum };
            return Err(Error::new(kind).bound("the largest finite binary64").into());
        }
        let digits = native::digits(number)?;
        Ok(Real::Big(Cow::Owned(native::utf8(digits.as_borrowed())?.to_owned())))
    }
}
