//! What the JSON Schema keywords compile to: one small struct a type, each with a way in from JSON and from objects.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::error::{Error, ErrorKind, Result, is_plain_word};
use crate::json::{Reader, Token};
use crate::record::{Choice, Located, Real, Value};

/// The bytes that a string may not hold are 1, the others 0: or-ed together without a branch for each byte.
pub(crate) type ByteSet = [u8; 256];

/// The byte set that allows inclusive ranges.
pub(crate) const fn byte_set(ranges: &[(u8, u8)]) -> ByteSet {
    let mut set = [1; 256];
    let mut i = 0;
    while i < ranges.len() {
        let mut byte = ranges[i].0;
        while byte <= ranges[i].1 {
            set[byte as usize] = 0;
            byte += 1;
        }
        i += 1;
    }
    set
}

/// `minLength`, `maxLength` (code points), `pattern` as a literal start or a first character, `not pattern` as a set.
pub(crate) struct TextShape {
    pub min: usize,
    pub max: usize,
    pub start: &'static str,
    pub first: Option<&'static ByteSet>,
    /// Has the set no byte that JSON would escape?
    pub plain: bool,
    pub allowed: Option<&'static ByteSet>,
    /// The patterns as the schema has them, for messages.
    pub pattern: &'static str,
}

impl TextShape {
    pub(crate) fn check(&self, text: &str) -> Result<()> {
        let bytes = text.as_bytes();
        // A set holds ASCII only, where bytes are code points; any other byte is refused below.
        let length = if self.allowed.is_some() { bytes.len() } else { text.chars().count() };
        if length > self.max {
            return Err(Error::new(ErrorKind::MaxLength).bound(self.max));
        }
        if length < self.min {
            return Err(Error::new(ErrorKind::MinLength).bound(self.min));
        }
        let fits = !self.allowed.is_some_and(|set| outside(set, bytes)) && self.begins_well(text);
        if fits { Ok(()) } else { Err(Error::new(ErrorKind::Pattern).bound(self.pattern)) }
    }

    #[inline]
    fn begins_well(&self, text: &str) -> bool {
        let first = || text.bytes().next();
        // The empty text first: an AVX-512 memcmp of no bytes at its dangling address took 28 % of all ingestion.
        (self.start.is_empty() || text.starts_with(self.start))
            && self.first.is_none_or(|set| first().is_some_and(|byte| set[usize::from(byte)] == 0))
    }

    pub(crate) fn read<'a>(&self, reader: &mut Reader<'a>) -> Result<Cow<'a, str>> {
        expect(reader, Token::String, "string")?;
        let offset = reader.offset();
        let text = reader.string()?;
        self.check(&text).map_err(|e| e.offset(offset))?;
        Ok(text)
    }

    #[inline]
    pub(crate) fn quick<'a>(&self, reader: &mut Reader<'a>) -> Option<Cow<'a, str>> {
        if let Some(set) = self.allowed.filter(|_| self.plain) {
            let text = reader.quick_string_of(set)?;
            let fits = (self.min..=self.max).contains(&text.len()) && self.begins_well(text);
            return fits.then_some(Cow::Borrowed(text));
        }
        let text = reader.quick_string()?;
        self.check(text).ok()?;
        Some(Cow::Borrowed(text))
    }

    pub(crate) fn extract<'a, V: Value<'a>>(&self, value: V, exact: bool) -> std::result::Result<Cow<'a, str>, V::Error> {
        let text = value.text(exact)?;
        self.check(&text)?;
        Ok(text)
    }
}

/// Is a byte outside the set? Eight lookups at a time, or-ed together.
#[inline]
fn outside(set: &ByteSet, bytes: &[u8]) -> bool {
    let (eights, rest) = bytes.as_chunks::<8>();
    let of = |bytes: &[u8]| bytes.iter().fold(0, |any, byte| any | set[usize::from(*byte)]);
    (eights.iter().fold(0, |any, eight| any | of(eight)) | of(rest)) != 0
}

/// `type: integer` with `minimum` and `maximum`.
pub(crate) struct IntegerShape {
    pub min: i64,
    pub max: i64,
}

impl IntegerShape {
    pub(crate) fn check_value(&self, value: i64) -> Result<()> {
        self.check(i128::from(value)).map(drop)
    }

    fn check(&self, value: i128) -> Result<i64> {
        if value < i128::from(self.min) {
            return Err(Error::new(ErrorKind::Minimum).bound(self.min));
        }
        match i64::try_from(value) {
            Ok(value) if value <= self.max => Ok(value),
            _ => Err(Error::new(ErrorKind::Maximum).bound(self.max)),
        }
    }

    pub(crate) fn read(&self, reader: &mut Reader<'_>) -> Result<i64> {
        expect(reader, Token::Number, "integer")?;
        let offset = reader.offset();
        let number = reader.number()?;
        let value = if number.integer {
            match number.to_i64() {
                Some(value) => i128::from(value),
                None if number.text.starts_with('-') => i128::MIN,
                None => i128::MAX,
            }
        } else {
            // JSON Schema takes 5.0 for an integer; the wire form does not.
            let value = number.to_f64().filter(|value| value.fract() == 0.0);
            let value = value.ok_or_else(|| wrong_type("integer").offset(offset))?;
            reader.set_wire_fault(Error::new(ErrorKind::IntegerForm).offset(offset));
            #[expect(clippy::cast_possible_truncation, reason = "a float beyond i128 saturates, out of every bound")]
            let value = value as i128;
            value
        };
        self.check(value).map_err(|e| e.offset(offset))
    }

    #[inline]
    pub(crate) fn quick(&self, reader: &mut Reader<'_>) -> Option<i64> {
        reader.quick_integer().filter(|value| (self.min..=self.max).contains(value))
    }

    pub(crate) fn extract<'a, V: Value<'a>>(&self, value: V, exact: bool) -> std::result::Result<i64, V::Error> {
        Ok(self.check(value.integer(exact)?)?)
    }
}

/// `type: number` with its bounds; a bound beyond binary64 in the schema means no more than finite.
pub(crate) struct RealShape {
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub exclusive_min: Option<f64>,
    pub exclusive_max: Option<f64>,
}

impl RealShape {
    pub(crate) fn check(&self, real: &Real<'_>) -> Result<()> {
        let value = real.to_f64();
        if !value.is_finite() {
            return Err(beyond_binary64(value < 0.0));
        }
        let bounds = [
            (self.min, ErrorKind::Minimum, Ordering::is_ge as fn(Ordering) -> bool),
            (self.max, ErrorKind::Maximum, Ordering::is_le),
            (self.exclusive_min, ErrorKind::ExclusiveMinimum, Ordering::is_gt),
            (self.exclusive_max, ErrorKind::ExclusiveMaximum, Ordering::is_lt),
        ];
        for (bound, kind, kept) in bounds {
            if let Some(bound) = bound
                && !real.compare(bound).is_some_and(kept)
            {
                return Err(Error::new(kind).bound(bound));
            }
        }
        Ok(())
    }

    pub(crate) fn read<'a>(&self, reader: &mut Reader<'a>) -> Result<Real<'a>> {
        expect(reader, Token::Number, "number")?;
        let offset = reader.offset();
        let number = reader.number()?;
        let real = if !number.integer {
            let non_finite = || beyond_binary64(number.text.starts_with('-')).offset(offset);
            Real::Float(number.to_f64().ok_or_else(non_finite)?)
        } else if let Some(value) = number.to_i64() {
            Real::Int(value)
        } else {
            Real::Big(Cow::Borrowed(number.text))
        };
        self.check(&real).map_err(|e| e.offset(offset))?;
        Ok(real)
    }

    #[inline]
    pub(crate) fn quick<'a>(&self, reader: &mut Reader<'a>) -> Option<Real<'a>> {
        let Some(real) = reader.quick_real() else { return self.read(reader).ok() };
        self.check(&real).is_ok().then_some(real)
    }

    pub(crate) fn extract<'a, V: Value<'a>>(&self, value: V) -> std::result::Result<Real<'a>, V::Error> {
        let real = value.real()?;
        self.check(&real)?;
        Ok(real)
    }
}

/// The index of a string in a closed list, where it has the usual spelling.
#[inline]
pub(crate) fn quick_choice(reader: &mut Reader<'_>, choice: &'static Choice) -> Option<usize> {
    let text = reader.quick_string()?;
    choice.values.iter().position(|value| *value == text)
}

/// The refusal of a number that has no finite binary64.
#[cold]
pub fn beyond_binary64(negative: bool) -> Error {
    let (kind, bound) = if negative { (ErrorKind::Minimum, "least") } else { (ErrorKind::Maximum, "largest") };
    Error::new(kind).bound(format_args!("the {bound} finite binary64"))
}

pub(crate) fn read_boolean(reader: &mut Reader<'_>) -> Result<bool> {
    if !matches!(reader.peek()?, Token::True | Token::False) {
        return Err(wrong_type("boolean").offset(reader.offset()));
    }
    reader.boolean()
}

/// The index of a string in a closed list.
pub(crate) fn read_choice(reader: &mut Reader<'_>, choice: &'static Choice) -> Result<usize> {
    expect(reader, Token::String, "string")?;
    let offset = reader.offset();
    let text = reader.string()?;
    choice.index_of(&text).map_err(|e| e.offset(offset))
}

impl Choice {
    /// The index of a value, or an error that lists the allowed ones.
    pub fn index_of(&self, text: &str) -> Result<usize> {
        let index = self.values.iter().position(|value| *value == text);
        index.ok_or_else(|| Error::new(ErrorKind::Enum).bound(self.values.join(", ")))
    }
}

/// `minItems` and `maxItems` around the items.
pub(crate) struct ArrayShape {
    pub min: usize,
    pub max: usize,
}

impl ArrayShape {
    fn check(&self, length: usize) -> Result<()> {
        if length < self.min {
            return Err(Error::new(ErrorKind::MinItems).bound(self.min));
        }
        if length > self.max {
            return Err(Error::new(ErrorKind::MaxItems).bound(self.max));
        }
        Ok(())
    }

    pub(crate) fn read<'a, T>(
        &self,
        reader: &mut Reader<'a>,
        mut item: impl FnMut(&mut Reader<'a>) -> Result<T>,
    ) -> Result<Vec<T>> {
        expect(reader, Token::Array, "array")?;
        let offset = reader.offset();
        reader.begin_array()?;
        let mut first = true;
        let mut items = Vec::new();
        while reader.next_element(&mut first)? {
            self.check_room(items.len()).map_err(|e| e.offset(offset))?;
            let index = items.len();
            items.push(located(reader, &mut item, |e| e.at_index(index))?);
        }
        self.check(items.len()).map_err(|e| e.offset(offset))?;
        Ok(items)
    }

    pub(crate) fn quick<'a, T>(
        &self,
        reader: &mut Reader<'a>,
        mut item: impl FnMut(&mut Reader<'a>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let mut first = true;
        let mut items = Vec::new();
        while reader.quick_element(&mut first)? {
            self.check_room(items.len()).ok()?;
            items.push(item(reader)?);
        }
        self.check(items.len()).ok()?;
        Some(items)
    }

    pub(crate) fn check_items<T>(&self, items: &[T], item: impl Fn(&T) -> Result<()>) -> Result<()> {
        self.check(items.len())?;
        items.iter().enumerate().try_for_each(|(index, it)| item(it).map_err(|e| e.at_index(index)))
    }

    fn check_room(&self, length: usize) -> Result<()> {
        if length < self.max { Ok(()) } else { self.check(length + 1) }
    }

    pub(crate) fn extract<'a, V: Value<'a>, T>(
        &self,
        value: V,
        mut item: impl FnMut(V) -> std::result::Result<T, V::Error>,
    ) -> std::result::Result<Vec<T>, V::Error> {
        let values = value.items(self.max.saturating_add(1))?;
        self.check(values.len())?;
        let mut items = Vec::with_capacity(values.len());
        for (index, value) in values.into_iter().enumerate() {
            items.push(item(value).map_err(|e| e.at_index(index))?);
        }
        Ok(items)
    }
}

/// The value, or null.
pub(crate) fn read_optional<'a, T>(
    reader: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T>,
) -> Result<Option<T>> {
    if reader.peek()? == Token::Null {
        reader.null()?;
        return Ok(None);
    }
    read(reader).map(Some)
}

/// The value, or null, in the usual spelling.
#[expect(clippy::option_option, reason = "whether it could be read, and whether there is one")]
pub(crate) fn quick_optional<'a, T>(
    reader: &mut Reader<'a>,
    quick: impl FnOnce(&mut Reader<'a>) -> Option<T>,
) -> Option<Option<T>> {
    if reader.peek().ok()? == Token::Null {
        reader.null().ok()?;
        return Some(None);
    }
    quick(reader).map(Some)
}

/// The value, or null.
pub(crate) fn extract_optional<'a, V: Value<'a>, T>(
    value: V,
    extract: impl FnOnce(V) -> std::result::Result<T, V::Error>,
) -> std::result::Result<Option<T>, V::Error> {
    if value.is_null() { Ok(None) } else { extract(value).map(Some) }
}

pub(crate) fn begin_record(reader: &mut Reader<'_>) -> Result<()> {
    expect(reader, Token::Object, "object")?;
    reader.begin_object()
}

/// Reads a member; a name seen before is a wire fault, and as in most parsers the last value counts until then.
pub(crate) fn member<'a, T>(
    reader: &mut Reader<'a>,
    slot: &mut Option<T>,
    name: &'static str,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T>,
) -> Result<()> {
    if slot.is_some() {
        reader.set_wire_fault(Error::new(ErrorKind::DuplicateName).offset(reader.offset()).at(name));
    }
    *slot = Some(located(reader, read, |e| e.at(name))?);
    Ok(())
}

/// Reads below a place, so that an error learns of it, and so does a wire fault that waits in the reader.
#[inline]
fn located<'a, T>(
    reader: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T>,
    place: impl Fn(Error) -> Error,
) -> Result<T> {
    let waited = reader.has_wire_fault();
    let result = read(reader).map_err(&place);
    if !waited && let Some(fault) = reader.take_wire_fault() {
        reader.set_wire_fault(place(fault));
    }
    result
}

pub(crate) fn required<T>(slot: Option<T>, name: &'static str) -> Result<T> {
    slot.ok_or_else(|| Error::new(ErrorKind::Required).at(name))
}

#[cold]
pub(crate) fn unknown_name(reader: &Reader<'_>, name: &str) -> Error {
    let error = Error::new(ErrorKind::UnknownName).offset(reader.offset());
    if is_plain_word(name) { error.at(name) } else { error }
}

/// The tag of a union, looked up without moving the reader.
pub(crate) fn read_tag(reader: &mut Reader<'_>, tag: &'static str, choice: &'static Choice) -> Result<usize> {
    expect(reader, Token::Object, "object")?;
    let mut ahead = reader.clone();
    ahead.begin_object()?;
    let mut first = true;
    let mut found = None;
    while let Some(name) = ahead.next_name(&mut first)? {
        if name == tag {
            found = Some(read_choice(&mut ahead, choice).map_err(|e| e.at(tag))?);
        } else {
            ahead.skip_value()?;
        }
    }
    required(found, tag)
}

#[cold]
fn wrong_type(expected: &str) -> Error {
    Error::new(ErrorKind::Type).bound(expected)
}

#[inline]
fn expect(reader: &mut Reader<'_>, token: Token, expected: &str) -> Result<()> {
    if reader.peek()? == token { Ok(()) } else { Err(wrong_type(expected).offset(reader.offset())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOWER: ByteSet = byte_set(&[(b'a', b'z')]);
    const NAME: TextShape =
        TextShape { min: 1, max: 3, start: "", first: Some(&LOWER), plain: true, allowed: Some(&LOWER), pattern: "[a-z]" };
    const FREE: TextShape = TextShape { min: 2, max: 3, start: "", first: None, plain: false, allowed: None, pattern: "" };

    #[test]
    fn length_is_in_code_points() {
        assert!(FREE.check("éé").is_ok());
        assert!(FREE.check("😀😀😀").is_ok());
        assert!(FREE.check("😀").is_err());
        assert!(FREE.check("éééé").is_err());
    }

    #[test]
    fn a_set_refuses_a_trailing_newline() {
        assert!(NAME.check("ab").is_ok());
        for text in ["", "a\n", "A", "é", "abcd", "\0"] {
            assert!(NAME.check(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn reals_are_bounded_whatever_their_written_type() {
        let unit = RealShape { min: Some(0.0), max: None, exclusive_min: None, exclusive_max: Some(1.0) };
        assert!(unit.check(&Real::Float(-0.0)).is_ok());
        assert!(unit.check(&Real::Int(1)).is_err());
        assert!(unit.check(&Real::Big("-9223372036854775809".into())).is_err());
        let any = RealShape { min: None, max: None, exclusive_min: None, exclusive_max: None };
        assert!(any.check(&Real::Float(f64::NAN)).is_err());
        assert!(any.check(&Real::Big(format!("1{}", "0".repeat(308)).into())).is_ok());
        assert!(any.check(&Real::Big(format!("1{}", "0".repeat(309)).into())).is_err());
    }
}
