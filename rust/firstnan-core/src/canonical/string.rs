//! Strings of both profiles: quotes, the seven short escapes, `\u00xx`; printable ASCII only in the evidence profile.

use crate::error::{Error, ErrorKind, Result};
use crate::json::scan::plain_end;
use crate::limits::{append, reserve};
use crate::record::Profile;

/// Appends a string in quotes.
#[inline]
pub fn write_string(profile: Profile, text: &str, out: &mut Vec<u8>) -> Result<()> {
    reserve(out, text.len() + 2)?;
    out.push(b'"');
    write_valid(profile, text, out)?;
    append(out, b"\"")
}

/// Appends a string given as WTF-8, where a lone surrogate stands as three bytes: an error in the record profile, an
/// escape like any other in the evidence profile. Anything else that is not UTF-8 is an error.
pub fn write_string_wtf8(profile: Profile, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    reserve(out, bytes.len() + 2)?;
    out.push(b'"');
    if plain_end::<true>(bytes, 0) == bytes.len() {
        out.extend_from_slice(bytes);
    } else {
        write_runs(profile, bytes, out)?;
    }
    append(out, b"\"")
}

/// Writes the valid runs of WTF-8, and the surrogates between them.
fn write_runs(profile: Profile, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    loop {
        let error = match std::str::from_utf8(bytes) {
            Ok(text) => return write_valid(profile, text, out),
            Err(error) => error,
        };
        let (valid, rest) = bytes.split_at(error.valid_up_to());
        if let Ok(text) = std::str::from_utf8(valid) {
            write_valid(profile, text, out)?;
        }
        let &[0xed, second @ 0xa0..=0xbf, third @ 0x80..=0xbf, ref after @ ..] = rest else {
            return Err(Error::new(ErrorKind::Encoding));
        };
        if profile == Profile::Record {
            return Err(Error::new(ErrorKind::LoneSurrogate));
        }
        write_unit(0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f), out)?;
        bytes = after;
    }
}

#[inline]
fn write_valid(profile: Profile, text: &str, out: &mut Vec<u8>) -> Result<()> {
    match profile {
        Profile::Record => write_escaped::<false>(text, out),
        Profile::Evidence => write_escaped::<true>(text, out),
    }
}

#[inline]
fn write_escaped<const PRINTABLE: bool>(text: &str, out: &mut Vec<u8>) -> Result<()> {
    let stop = plain_end::<PRINTABLE>(text.as_bytes(), 0);
    append(out, &text.as_bytes()[..stop])?;
    if stop < text.len() { write_special::<PRINTABLE>(&text[stop..], out) } else { Ok(()) }
}

/// Writes text that starts with a character to escape.
fn write_special<const PRINTABLE: bool>(mut text: &str, out: &mut Vec<u8>) -> Result<()> {
    while let Some(character) = text.chars().next() {
        match character {
            '"' => append(out, b"\\\"")?,
            '\\' => append(out, b"\\\\")?,
            '\u{8}' => append(out, b"\\b")?,
            '\t' => append(out, b"\\t")?,
            '\n' => append(out, b"\\n")?,
            '\u{c}' => append(out, b"\\f")?,
            '\r' => append(out, b"\\r")?,
            _ => {
                for &mut unit in character.encode_utf16(&mut [0; 2]) {
                    write_unit(unit, out)?;
                }
            }
        }
        let rest = &text[character.len_utf8()..];
        let stop = plain_end::<PRINTABLE>(rest.as_bytes(), 0);
        append(out, &rest.as_bytes()[..stop])?;
        text = &rest[stop..];
    }
    Ok(())
}

/// Writes one UTF-16 code unit as an escape.
fn write_unit(unit: u16, out: &mut Vec<u8>) -> Result<()> {
    let digit = |shift: u16| b"0123456789abcdef"[usize::from(unit >> shift & 15)];
    append(out, &[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)])
}
