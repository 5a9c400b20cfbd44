//! The pull reader: the caller asks for what it expects and gets it, or an error with a byte offset.

use std::borrow::Cow;

use super::Number;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::MAX_EVIDENCE_DEPTH;

/// What comes next in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// `{`
    Object,
    /// `[`
    Array,
    /// `"`
    String,
    /// A digit or a minus.
    Number,
    /// The start of `true`.
    True,
    /// The start of `false`.
    False,
    /// The start of `null`.
    Null,
}

/// A strict reader over one JSON text.
///
/// It keeps no tree and no stack. Duplicate names are the caller's to refuse, since only the caller knows the names.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) pos: usize,
    fault: Option<Error>,
}

impl<'a> Reader<'a> {
    /// A reader at the start of the text; refuses a byte order mark and anything that is not UTF-8.
    pub fn new(data: &'a [u8]) -> Result<Self> {
        if data.starts_with(b"\xef\xbb\xbf") {
            return Err(Error::new(ErrorKind::ByteOrderMark).offset(0));
        }
        match std::str::from_utf8(data) {
            Ok(text) => Ok(Self { text, pos: 0, fault: None }),
            Err(error) => Err(Error::new(ErrorKind::Encoding).offset(error.valid_up_to())),
        }
    }

    /// The byte offset of what is read next.
    #[inline]
    pub fn offset(&self) -> usize {
        self.pos
    }

    /// Keeps a fault of the wire layer until shape and rules have had their say. The first one stays.
    #[cold]
    pub fn set_wire_fault(&mut self, fault: Error) {
        self.fault.get_or_insert(fault);
    }

    /// Is a fault kept?
    #[inline]
    pub fn has_wire_fault(&self) -> bool {
        self.fault.is_some()
    }

    /// The first fault kept, if any.
    #[inline]
    pub fn take_wire_fault(&mut self) -> Option<Error> {
        self.fault.take()
    }

    /// Skips white space and tells what comes next, without taking it.
    #[inline]
    pub fn peek(&mut self) -> Result<Token> {
        self.skip_space();
        match self.byte() {
            Some(b'"') => Ok(Token::String),
            Some(b'-' | b'0'..=b'9') => Ok(Token::Number),
            Some(b'{') => Ok(Token::Object),
            Some(b'[') => Ok(Token::Array),
            Some(b't') => Ok(Token::True),
            Some(b'f') => Ok(Token::False),
            Some(b'n') => Ok(Token::Null),
            _ => Err(self.syntax("no value starts here")),
        }
    }

    /// Takes `{`.
    #[inline]
    pub fn begin_object(&mut self) -> Result<()> {
        self.take(b'{', "expected an object")
    }

    /// Takes `[`.
    #[inline]
    pub fn begin_array(&mut self) -> Result<()> {
        self.take(b'[', "expected an array")
    }

    /// Takes the next name of an object and its colon, or the closing brace (None). `first` starts as true.
    #[inline]
    pub fn next_name(&mut self, first: &mut bool) -> Result<Option<Cow<'a, str>>> {
        if !self.next_member(first, b'}')? {
            return Ok(None);
        }
        let name = self.string()?;
        self.take(b':', "expected a colon")?;
        Ok(Some(name))
    }

    /// As [`Self::next_name`], in WTF-8: a lone surrogate stays as its three bytes.
    #[inline]
    pub fn next_name_wtf8(&mut self, first: &mut bool) -> Result<Option<Cow<'a, [u8]>>> {
        if !self.next_member(first, b'}')? {
            return Ok(None);
        }
        let name = self.string_wtf8()?;
        self.take(b':', "expected a colon")?;
        Ok(Some(name))
    }

    /// Moves to the next element of an array (true), or takes the closing bracket (false). `first` starts as true.
    #[inline]
    pub fn next_element(&mut self, first: &mut bool) -> Result<bool> {
        self.next_member(first, b']')
    }

    /// Takes a number. What stands after it is for the next call to judge.
    #[inline]
    pub fn number(&mut self) -> Result<Number<'a>> {
        self.skip_space();
        let start = self.pos;
        if self.byte() == Some(b'-') {
            self.pos += 1;
        }
        if self.byte() == Some(b'0') {
            self.pos += 1;
        } else {
            self.digits()?;
        }
        let whole = self.pos;
        if self.byte() == Some(b'.') {
            self.pos += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.pos += 1;
            if let Some(b'+' | b'-') = self.byte() {
                self.pos += 1;
            }
            self.digits()?;
        }
        Ok(Number { text: &self.text[start..self.pos], integer: self.pos == whole })
    }

    /// Takes `true` or `false`.
    pub fn boolean(&mut self) -> Result<bool> {
        let value = self.peek()? == Token::True;
        self.literal(if value { b"true" } else { b"false" })?;
        Ok(value)
    }

    /// Takes `null`.
    #[inline]
    pub fn null(&mut self) -> Result<()> {
        self.skip_space();
        self.literal(b"null")
    }

    /// Takes one value of any type and checks its syntax, not its names; for what is refused on other grounds.
    pub fn skip_value(&mut self) -> Result<()> {
        let mut is_object = [false; MAX_EVIDENCE_DEPTH + 1];
        let mut depth = 0;
        loop {
            let token = self.peek()?;
            if depth > MAX_EVIDENCE_DEPTH {
                return Err(Error::new(ErrorKind::Depth).bound(MAX_EVIDENCE_DEPTH).offset(self.pos));
            }
            match token {
                Token::Object | Token::Array => {
                    is_object[depth] = token == Token::Object;
                    depth += 1;
                    self.pos += 1;
                }
                Token::String => drop(self.string_wtf8()?),
                Token::Number => drop(self.number()?),
                Token::True | Token::False => drop(self.boolean()?),
                Token::Null => self.null()?,
            }
            let mut first = matches!(token, Token::Object | Token::Array);
            loop {
                let Some(inner) = depth.checked_sub(1) else { return Ok(()) };
                let more =
                    if is_object[inner] { self.next_name_wtf8(&mut first)?.is_some() } else { self.next_element(&mut first)? };
                if more {
                    break;
                }
                depth = inner;
            }
        }
    }

    /// Only white space is left.
    pub fn end(&mut self) -> Result<()> {
        self.skip_space();
        if self.pos == self.text.len() { Ok(()) } else { Err(self.syntax("text after the value")) }
    }

    #[inline]
    pub(super) fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos).copied()
    }

    #[inline]
    pub(super) fn take(&mut self, byte: u8, what: &'static str) -> Result<()> {
        self.skip_space();
        if self.byte() != Some(byte) {
            return Err(self.syntax(what));
        }
        self.pos += 1;
        Ok(())
    }

    #[cold]
    pub(super) fn syntax(&self, what: &'static str) -> Error {
        Error::new(ErrorKind::Syntax).detail(what).offset(self.pos)
    }

    #[inline]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.byte() {
            self.pos += 1;
        }
    }

    #[inline]
    fn next_member(&mut self, first: &mut bool, close: u8) -> Result<bool> {
        self.skip_space();
        let is_first = std::mem::replace(first, false);
        if self.byte() == Some(close) {
            self.pos += 1;
            return Ok(false);
        }
        if !is_first {
            self.take(b',', "expected a comma or the end")?;
        }
        Ok(true)
    }

    #[inline]
    fn digits(&mut self) -> Result<()> {
        let start = self.pos;
        while let Some(b'0'..=b'9') = self.byte() {
            self.pos += 1;
        }
        if self.pos == start { Err(self.syntax("expected a digit")) } else { Ok(()) }
    }

    #[inline]
    fn literal(&mut self, literal: &'static [u8]) -> Result<()> {
        if !self.text.as_bytes()[self.pos..].starts_with(literal) {
            return Err(self.syntax("expected true, false or null"));
        }
        self.pos += literal.len();
        Ok(())
    }
}
