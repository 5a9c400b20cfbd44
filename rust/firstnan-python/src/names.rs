//! Strings as canonical bytes see them, and the order of names.

use firstnan_core::canonical::{write_string, write_string_wtf8};
use firstnan_core::{Error, ErrorKind, Profile};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::{Failure, Outcome};
use crate::native;

/// The content of a Python string.
pub enum Name<'a> {
    /// Without lone surrogates.
    Text(&'a str),
    /// With them: UTF-8 in which a lone surrogate stands as three bytes.
    Wtf8(Vec<u8>),
}

impl<'a> Name<'a> {
    /// Any string of the evidence profile.
    pub fn any(text: &'a Bound<'_, PyString>) -> Outcome<Self> {
        match native::utf8(text.as_borrowed()) {
            Ok(text) => Ok(Self::Text(text)),
            Err(Failure::Contract(_)) => Ok(Self::Wtf8(native::wtf8(text)?.as_bytes().to_vec())),
            Err(failure) => Err(failure),
        }
    }

    /// The bytes whose order is the order of code points.
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Wtf8(bytes) => bytes,
        }
    }

    /// For a JSON Pointer.
    pub fn plain(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Wtf8(_) => "?",
        }
    }

    /// Appends the string in quotes.
    pub fn write(&self, profile: Profile, out: &mut Vec<u8>) -> Outcome<()> {
        Ok(match self {
            Self::Text(text) => write_string(profile, text, out),
            Self::Wtf8(bytes) => write_string_wtf8(profile, bytes, out),
        }?)
    }
}

/// Members in the order of their names, by code point; refuses two that come out as the same text.
pub fn sorted<T>(mut members: Vec<(Name<'_>, T)>, profile: Profile) -> Outcome<Vec<(Name<'_>, T)>> {
    let duplicate = || Err(Error::new(ErrorKind::DuplicateName).into());
    members.sort_unstable_by(|(a, _), (b, _)| a.bytes().cmp(b.bytes()));
    if members.windows(2).any(|pair| pair[0].0.bytes() == pair[1].0.bytes()) {
        return duplicate();
    }
    // Two lone surrogates side by side are written as the character of that pair is.
    if members.iter().any(|(name, _)| matches!(name, Name::Wtf8(_))) {
        let mut written = Vec::with_capacity(members.len());
        for (name, _) in &members {
            let mut out = Vec::new();
            name.write(profile, &mut out)?;
            written.push(out);
        }
        written.sort_unstable();
        if written.windows(2).any(|pair| pair[0] == pair[1]) {
            return duplicate();
        }
    }
    Ok(members)
}
