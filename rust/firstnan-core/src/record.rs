//! What every generated record offers, and the traits it speaks: JSON in, objects in, objects out, values out.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::error::{Error, Result};
use crate::json::Reader;

/// One of the two canonical byte forms (docs/canonical.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// UTF-8, integers only: lifecycle records and consensus.
    Record,
    /// ASCII, floats allowed: incident records.
    Evidence,
}

/// A JSON number that keeps the type it was written in: `1024` and `1024.0` have different identities.
#[derive(Clone, Debug, PartialEq)]
pub enum Real<'a> {
    /// An integer that fits 64 bits.
    Int(i64),
    /// Any other integer, as canonical decimal digits with an optional minus.
    Big(Cow<'a, str>),
    /// A finite binary64.
    Float(f64),
}

impl Real<'_> {
    /// The value in binary64, correctly rounded; infinite where an integer is too large for it.
    pub fn to_f64(&self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "rounding to binary64 is what is asked for")]
            Self::Int(value) => *value as f64,
            // Beyond 309 digits the range is left, and str::parse is not to be trusted with very long texts.
            Self::Big(digits) if digits.len() > 310 => f64::INFINITY.copysign(if digits.starts_with('-') { -1.0 } else { 1.0 }),
            Self::Big(digits) => digits.parse().unwrap_or(f64::NAN),
            Self::Float(value) => *value,
        }
    }

    /// Compares by value with a finite binary64, exactly: rounding never moves an integer past a neighbour.
    pub fn compare(&self, other: f64) -> Option<Ordering> {
        let rounded = self.to_f64();
        match (self, rounded.partial_cmp(&other)?) {
            #[expect(clippy::cast_possible_truncation, reason = "equal to a rounded i64, so an integer within i128")]
            (Self::Int(value), Ordering::Equal) => Some(i128::from(*value).cmp(&(other as i128))),
            (Self::Big(digits), Ordering::Equal) => {
                let exact = format!("{other:.0}");
                let magnitude = digits.len().cmp(&exact.len()).then_with(|| digits.as_ref().cmp(&exact));
                Some(if other < 0.0 { magnitude.reverse() } else { magnitude })
            }
            (_, ordering) => Some(ordering),
        }
    }

    /// Equality by value: 1024 is 1024.0.
    pub fn equals(&self, other: &Real<'_>) -> bool {
        match (self, other) {
            (_, Real::Float(float)) => self.compare(*float) == Some(Ordering::Equal),
            (Real::Float(float), _) => other.compare(*float) == Some(Ordering::Equal),
            _ => self == other,
        }
    }
}

/// A closed list of strings: a field's `enum` in the schema.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its place in `CHOICES`.
    pub index: usize,
    /// The Python enum class, or empty where Python uses the plain string.
    pub name: &'static str,
    /// The allowed values, in the order of the schema.
    pub values: &'static [&'static str],
}

/// The type of a field, for those who walk records (objects, tables) instead of naming fields.
#[derive(Clone, Copy, Debug)]
pub enum FieldType {
    /// A string.
    Text,
    /// An integer in the 64-bit range.
    Integer,
    /// A number that keeps its written type.
    Real,
    /// true or false.
    Boolean,
    /// One of a closed list of strings.
    Choice(&'static Choice),
    /// Another record.
    Record(&'static RecordInfo),
    /// One of several records, told apart by a member.
    Union(&'static [&'static RecordInfo]),
    /// An array.
    Array(&'static FieldType),
    /// The type, or null.
    Optional(&'static FieldType),
}

/// A field of a record.
#[derive(Debug)]
pub struct FieldInfo {
    /// The name in JSON and in Python.
    pub name: &'static str,
    /// Its type.
    pub kind: FieldType,
}

/// What is known of a kind of record when no record is at hand.
#[derive(Debug)]
pub struct RecordInfo {
    /// Its place in `RECORDS`.
    pub index: usize,
    /// `stage-telemetry`
    pub kind: &'static str,
    /// `StageTelemetry`, the Python class.
    pub name: &'static str,
    /// Its canonical profile.
    pub profile: Profile,
    /// True for incident records: strings must be exactly `str`, integers exactly `int`.
    pub exact: bool,
    /// The fields in the order of the schema.
    pub fields: &'static [FieldInfo],
    /// Indices into `fields`, sorted by name: the order of canonical bytes.
    pub sorted: &'static [usize],
}

/// Objects in: a value of another language, asked for as what the schema says it is.
pub trait Value<'a>: Sized {
    /// The error of that language's side.
    type Error: From<Error> + Located;
    /// Is it null?
    fn is_null(&self) -> bool;
    /// A string without lone surrogates.
    fn text(self, exact: bool) -> std::result::Result<Cow<'a, str>, Self::Error>;
    /// An integer, never a boolean; beyond 128 bits it is saturated, which every bound of the contract refuses.
    fn integer(self, exact: bool) -> std::result::Result<i128, Self::Error>;
    /// An integer or a float, never a boolean, finite in binary64.
    fn real(self) -> std::result::Result<Real<'a>, Self::Error>;
    /// A boolean.
    fn boolean(self) -> std::result::Result<bool, Self::Error>;
    /// The index of the value in `choice.values`.
    fn choice(self, choice: &'static Choice, exact: bool) -> std::result::Result<usize, Self::Error>;
    /// The members of an array, at most `most` of them.
    fn items(self, most: usize) -> std::result::Result<Vec<Self>, Self::Error>;
    /// The fields of a record of exactly this kind, in the order of the schema.
    fn fields<const N: usize>(self, info: &'static RecordInfo) -> std::result::Result<[Self; N], Self::Error>;
    /// Which of these records it is.
    fn variant(&self, of: &'static [&'static RecordInfo]) -> std::result::Result<usize, Self::Error>;
}

/// An error that learns where it happened on its way out.
pub trait Located {
    /// Moves the error below a member name.
    #[must_use]
    fn at(self, name: &'static str) -> Self;
    /// Moves the error below an array index.
    #[must_use]
    fn at_index(self, index: usize) -> Self;
}

impl Located for Error {
    fn at(self, name: &'static str) -> Self {
        Error::at(self, name)
    }
    fn at_index(self, index: usize) -> Self {
        Error::at_index(self, index)
    }
}

/// Objects out: what a record becomes in another language.
pub trait Builder {
    /// A built value.
    type Out;
    /// Why it could not be built.
    type Error;
    /// null
    fn null(&mut self) -> std::result::Result<Self::Out, Self::Error>;
    /// A string.
    fn text(&mut self, value: &str) -> std::result::Result<Self::Out, Self::Error>;
    /// An integer.
    fn integer(&mut self, value: i64) -> std::result::Result<Self::Out, Self::Error>;
    /// A number that keeps its type.
    fn real(&mut self, value: &Real<'_>) -> std::result::Result<Self::Out, Self::Error>;
    /// A boolean.
    fn boolean(&mut self, value: bool) -> std::result::Result<Self::Out, Self::Error>;
    /// A member of a closed list.
    fn choice(&mut self, choice: &'static Choice, index: usize) -> std::result::Result<Self::Out, Self::Error>;
    /// An array.
    fn items(&mut self, values: Vec<Self::Out>) -> std::result::Result<Self::Out, Self::Error>;
    /// A record, its fields in the order of the schema.
    fn record<const N: usize>(
        &mut self,
        info: &'static RecordInfo,
        values: [Self::Out; N],
    ) -> std::result::Result<Self::Out, Self::Error>;
}

/// Values out one by one, in the order of the schema: for tables, which build no value of their own for a record.
pub trait Visitor {
    /// null, of whatever type the field has.
    fn null(&mut self);
    /// A string.
    fn text(&mut self, value: &str);
    /// An integer.
    fn integer(&mut self, value: i64);
    /// A number that keeps its type.
    fn real(&mut self, value: &Real<'_>);
    /// A boolean.
    fn boolean(&mut self, value: bool);
    /// A member of a closed list.
    fn choice(&mut self, choice: &'static Choice, index: usize);
    /// An array of so many items begins; each follows its own [`Self::item`].
    fn begin_items(&mut self, length: usize);
    /// The next item of the innermost array comes.
    fn item(&mut self);
    /// The innermost array ends.
    fn end_items(&mut self);
    /// A record begins; each value follows its own [`Self::field`].
    fn begin_record(&mut self, info: &'static RecordInfo);
    /// The next value is this field of the innermost record.
    fn field(&mut self, index: usize);
    /// The innermost record ends.
    fn end_record(&mut self);
}

/// A record of the contract. Everything here is generated from its schema.
pub trait Record<'a>: Sized {
    /// `stage-telemetry`, or the name of a union of records.
    const KIND: &'static str;
    /// The canonical profile.
    const PROFILE: Profile;

    /// Reads one JSON value as this record: shape only. A wire fault waits in the reader until shape and rules hold.
    fn read(reader: &mut Reader<'a>) -> Result<Self>;
    /// Reads one JSON value as this record where it has the usual spelling, its members in the order of the schema or, when
    /// `SORTED`, by name, and its shape holds. None says only that [`Self::read`] has to look.
    fn read_quickly<const SORTED: bool>(reader: &mut Reader<'a>) -> Option<Self>;
    /// Takes this record from an object of another language: shape only.
    fn extract<V: Value<'a>>(value: V) -> std::result::Result<Self, V::Error>;
    /// The shape of a record built by hand.
    fn check_shape(&self) -> Result<()>;
    /// The rules between fields, of this record and of the records in it.
    fn check_rules(&self) -> Result<()>;
    /// Appends the canonical bytes, in the record's own profile, of a record whose shape is known to hold.
    fn write(&self, out: &mut Vec<u8>) -> Result<()>;
    /// Builds the record in another language.
    fn build<B: Builder>(&self, builder: &mut B) -> std::result::Result<B::Out, B::Error>;
    /// Shows every value to a visitor, in the order of the schema.
    fn visit<V: Visitor>(&self, visitor: &mut V);

    /// Decodes strictly: the whole input is this record, nothing else.
    ///
    /// Errors carry the layer that refuses first: shape, then rule, then wire.
    fn decode(data: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(data).map_err(|e| e.in_record(Self::KIND))?;
        if let Some(record) = decode_quickly(&reader) {
            return Ok(record);
        }
        let result = Self::read(&mut reader).and_then(|record| {
            reader.end()?;
            record.check_rules()?;
            match reader.take_wire_fault() {
                Some(fault) => Err(fault),
                None => Ok(record),
            }
        });
        result.map_err(|e| e.in_record(Self::KIND))
    }

    /// The canonical bytes in the record's own profile, after shape and rules: its fields are public.
    fn encode(&self) -> Result<Vec<u8>> {
        self.check_shape().and_then(|()| self.check_rules()).map_err(|e| e.in_record(Self::KIND))?;
        let mut out = Vec::with_capacity(1024);
        self.write(&mut out)?;
        Ok(out)
    }
}

/// A record in the usual spelling that nothing refuses; None says only that the careful way has to look.
pub(crate) fn decode_quickly<'a, R: Record<'a>>(start: &Reader<'a>) -> Option<R> {
    let mut reader = start.clone();
    let record = R::read_quickly::<false>(&mut reader).or_else(|| {
        reader = start.clone();
        R::read_quickly::<true>(&mut reader)
    })?;
    reader.end().ok()?;
    if record.check_rules().is_ok() && !reader.has_wire_fault() { Some(record) } else { None }
}

/// What is done with a record of whatever kind: a closure that is generic.
pub trait Taker {
    /// What comes of it.
    type Out;
    /// Does it.
    fn take<'a, R: Record<'a>>(self, record: &R) -> Self::Out;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reals_compare_exactly_across_types() {
        let two_53 = 9_007_199_254_740_992.0;
        assert_eq!(Real::Int(9_007_199_254_740_993).compare(two_53), Some(Ordering::Greater));
        assert_eq!(Real::Int(9_007_199_254_740_991).compare(two_53), Some(Ordering::Less));
        assert_eq!(Real::Int(i64::MAX).compare(9_223_372_036_854_775_808.0), Some(Ordering::Less));
        assert_eq!(Real::Big("9223372036854775808".into()).compare(9_223_372_036_854_775_808.0), Some(Ordering::Equal));
        assert_eq!(Real::Big("9223372036854775809".into()).compare(9_223_372_036_854_775_808.0), Some(Ordering::Greater));
        assert_eq!(Real::Big("-9223372036854775809".into()).compare(-9_223_372_036_854_775_808.0), Some(Ordering::Less));
        assert!(Real::Int(1024).equals(&Real::Float(1024.0)));
        assert!(!Real::Int(i64::MAX).equals(&Real::Float(9_223_372_036_854_775_808.0)));
    }
}
