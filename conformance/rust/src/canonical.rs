//! Canonical bytes and identities of firstnan's records: a strict JSON reader and a writer with two profiles.
//!
//! You may copy this file into your project: it needs nothing but the crate sha2 and stands under the Apache License 2.0
//! (SPDX-License-Identifier: Apache-2.0). What it does is written in docs/canonical.md of firstnan, and
//! `make conformance` holds it to every vector in schemas/vectors.
//!
//! `serde_json` will not do: the last of two members of one name wins, a lone surrogate cannot be read, and floats have
//! another layout.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// The profiles: UTF-8 with integers only, and ASCII with floats.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    Record,
    Evidence,
}

/// The bound of the record profile.
pub const MAX_BYTES: usize = 65_536;
const MAX_ITEMS: usize = 4096;
const MAX_DIGITS: usize = 4300;
const ESCAPES: [(u32, u8); 7] =
    [(0x22, b'"'), (0x5c, b'\\'), (0x08, b'b'), (0x0c, b'f'), (0x0a, b'n'), (0x0d, b'r'), (0x09, b't')];

/// Why there are no canonical bytes.
pub type Refused = &'static str;

/// Code points, since a Rust string has no form for a lone surrogate.
pub type Text = Vec<u32>;

/// A JSON value.
#[derive(Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    /// The digits of an integer of any size, `-0` written `0`.
    Integer(String),
    Float(f64),
    Text(Text),
    Array(Vec<Value>),
    /// Sorted by code point.
    Object(Vec<(Text, Value)>),
}

impl Profile {
    const fn max_depth(self) -> usize {
        match self {
            Self::Record => 16,
            Self::Evidence => 256,
        }
    }
}

/// From JSON text to canonical bytes; `max_bytes` bounds those of the record profile.
pub fn canonicalize(data: &[u8], profile: Profile, max_bytes: usize) -> Result<Vec<u8>, Refused> {
    write(&read(data, profile)?, profile, max_bytes)
}

/// The value of a JSON text: RFC 8259 to the letter, no name twice, within the depth of the profile.
pub fn read(data: &[u8], profile: Profile) -> Result<Value, Refused> {
    std::str::from_utf8(data).map_err(|_| "not UTF-8")?;
    let mut reader = Reader { rest: data, max_depth: profile.max_depth() };
    let value = reader.value(0)?;
    reader.space();
    if reader.rest.is_empty() { Ok(value) } else { Err("something after the value") }
}

struct Reader<'a> {
    rest: &'a [u8],
    max_depth: usize,
}

impl Reader<'_> {
    fn space(&mut self) {
        let length = self.rest.iter().take_while(|byte| b" \t\n\r".contains(byte)).count();
        self.rest = &self.rest[length..];
    }

    fn take(&mut self, token: &str) -> bool {
        self.space();
        let rest = self.rest.strip_prefix(token.as_bytes());
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, token: &str, otherwise: Refused) -> Result<(), Refused> {
        if self.take(token) { Ok(()) } else { Err(otherwise) }
    }

    fn value(&mut self, depth: usize) -> Result<Value, Refused> {
        if depth > self.max_depth {
            Err("nested too deep")
        } else if self.take("{") {
            self.object(depth)
        } else if self.take("[") {
            self.array(depth)
        } else if self.take("\"") {
            self.text().map(Value::Text)
        } else if self.take("null") {
            Ok(Value::Null)
        } else if self.take("true") {
            Ok(Value::Bool(true))
        } else if self.take("false") {
            Ok(Value::Bool(false))
        } else {
            self.number()
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, Refused> {
        let mut items = Vec::new();
        while !self.take("]") {
            if !items.is_empty() {
                self.expect(",", "no comma or end of an array")?;
            }
            items.push(self.value(depth + 1)?);
        }
        Ok(Value::Array(items))
    }

    fn object(&mut self, depth: usize) -> Result<Value, Refused> {
        let mut members = Vec::new();
        while !self.take("}") {
            if !members.is_empty() {
                self.expect(",", "no comma or end of an object")?;
            }
            self.expect("\"", "no name")?;
            let name = self.text()?;
            self.expect(":", "no colon")?;
            members.push((name, self.value(depth + 1)?));
        }
        members.sort_by(|(a, _), (b, _)| a.cmp(b));
        if members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err("a name twice");
        }
        Ok(Value::Object(members))
    }

    /// Reads on after the quote.
    fn text(&mut self) -> Result<Text, Refused> {
        let mut text = Text::new();
        loop {
            let end = self.rest.iter().position(|byte| *byte < 0x20 || b"\"\\".contains(byte)).ok_or("no closing quote")?;
            let (plain, rest) = self.rest.split_at(end);
            text.extend(std::str::from_utf8(plain).map_err(|_| "not UTF-8")?.chars().map(u32::from));
            self.rest = &rest[1..];
            match rest[0] {
                b'"' => return Ok(text),
                b'\\' => text.push(self.escape()?),
                _ => return Err("a control character"),
            }
        }
    }

    /// Reads on after the backslash.
    fn escape(&mut self) -> Result<u32, Refused> {
        let (letter, rest) = self.rest.split_first().ok_or("not an escape")?;
        if *letter == b'u' {
            let unit = unit(self.rest).ok_or("not an escape")?;
            self.rest = &self.rest[5..];
            let low = self.rest.strip_prefix(b"\\").and_then(self::unit);
            if let (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) = (unit, low) {
                self.rest = &self.rest[6..];
                return Ok(0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
            }
            return Ok(unit);
        }
        self.rest = rest;
        let meaning = ESCAPES.iter().find(|(_, escape)| escape == letter).map(|(meaning, _)| *meaning);
        meaning.or((*letter == b'/').then_some(0x2f)).ok_or("not an escape")
    }

    fn number(&mut self) -> Result<Value, Refused> {
        let text = self.rest;
        self.rest = text.strip_prefix(b"-").unwrap_or(text);
        self.digits()?;
        let whole = &text[..text.len() - self.rest.len()];
        let digits = whole.strip_prefix(b"-").unwrap_or(whole);
        if digits.len() > 1 && digits[0] == b'0' {
            return Err("a leading zero");
        }
        if let Some(rest) = self.rest.strip_prefix(b".") {
            self.rest = rest;
            self.digits()?;
        }
        if let Some((b'e' | b'E', rest)) = self.rest.split_first() {
            self.rest = rest.strip_prefix(b"+").or(rest.strip_prefix(b"-")).unwrap_or(rest);
            self.digits()?;
        }
        let token = std::str::from_utf8(&text[..text.len() - self.rest.len()]).map_err(|_| "not UTF-8")?;
        if token.len() > whole.len() {
            let value: f64 = token.parse().map_err(|_| "no value")?;
            return if value.is_finite() { Ok(Value::Float(value)) } else { Err("a float beyond binary64") };
        }
        if digits.len() > MAX_DIGITS {
            return Err("an integer of too many digits");
        }
        Ok(Value::Integer(if token == "-0" { "0" } else { token }.to_owned()))
    }

    fn digits(&mut self) -> Result<usize, Refused> {
        let count = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.rest = &self.rest[count..];
        if count > 0 { Ok(count) } else { Err("no digit") }
    }
}

/// The UTF-16 unit of `uXXXX`.
fn unit(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, digit| Some(unit * 16 + char::from(*digit).to_digit(16)?))
}

/// The canonical bytes of a value.
pub fn write(value: &Value, profile: Profile, max_bytes: usize) -> Result<Vec<u8>, Refused> {
    let mut writer = Writer { out: String::new(), profile, items: 0 };
    writer.value(value, 0)?;
    if profile == Profile::Record && writer.out.len() > max_bytes {
        return Err("too many bytes");
    }
    Ok(writer.out.into_bytes())
}

struct Writer {
    out: String,
    profile: Profile,
    items: usize,
}

impl Writer {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Refused> {
        let record = self.profile == Profile::Record;
        self.items += 1;
        if depth > self.profile.max_depth() {
            return Err("nested too deep");
        }
        if record && self.items > MAX_ITEMS {
            return Err("too many values");
        }
        match value {
            Value::Null => self.out += "null",
            Value::Bool(value) => self.out += if *value { "true" } else { "false" },
            Value::Integer(digits) if record && digits.parse::<i64>().is_err() => return Err("an integer beyond 64 bits"),
            Value::Integer(digits) => self.out += digits,
            Value::Float(value) if record || !value.is_finite() => return Err("a float that has no form"),
            Value::Float(value) => self.out += &float(*value),
            Value::Text(text) => self.text(text)?,
            Value::Array(items) => {
                self.out.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.out += if index > 0 { "," } else { "" };
                    self.value(item, depth + 1)?;
                }
                self.out.push(']');
            }
            Value::Object(members) => {
                self.out.push('{');
                for (index, (name, member)) in members.iter().enumerate() {
                    self.out += if index > 0 { "," } else { "" };
                    self.text(name)?;
                    self.out.push(':');
                    self.value(member, depth + 1)?;
                }
                self.out.push('}');
            }
        }
        Ok(())
    }

    fn text(&mut self, text: &[u32]) -> Result<(), Refused> {
        self.out.push('"');
        for &code in text {
            if let Some((_, letter)) = ESCAPES.iter().find(|(meaning, _)| *meaning == code) {
                self.out.push('\\');
                self.out.push(char::from(*letter));
            } else if code < 0x20 || self.profile == Profile::Evidence && code >= 0x7f {
                match code.checked_sub(0x1_0000) {
                    None => write!(self.out, "\\u{code:04x}"),
                    Some(above) => write!(self.out, "\\u{:04x}\\u{:04x}", 0xd800 + (above >> 10), 0xdc00 + (above & 0x3ff)),
                }
                .map_err(|_| "no memory")?;
            } else {
                self.out.push(char::from_u32(code).ok_or("a lone surrogate")?);
            }
        }
        self.out.push('"');
        Ok(())
    }
}

/// The fewest digits that read back, the nearest of such, in the layout of Python's repr.
fn float(value: f64) -> String {
    let shortest = format!("{value:e}");
    // Of two texts equally near, std's shortest is the upper one, and its exact rounding the even one.
    let precision = shortest.split('e').next().map_or(0, |mantissa| mantissa.bytes().filter(u8::is_ascii_digit).count() - 1);
    let nearest = format!("{value:.precision$e}");
    let text = if nearest.parse() == Ok(value) { nearest } else { shortest };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let power = exponent.unsigned_abs() as usize;
    if exponent >= 16 || exponent < -4 {
        return format!("{mantissa}e{}{power:02}", if exponent < 0 { '-' } else { '+' });
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    if exponent < 0 {
        return format!("{sign}0.{}{digits}", "0".repeat(power - 1));
    }
    let padded = format!("{digits:0<0$}", power + 2);
    let (whole, fraction) = padded.split_at(power + 1);
    format!("{sign}{whole}.{fraction}")
}

/// SHA-256 in lower-case hex: over the bytes of the record profile it is the digest of a record.
pub fn sha256(canonical: &[u8]) -> String {
    Sha256::digest(canonical).iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

/// PREFIX@sha256:HEX over canonical bytes of the evidence profile.
pub fn content_id(prefix: &str, canonical: &[u8]) -> String {
    format!("{prefix}@sha256:{}", sha256(canonical))
}
