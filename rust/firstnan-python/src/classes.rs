//! The Python classes of the records and enums, looked up once.

use firstnan_core::canonical::STEP;
use firstnan_core::{CHOICES, Choice, FieldInfo, FieldType, RECORDS, RecordInfo};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyModule, PyString, PyTuple, PyType};

use crate::flat::{Segment, Segments};
use crate::native;

/// The module that the generator writes.
const MODULE: &str = "firstnan._generated.records";

/// The class of one kind of record.
pub struct RecordClass {
    pub info: &'static RecordInfo,
    pub class: Py<PyType>,
    /// `tp_new` of the class.
    pub new: ffi::newfunc,
    /// The names of the fields, interned, in the order of the schema.
    pub names: Vec<Py<PyString>>,
    /// Do its fields hold scalars only: no array, record or enum member?
    pub flat: bool,
    /// The fields in canonical order, each with the bytes before its value: `{"a":`, then `,"b":`.
    pub sorted: Vec<(usize, Vec<u8>)>,
    /// The same, as parts of a text.
    pub segments: Segments,
    pub segment_text: Vec<u8>,
}

/// What a closed list of strings is in Python.
pub struct ChoiceClass {
    /// The enum class, or None where Python uses the plain string.
    pub class: Option<Py<PyType>>,
    /// The members, or the strings interned, in the order of the schema.
    pub values: Vec<Py<PyAny>>,
    /// The values as canonical bytes.
    pub quoted: Vec<Vec<u8>>,
}

/// Everything that the extension knows of Python's side.
pub struct Classes {
    pub records: Vec<RecordClass>,
    pub choices: Vec<ChoiceClass>,
    /// `enum.Enum`
    pub enumeration: Py<PyType>,
    /// `dataclasses.fields`
    pub dataclass_fields: Py<PyAny>,
    /// `()`
    pub no_arguments: Py<PyTuple>,
}

impl Classes {
    /// The classes, imported on first need. No lock is held while Python code runs.
    pub fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();
        if let Some(classes) = CLASSES.get(py) {
            return Ok(classes);
        }
        let loaded = Self::load(py)?;
        Ok(CLASSES.get_or_init(py, || loaded))
    }

    #[cold]
    fn load(py: Python<'_>) -> PyResult<Self> {
        let module = py.import(MODULE)?;
        Ok(Self {
            records: RECORDS.iter().map(|info| RecordClass::load(&module, info)).collect::<PyResult<_>>()?,
            choices: CHOICES.iter().map(|choice| ChoiceClass::load(&module, choice)).collect::<PyResult<_>>()?,
            enumeration: py.import("enum")?.getattr("Enum")?.cast_into::<PyType>()?.unbind(),
            dataclass_fields: py.import("dataclasses")?.getattr("fields")?.unbind(),
            no_arguments: PyTuple::empty(py).unbind(),
        })
    }

    /// The record whose class is exactly this type.
    #[inline]
    pub fn record_of(&self, object: &Bound<'_, PyAny>) -> Option<&RecordClass> {
        let class = object.get_type_ptr();
        self.records.iter().find(|record| record.class.as_ptr().cast() == class)
    }

    /// The closed list, and the place in it, of a member of one of the records' enum classes.
    #[inline]
    pub fn choice_of(&self, object: &Bound<'_, PyAny>) -> Option<(&ChoiceClass, usize)> {
        let class = object.get_type_ptr();
        let is_class = |choice: &&ChoiceClass| choice.class.as_ref().is_some_and(|it| it.as_ptr().cast() == class);
        let choice = self.choices.iter().find(is_class)?;
        Some((choice, choice.index_of(object)?))
    }
}

impl RecordClass {
    fn load(module: &Bound<'_, PyModule>, info: &'static RecordInfo) -> PyResult<Self> {
        let class = module.getattr(info.name)?.cast_into::<PyType>()?;
        let intern = |field: &FieldInfo| PyString::intern(module.py(), field.name).unbind();
        let prefix = |(position, index): (usize, &usize)| {
            let start = if position == 0 { '{' } else { ',' };
            (*index, format!("{start}\"{}\":", info.fields[*index].name).into_bytes())
        };
        let sorted: Vec<_> = info.sorted.iter().enumerate().map(prefix).collect();
        let mut segment_text = Vec::new();
        let segments = sorted.iter().map(|(index, segment)| Segment::append(*index, segment, &mut segment_text)).collect();
        segment_text.resize(segment_text.len() + STEP, b' ');
        Ok(Self {
            info,
            new: native::constructor(&class)?,
            class: class.unbind(),
            names: info.fields.iter().map(intern).collect(),
            flat: info.fields.iter().all(|field| is_scalar(&field.kind)),
            sorted,
            segments,
            segment_text,
        })
    }
}

fn is_scalar(kind: &FieldType) -> bool {
    match kind {
        FieldType::Text | FieldType::Integer | FieldType::Real | FieldType::Boolean => true,
        FieldType::Choice(choice) => choice.name.is_empty(),
        FieldType::Optional(inner) => is_scalar(inner),
        FieldType::Array(_) | FieldType::Record(_) | FieldType::Union(_) => false,
    }
}

impl ChoiceClass {
    fn load(module: &Bound<'_, PyModule>, choice: &'static Choice) -> PyResult<Self> {
        let py = module.py();
        let strings = choice.values.iter().map(|value| PyString::intern(py, value).into_any());
        let (class, values) = if choice.name.is_empty() {
            (None, strings.map(|value| Ok(value.unbind())).collect::<PyResult<_>>()?)
        } else {
            let class = module.getattr(choice.name)?.cast_into::<PyType>()?;
            let members = strings.map(|value| class.call1((value,)).map(Bound::unbind)).collect::<PyResult<_>>()?;
            (Some(class.unbind()), members)
        };
        // The generator refuses values that canonical bytes would escape.
        let quoted = choice.values.iter().map(|value| format!("\"{value}\"").into_bytes()).collect();
        Ok(Self { class, values, quoted })
    }

    /// The place of a member, by identity.
    #[inline]
    pub fn index_of(&self, object: &Bound<'_, PyAny>) -> Option<usize> {
        self.values.iter().position(|value| value.as_ptr() == object.as_ptr())
    }
}

/// `value`, the attribute that `enum.Enum` gives to its members.
pub fn enum_value<'py>(member: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    member.getattr(intern!(member.py(), "value"))
}
