//! Strings: borrowed when they have no escape, else decoded to WTF-8.

use std::borrow::Cow;

use super::reader::Reader;
use super::scan::plain_end;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::append;

impl<'a> Reader<'a> {
    /// Takes a string; a lone surrogate is an error.
    #[inline]
    pub fn string(&mut self) -> Result<Cow<'a, str>> {
        self.take(b'"', "expected a string")?;
        let start = self.pos;
        let stop = plain_end::<false>(self.text.as_bytes(), start);
        if self.text.as_bytes().get(stop) == Some(&b'"') {
            self.pos = stop + 1;
            return Ok(Cow::Borrowed(&self.text[start..stop]));
        }
        let (bytes, lone) = self.unescape(stop)?;
        // WTF-8 without a lone surrogate is UTF-8, so the two cases of failure are one.
        match (String::from_utf8(bytes), lone) {
            (Ok(text), None) => Ok(Cow::Owned(text)),
            (_, lone) => Err(Error::new(ErrorKind::LoneSurrogate).offset(lone.unwrap_or(start))),
        }
    }

    /// Takes a string as WTF-8: UTF-8 in which a lone surrogate stands as three bytes. Its byte order is the order of
    /// code points.
    #[inline]
    pub fn string_wtf8(&mut self) -> Result<Cow<'a, [u8]>> {
        self.take(b'"', "expected a string")?;
        let start = self.pos;
        let bytes = self.text.as_bytes();
        let stop = plain_end::<false>(bytes, start);
        if bytes.get(stop) == Some(&b'"') {
            self.pos = stop + 1;
            return Ok(Cow::Borrowed(&bytes[start..stop]));
        }
        self.unescape(stop).map(|(bytes, _)| Cow::Owned(bytes))
    }

    /// Decodes from the current place, whose plain part ends at `stop`; tells where the first lone surrogate is.
    #[cold]
    fn unescape(&mut self, mut stop: usize) -> Result<(Vec<u8>, Option<usize>)> {
        let bytes = self.text.as_bytes();
        let mut out = Vec::new();
        let mut lone = None;
        loop {
            append(&mut out, &bytes[self.pos..stop])?;
            self.pos = stop;
            match bytes.get(stop) {
                Some(b'"') => {
                    self.pos += 1;
                    return Ok((out, lone));
                }
                Some(b'\\') => {}
                Some(_) => return Err(self.syntax("a control character in a string")),
                None => return Err(self.syntax("a string without an end")),
            }
            let code = self.escape()?;
            if let Some(character) = char::from_u32(code) {
                append(&mut out, character.encode_utf8(&mut [0; 4]).as_bytes())?;
            } else {
                lone.get_or_insert(stop);
                append(&mut out, &surrogate_wtf8(code))?;
            }
            stop = plain_end::<false>(bytes, self.pos);
        }
    }

    /// Takes one escape, both halves of a surrogate pair included, and gives its code point.
    fn escape(&mut self) -> Result<u32> {
        let bytes = &self.text.as_bytes()[self.pos..];
        let simple = match bytes.get(1) {
            Some(b'u') => {
                let Some(unit) = hex4(bytes, 2) else {
                    return Err(self.syntax("an escape without four hexadecimal digits"));
                };
                let low = if bytes.get(6..8) == Some(b"\\u") { hex4(bytes, 8) } else { None };
                if let (0xd800..=0xdbff, Some(low @ 0xdc00..=0xdfff)) = (unit, low) {
                    self.pos += 12;
                    return Ok(0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
                }
                self.pos += 6;
                return Ok(unit);
            }
            Some(&byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            _ => return Err(self.syntax("an unknown escape")),
        };
        self.pos += 2;
        Ok(simple.into())
    }
}

/// The generalised UTF-8 of a surrogate code point.
fn surrogate_wtf8(code: u32) -> [u8; 3] {
    let [_, _, high, low] = code.to_be_bytes();
    [0xed, 0x80 | (high & 0x0f) << 2 | low >> 6, 0x80 | low & 0x3f]
}

fn hex4(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.iter().try_fold(0, |value, &byte| Some(value << 4 | char::from(byte).to_digit(16)?))
}
