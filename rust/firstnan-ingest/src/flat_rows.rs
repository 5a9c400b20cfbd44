//! Records read back from the columns that [`crate::Columns`] makes, without a copy: of kinds whose fields are plain values.

use std::borrow::Cow;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType};
use firstnan_core::{Choice, Error, ErrorKind, FieldType, Real, RecordInfo, Result, Value};

/// The columns of a batch, found by the names of a record's fields. Other columns may stand between them.
pub(crate) struct FlatRows {
    fields: Vec<Column>,
    rows: usize,
}

enum Column {
    Text(Texts),
    Integer(Int64Array),
    Real { value: Float64Array, integer: StringArray },
    Boolean(BooleanArray),
}

/// Text, each value in full or as a key of a dictionary.
pub(crate) struct Texts {
    values: StringArray,
    keys: Option<(Vec<usize>, Box<dyn Array>)>,
}

impl Texts {
    pub fn new(batch: &RecordBatch, name: &str) -> std::result::Result<Self, ArrowError> {
        let array = column(batch, name)?;
        if let Some(dictionary) = array.as_any_dictionary_opt() {
            let values = dictionary.values().as_string_opt::<i32>().cloned().ok_or_else(|| unlike(name, "string"))?;
            // normalized_keys is for non-empty dictionaries only.
            let keys = if values.is_empty() { vec![0; array.len()] } else { dictionary.normalized_keys() };
            return Ok(Self { values, keys: Some((keys, Box::new(array.clone()))) });
        }
        let values = array.as_string_opt::<i32>().cloned().ok_or_else(|| unlike(name, "string"))?;
        Ok(Self { values, keys: None })
    }

    pub fn get(&self, row: usize) -> Option<&str> {
        let place = match &self.keys {
            Some((_, array)) if array.is_null(row) => return None,
            Some((keys, _)) => keys[row],
            None => row,
        };
        self.values.is_valid(place).then(|| self.values.value(place))
    }
}

/// A column by its name.
///
/// # Errors
///
/// There is none, or it is of another type.
pub(crate) fn integers(batch: &RecordBatch, name: &str) -> std::result::Result<Int64Array, ArrowError> {
    column(batch, name)?.as_primitive_opt::<Int64Type>().cloned().ok_or_else(|| unlike(name, "int64"))
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> std::result::Result<&'a std::sync::Arc<dyn Array>, ArrowError> {
    batch.column_by_name(name).ok_or_else(|| ArrowError::SchemaError(format!("there is no column {name}")))
}

#[cold]
pub(crate) fn unlike(name: &str, wanted: &str) -> ArrowError {
    ArrowError::SchemaError(format!("the column {name} is not of type {wanted}"))
}

impl FlatRows {
    /// # Errors
    ///
    /// A field of the record has no column, or one of another type; the record has fields that are not plain values.
    pub fn new(batch: &RecordBatch, info: &'static RecordInfo) -> std::result::Result<Self, ArrowError> {
        let fields = info.fields.iter().map(|field| {
            let name = field.name;
            let kind = if let FieldType::Optional(inner) = &field.kind { inner } else { &field.kind };
            Ok(match kind {
                FieldType::Text | FieldType::Choice(_) => Column::Text(Texts::new(batch, name)?),
                FieldType::Integer => Column::Integer(integers(batch, name)?),
                FieldType::Real => {
                    let value = column(batch, name)?.as_primitive_opt::<Float64Type>().cloned();
                    let written = format!("{name}_integer");
                    let integer = column(batch, &written)?.as_string_opt::<i32>().cloned();
                    Column::Real {
                        value: value.ok_or_else(|| unlike(name, "double"))?,
                        integer: integer.ok_or_else(|| unlike(&written, "string"))?,
                    }
                }
                FieldType::Boolean => {
                    let array = column(batch, name)?;
                    if array.data_type() != &DataType::Boolean {
                        return Err(unlike(name, "bool"));
                    }
                    Column::Boolean(array.as_boolean().clone())
                }
                _ => return Err(ArrowError::NotYetImplemented(format!("{}: {name} is no plain value", info.kind))),
            })
        });
        Ok(Self { fields: fields.collect::<std::result::Result<_, _>>()?, rows: batch.num_rows() })
    }

    pub fn len(&self) -> usize {
        self.rows
    }

    /// A row, for `Record::extract`.
    pub fn row(&self, row: usize) -> Cell<'_> {
        Cell { rows: self, row, field: None }
    }
}

/// A row, or one of its fields.
#[derive(Clone, Copy)]
pub(crate) struct Cell<'a> {
    rows: &'a FlatRows,
    row: usize,
    field: Option<&'a Column>,
}

fn not_a(what: &str) -> Error {
    Error::new(ErrorKind::Type).bound(what)
}

impl<'a> Value<'a> for Cell<'a> {
    type Error = Error;

    fn is_null(&self) -> bool {
        match self.field {
            None => false,
            Some(Column::Text(texts)) => texts.get(self.row).is_none(),
            Some(Column::Integer(array)) => array.is_null(self.row),
            Some(Column::Real { value, .. }) => value.is_null(self.row),
            Some(Column::Boolean(array)) => array.is_null(self.row),
        }
    }

    fn text(self, _exact: bool) -> Result<Cow<'a, str>> {
        match self.field {
            Some(Column::Text(texts)) => texts.get(self.row).map(Cow::Borrowed).ok_or_else(|| not_a("string")),
            _ => Err(not_a("string")),
        }
    }

    fn integer(self, _exact: bool) -> Result<i128> {
        match self.field {
            Some(Column::Integer(array)) if array.is_valid(self.row) => Ok(array.value(self.row).into()),
            _ => Err(not_a("integer")),
        }
    }

    fn real(self) -> Result<Real<'a>> {
        match self.field {
            Some(Column::Real { value, integer }) if value.is_valid(self.row) => {
                if integer.is_null(self.row) {
                    let float = value.value(self.row);
                    return if float.is_finite() { Ok(Real::Float(float)) } else { Err(Error::new(ErrorKind::NonFinite)) };
                }
                written_integer(integer.value(self.row))
            }
            _ => Err(not_a("number")),
        }
    }

    fn boolean(self) -> Result<bool> {
        match self.field {
            Some(Column::Boolean(array)) if array.is_valid(self.row) => Ok(array.value(self.row)),
            _ => Err(not_a("boolean")),
        }
    }

    fn choice(self, choice: &'static Choice, exact: bool) -> Result<usize> {
        let text = self.text(exact)?;
        choice.values.iter().position(|value| *value == text).ok_or_else(|| Error::new(ErrorKind::Enum))
    }

    fn items(self, _most: usize) -> Result<Vec<Self>> {
        Err(not_a("array"))
    }

    fn fields<const N: usize>(self, _info: &'static RecordInfo) -> Result<[Self; N]> {
        if self.field.is_some() || self.rows.fields.len() != N {
            return Err(not_a("object"));
        }
        Ok(std::array::from_fn(|index| Cell { field: Some(&self.rows.fields[index]), ..self }))
    }

    fn variant(&self, _of: &'static [&'static RecordInfo]) -> Result<usize> {
        Err(not_a("object"))
    }
}

/// The canonical digits of an integer, as a column of written integers has them.
fn written_integer(digits: &str) -> Result<Real<'_>> {
    if let Ok(value) = digits.parse::<i64>() {
        return if value.to_string() == digits { Ok(Real::Int(value)) } else { Err(not_a("integer")) };
    }
    let magnitude = digits.strip_prefix('-').unwrap_or(digits);
    if magnitude.len() > 18 && !magnitude.starts_with('0') && magnitude.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(Real::Big(Cow::Borrowed(digits)));
    }
    Err(not_a("integer"))
}
