//! Rows of Arrow record batches as lines of JSON, so that rows are checked by the very decoder that checks lines.
//!
//! Each line is what Python's `json.dumps(row, separators=(",", ":"))` writes.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, LargeStringArray, NullArray, RecordBatch, StringArray, StringViewArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, Fields};
use firstnan_core::canonical::{write_float, write_integer, write_string};
use firstnan_core::{Error, ErrorKind, FieldType, KIND_TYPES, KINDS, Profile, Result, is_plain_word};

use crate::decode::schema_of_kind;

/// The columns of ours that are of the line, not of the record.
const PLACE: [&str; 4] = ["line_source", "line_number", "line_offset", "record_sha256"];
/// The fields of an envelope besides the kind.
const ENVELOPE: [&str; 5] = ["rank", "world_size", "attempt", "sequence", "source"];

type Names = BTreeSet<String>;

/// The columns of the fields of each kind.
static COLUMNS: LazyLock<Vec<Names>> = LazyLock::new(|| {
    let names = |kind| schema_of_kind(kind).map_or_else(|_| Names::new(), |schema| of_the_record(schema.fields()));
    (0..KINDS.len()).map(names).collect()
});

/// The names of all records of each union: a null in a row of these is a field that the record lacks.
static UNIONS: LazyLock<Vec<Names>> = LazyLock::new(|| {
    let mut unions = Vec::new();
    for kind in KIND_TYPES {
        add_unions(&kind, &mut unions);
    }
    unions
});

fn add_unions(kind: &FieldType, unions: &mut Vec<Names>) {
    let infos = match kind {
        FieldType::Array(inner) | FieldType::Optional(inner) => return add_unions(inner, unions),
        FieldType::Record(info) => std::slice::from_ref(info),
        FieldType::Union(infos) => {
            unions.push(infos.iter().flat_map(|info| info.fields).map(|field| field.name.to_owned()).collect());
            *infos
        }
        _ => return,
    };
    infos.iter().flat_map(|info| info.fields).for_each(|field| add_unions(&field.kind, unions));
}

fn of_the_record(fields: &Fields) -> Names {
    let names = fields.iter().map(|field| field.name());
    names.filter(|name| !PLACE.contains(&name.as_str()) && !name.starts_with("envelope_")).cloned().collect()
}

/// The kind whose columns these are, with or without the exact digits of its numbers.
fn kind_of(fields: &Fields) -> Option<usize> {
    let found = of_the_record(fields);
    COLUMNS.iter().position(|columns| {
        let plain = |name: &&String| name.strip_suffix("_integer").is_none_or(|of| !columns.contains(of));
        found == *columns || columns.iter().filter(plain).eq(&found)
    })
}

/// The rows of a batch as lines with their ends, a part at a time.
pub struct RowLines {
    form: Form,
    row: usize,
    rows: usize,
}

enum Form {
    /// One column of text, each value a line.
    Text(Column),
    /// The fields of a record.
    Bare(Members),
    /// Those of a record and of its envelope, which is there where there is a rank; and what the line begins with.
    Enveloped { rank: Option<NullBuffer>, before: String, envelope: Members, record: Members },
}

impl RowLines {
    /// Begins with the first row.
    ///
    /// The columns are the fields of a record, as [`crate::Columns`] names them, or a table of ours, whose rows with a rank
    /// become enveloped lines; or there is one column of text. `kind` is that of every record, where it is known.
    ///
    /// # Errors
    ///
    /// There is not enough memory.
    pub fn new(batch: &RecordBatch, kind: Option<usize>) -> Result<Self> {
        let form = match batch.columns() {
            [array] if is_text(array.data_type()) => Form::Text(Column::new("text", array)?),
            _ => Form::of_fields(batch, kind)?,
        };
        Ok(Self { form, row: 0, rows: batch.num_rows() })
    }

    /// The next lines, at least one and not many more bytes than `enough`; none at the end.
    ///
    /// # Errors
    ///
    /// A value that JSON has no form for (kind `unsupported`).
    pub fn next_lines(&mut self, enough: usize) -> Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        while self.row < self.rows && out.len() < enough {
            self.form.write(self.row, &mut out)?;
            out.push(b'\n');
            self.row += 1;
        }
        Ok((!out.is_empty()).then_some(out))
    }
}

impl Form {
    fn of_fields(batch: &RecordBatch, kind: Option<usize>) -> Result<Self> {
        let schema = batch.schema();
        let named = schema.fields().iter().map(|field| field.name().as_str()).zip(batch.columns());
        if batch.column_by_name("record_sha256").is_none() {
            return Ok(Self::Bare(Members::new(&named.collect::<Vec<_>>())?));
        }
        let nulls: ArrayRef = Arc::new(NullArray::new(batch.num_rows()));
        let mut envelope = ENVELOPE.map(|name| (name, &nulls));
        let mut record = Vec::new();
        for (name, array) in named {
            match ENVELOPE.iter().position(|field| name.strip_prefix("envelope_") == Some(field)) {
                Some(index) => envelope[index].1 = array,
                None if PLACE.contains(&name) => {}
                None => record.push((name, array)),
            }
        }
        let kind = kind.or_else(|| kind_of(schema.fields())).map_or("null".to_owned(), |kind| format!("\"{}\"", KINDS[kind]));
        Ok(Self::Enveloped {
            rank: envelope[0].1.logical_nulls(),
            before: format!("{{\"envelope\":{{\"kind\":{kind},"),
            envelope: Members::new(&envelope)?,
            record: Members::new(&record)?,
        })
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Text(text) => {
                let start = out.len();
                out.extend_from_slice(text.text(row).unwrap_or_default().as_bytes());
                // A raw line end in JSON is white space, or refused in a string: so is a carriage return.
                out[start..].iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'\r');
            }
            Self::Bare(record) => record.write(row, out)?,
            Self::Enveloped { rank: Some(rank), record, .. } if rank.is_null(row) => record.write(row, out)?,
            Self::Enveloped { before, envelope, record, .. } => {
                out.extend_from_slice(before.as_bytes());
                envelope.write_inside(row, out)?;
                out.extend_from_slice(b"},\"record\":");
                record.write(row, out)?;
                out.push(b'}');
            }
        }
        Ok(())
    }
}

/// The members of an object.
struct Members {
    /// What stands before each value, without the comma, and the values.
    members: Vec<(Vec<u8>, Column)>,
    /// Whether a null is a member that is not there.
    of_a_union: bool,
}

impl Members {
    fn new(fields: &[(&str, &ArrayRef)]) -> Result<Self> {
        let mut members = Vec::new();
        let mut names = Names::new();
        let by_name = |wanted: &str| fields.iter().find(|(name, _)| *name == wanted).map(|(_, array)| *array);
        for (name, array) in fields {
            if name.strip_suffix("_integer").and_then(by_name).is_some_and(|of| may_be_written_as_integer(of.data_type())) {
                continue;
            }
            let digits = if is_float(array.data_type()) { by_name(&format!("{name}_integer")) } else { None };
            let mut before = Vec::new();
            write_string(Profile::Evidence, name, &mut before)?;
            before.push(b':');
            members.push((before, Column::with_digits(name, array, digits)?));
            names.insert((*name).to_owned());
        }
        Ok(Self { members, of_a_union: UNIONS.contains(&names) })
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        out.push(b'{');
        self.write_inside(row, out)?;
        out.push(b'}');
        Ok(())
    }

    /// The members without the braces.
    fn write_inside(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        let mut first = true;
        for (before, column) in &self.members {
            if self.of_a_union && !column.is_valid(row) {
                continue;
            }
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            out.extend_from_slice(before);
            column.write(row, out)?;
        }
        Ok(())
    }
}

/// A column, ready to be written value by value.
struct Column {
    nulls: Option<NullBuffer>,
    values: Values,
}

enum Values {
    Boolean(BooleanBuffer),
    Integer(ScalarBuffer<i64>),
    Unsigned(ScalarBuffer<u64>),
    Real(ScalarBuffer<f64>),
    Text(StringArray),
    LargeText(LargeStringArray),
    TextView(StringViewArray),
    /// A number, and the digits in which it was written where it was written as an integer.
    Number(Box<[Column; 2]>),
    Keyed(Vec<usize>, Box<Column>),
    Items(Vec<Range<usize>>, Box<Column>),
    Record(Members),
    /// What JSON has no form for, unless all of it is null.
    Other(Error),
}

impl Column {
    /// A column; `name` is for the error.
    fn new(name: &str, array: &ArrayRef) -> Result<Self> {
        let values = match array.data_type() {
            DataType::Boolean => Values::Boolean(array.as_boolean().values().clone()),
            DataType::Int8 => integers::<Int8Type>(array),
            DataType::Int16 => integers::<Int16Type>(array),
            DataType::Int32 => integers::<Int32Type>(array),
            DataType::Int64 => Values::Integer(array.as_primitive::<Int64Type>().values().clone()),
            DataType::UInt8 => integers::<UInt8Type>(array),
            DataType::UInt16 => integers::<UInt16Type>(array),
            DataType::UInt32 => integers::<UInt32Type>(array),
            DataType::UInt64 => Values::Unsigned(array.as_primitive::<UInt64Type>().values().clone()),
            DataType::Float16 => floats::<Float16Type>(array),
            DataType::Float32 => floats::<Float32Type>(array),
            DataType::Float64 => Values::Real(array.as_primitive::<Float64Type>().values().clone()),
            DataType::Utf8 => Values::Text(array.as_string::<i32>().clone()),
            DataType::LargeUtf8 => Values::LargeText(array.as_string::<i64>().clone()),
            DataType::Utf8View => Values::TextView(array.as_string_view().clone()),
            DataType::Dictionary(..) => keyed(name, array)?,
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                items(name, list.values(), (0..list.len()).map(|row| (list.value_offsets()[row], list.value_length(row))))?
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                items(name, list.values(), (0..list.len()).map(|row| (list.value_offsets()[row], list.value_length(row))))?
            }
            DataType::ListView(_) => {
                let list = array.as_list_view::<i32>();
                items(name, list.values(), (0..list.len()).map(|row| (list.value_offset(row), list.value_size(row))))?
            }
            DataType::LargeListView(_) => {
                let list = array.as_list_view::<i64>();
                items(name, list.values(), (0..list.len()).map(|row| (list.value_offset(row), list.value_size(row))))?
            }
            DataType::FixedSizeList(..) => {
                let list = array.as_fixed_size_list();
                items(name, list.values(), (0..list.len()).map(|row| (list.value_offset_at(row), list.value_length())))?
            }
            DataType::Struct(fields) => {
                let values = array.as_struct();
                let fields: Vec<_> = fields.iter().map(|field| field.name().as_str()).zip(values.columns()).collect();
                match fields.as_slice() {
                    [("item", value), ("item_integer", digits)] => Self::with_digits("item", value, Some(digits))?.values,
                    fields => Values::Record(Members::new(fields)?),
                }
            }
            // Nulls alone are all null.
            other => Values::Other(no_form(name, other)),
        };
        Ok(Self { nulls: array.logical_nulls(), values })
    }

    /// A column of numbers, and that of the digits of those that were written as integers.
    fn with_digits(name: &str, array: &ArrayRef, digits: Option<&ArrayRef>) -> Result<Self> {
        let column = Self::new(name, array)?;
        let Some(digits) = digits else { return Ok(column) };
        let digits = Self::new(name, digits)?;
        let nulls = column.nulls.clone();
        Ok(Self { nulls, values: Values::Number(Box::new([column, digits])) })
    }

    fn is_valid(&self, row: usize) -> bool {
        self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }

    /// A value of text, none where it is null or of another type.
    fn text(&self, row: usize) -> Option<&str> {
        match &self.values {
            _ if !self.is_valid(row) => None,
            Values::Text(texts) => Some(texts.value(row)),
            Values::LargeText(texts) => Some(texts.value(row)),
            Values::TextView(texts) => Some(texts.value(row)),
            Values::Keyed(keys, values) => values.text(keys[row]),
            _ => None,
        }
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        if !self.is_valid(row) {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        match &self.values {
            Values::Boolean(values) => out.extend_from_slice(if values.value(row) { b"true" } else { b"false" }),
            Values::Integer(values) => write_integer(values[row], out),
            Values::Unsigned(values) => out.extend_from_slice(values[row].to_string().as_bytes()),
            // The decoder refuses what is not finite, as it refuses these words in a line.
            Values::Real(values) => match values[row] {
                value if value.is_nan() => out.extend_from_slice(b"NaN"),
                value if value.is_infinite() => out.extend_from_slice(if value < 0.0 { b"-Infinity" } else { b"Infinity" }),
                value => write_float(value, out)?,
            },
            Values::Text(_) | Values::LargeText(_) | Values::TextView(_) => {
                write_string(Profile::Evidence, self.text(row).unwrap_or_default(), out)?;
            }
            Values::Number(pair) => match pair.as_ref() {
                [_, digits] if digits.is_valid(row) => digits.write_digits(row, out)?,
                [value, _] => value.write(row, out)?,
            },
            Values::Keyed(keys, values) => values.write(keys[row], out)?,
            Values::Items(ranges, values) => {
                out.push(b'[');
                for index in ranges[row].clone() {
                    if index > ranges[row].start {
                        out.push(b',');
                    }
                    values.write(index, out)?;
                }
                out.push(b']');
            }
            Values::Record(members) => members.write(row, out)?,
            Values::Other(error) => return Err(error.clone()),
        }
        Ok(())
    }

    /// An integer as its column of digits has it: text, or a number.
    fn write_digits(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        if matches!(self.values, Values::Integer(_) | Values::Unsigned(_)) {
            return self.write(row, out);
        }
        let text = self.text(row).unwrap_or_default();
        let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Error::new(ErrorKind::Unsupported).detail("a column of digits has other text"));
        }
        let digits = digits.trim_start_matches('0');
        out.extend_from_slice(if digits.is_empty() { b"0" } else { sign.as_bytes() });
        out.extend_from_slice(digits.as_bytes());
        Ok(())
    }
}

fn integers<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &ArrayRef) -> Values {
    Values::Integer(array.as_primitive::<T>().values().iter().map(|value| (*value).into()).collect())
}

fn floats<T: ArrowPrimitiveType<Native: Into<f64>>>(array: &ArrayRef) -> Values {
    Values::Real(array.as_primitive::<T>().values().iter().map(|value| (*value).into()).collect())
}

fn keyed(name: &str, array: &ArrayRef) -> Result<Values> {
    let Some(dictionary) = array.as_any_dictionary_opt() else { return Ok(Values::Other(no_form(name, array.data_type()))) };
    // normalized_keys is for non-empty dictionaries only; without a value, every key is null.
    let keys = if dictionary.values().is_empty() { vec![0; array.len()] } else { dictionary.normalized_keys() };
    Ok(Values::Keyed(keys, Box::new(Column::new(name, dictionary.values())?)))
}

/// Lists, from where each begins and how long it is; of the values only the part that they span is looked at.
fn items<N: TryInto<usize>, L: TryInto<usize>>(
    name: &str,
    values: &ArrayRef,
    places: impl Iterator<Item = (N, L)>,
) -> Result<Values> {
    let range = |(start, length): (N, L)| {
        let start = start.try_into().unwrap_or(0);
        start..start + length.try_into().unwrap_or(0)
    };
    let mut ranges: Vec<Range<usize>> = places.map(range).collect();
    let first = ranges.iter().map(|range| range.start).min().unwrap_or(0);
    let last = ranges.iter().map(|range| range.end).max().unwrap_or(0);
    for range in &mut ranges {
        *range = range.start - first..range.end - first;
    }
    let spanned = values.slice(first, last - first);
    Ok(Values::Items(ranges, Box::new(Column::new(name, &spanned)?)))
}

/// The type of the values, without a dictionary around them.
fn plain(of: &DataType) -> &DataType {
    if let DataType::Dictionary(_, values) = of { plain(values) } else { of }
}

fn is_text(of: &DataType) -> bool {
    matches!(plain(of), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_float(of: &DataType) -> bool {
    matches!(plain(of), DataType::Float16 | DataType::Float32 | DataType::Float64)
}

fn may_be_written_as_integer(of: &DataType) -> bool {
    is_float(of) || matches!(plain(of), DataType::Null)
}

#[cold]
fn no_form(name: &str, of: &DataType) -> Error {
    let name = if is_plain_word(name) { name } else { "?" };
    Error::new(ErrorKind::Unsupported).detail(format!("a column of {}", word(of))).at(name)
}

/// The name of a type without its parameters, which may be names of the input.
fn word(of: &DataType) -> String {
    let text = of.to_string();
    text[..text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len())].to_owned()
}
