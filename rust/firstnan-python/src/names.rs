//! Strings as canonical bytes see them, and the order of names.

use firstnan_core::canonical::{write_string, write_string_wtf8};
use firstnan_core::{Error, ErrorKind, Profile};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::{Failure, Outcome};
use crate::native;

/// The content of a Python string.
pub enum Text<'a> {
    /// Without lone surrogates.
    Plain(&'a str),
    /// With them: UTF-8 in which a lone surrogate stands as three bytes.
    Wtf8(Vec<u8>),
}

impl<'a> Text<'a> {
    /// Any string, at most `max_bytes` of it in the record profile. There its code points are counted first, so that a
    /// huge one is never encoded.
    #[inline]
    pub fn new(text: &'a Bound<'_, PyString>, profile: Profile, max_bytes: usize) -> Outcome<Self> {
        if profile == Profile::Record {
            check_size(text.code_point_len()?, max_bytes)?;
            let text = native::utf8(text.as_borrowed())?;
            check_size(text.len(), max_bytes)?;
            return Ok(Self::Plain(text));
        }
        match native::utf8(text.as_borrowed()) {
            Ok(text) => Ok(Self::Plain(text)),
            Err(Failure::Contract(_)) => Ok(Self::Wtf8(native::wtf8(text)?.as_bytes().to_vec())),
            Err(failure) => Err(failure),
        }
    }

    /// The bytes whose order is the order of code points.
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Plain(text) => text.as_bytes(),
            Self::Wtf8(bytes) => bytes,
        }
    }

    /// For a JSON Pointer.
    pub fn plain(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Wtf8(_) => "?",
        }
    }

    /// Appends the string in quotes.
    #[inline]
    pub fn write(&self, profile: Profile, out: &mut Vec<u8>) -> Outcome<()> {
        Ok(match self {
            Self::Plain(text) => write_string(profile, text, out),
            Self::Wtf8(bytes) => write_string_wtf8(profile, bytes, out),
        }?)
    }
}

/// Refuses more bytes than the record profile allows.
#[inline]
pub fn check_size(bytes: usize, max_bytes: usize) -> Outcome<()> {
    if bytes > max_bytes { Err(Error::new(ErrorKind::Size).bound(max_bytes).into()) } else { Ok(()) }
}

/// The place of a name among its siblings.
#[derive(Clone, Copy)]
pub struct Place {
    head: u64,
    pub index: usize,
}

/// The places of the names in the order of code points; refuses two that come out as the same text.
pub fn order(names: &[Text<'_>], profile: Profile) -> Outcome<Vec<Place>> {
    let duplicate = || Err(Error::new(ErrorKind::DuplicateName).into());
    let mut order = Vec::new();
    order.try_reserve_exact(names.len()).map_err(|_| Error::new(ErrorKind::Memory))?;
    order.extend(names.iter().enumerate().map(|(index, name)| Place { head: head(name.bytes()), index }));
    let compare = |a: &Place, b: &Place| a.head.cmp(&b.head).then_with(|| names[a.index].bytes().cmp(names[b.index].bytes()));
    order.sort_unstable_by(compare);
    if order.windows(2).any(|pair| compare(&pair[0], &pair[1]).is_eq()) {
        return duplicate();
    }
    // Two lone surrogates side by side are written as the character of that pair is.
    if names.iter().any(|name| matches!(name, Text::Wtf8(_))) {
        let mut written = Vec::with_capacity(names.len());
        for name in names {
            let mut out = Vec::new();
            name.write(profile, &mut out)?;
            written.push(out);
        }
        written.sort_unstable();
        if written.windows(2).any(|pair| pair[0] == pair[1]) {
            return duplicate();
        }
    }
    Ok(order)
}

/// The first eight bytes as a number, which decides most comparisons.
#[inline]
fn head(bytes: &[u8]) -> u64 {
    if let Some(head) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*head);
    }
    bytes.iter().fold(0, |head, byte| head << 8 | u64::from(*byte)) << (8 * (8 - bytes.len()) % 64)
}
