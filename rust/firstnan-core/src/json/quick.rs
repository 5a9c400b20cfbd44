//! The usual spelling, read without a branch for any other: what is gone through here is a known order of members, at most
//! one blank after a comma and a colon, strings without escapes, short integers. None says no more than that the careful
//! reader has to look; the place means nothing then.

use super::reader::Reader;
use super::scan::plain_end;

impl<'a> Reader<'a> {
    /// Takes what stands before a member's value: `{` or `,`, then the name in quotes and its colon as one text.
    #[inline]
    pub(crate) fn quick_name<const N: usize>(&mut self, before: u8, name: &[u8; N]) -> Option<()> {
        self.quick_byte(before)?;
        self.quick_blank();
        if self.text.as_bytes().get(self.pos..)?.first_chunk::<N>()? != name {
            return None;
        }
        self.pos += N;
        self.quick_blank();
        Some(())
    }

    /// Takes one byte.
    #[inline]
    pub(crate) fn quick_byte(&mut self, byte: u8) -> Option<()> {
        (self.byte()? == byte).then(|| self.pos += 1)
    }

    #[inline]
    fn quick_blank(&mut self) {
        self.pos += usize::from(self.byte() == Some(b' '));
    }

    /// Takes a string without escapes.
    #[inline]
    pub(crate) fn quick_string(&mut self) -> Option<&'a str> {
        self.quick_byte(b'"')?;
        let start = self.pos;
        let stop = plain_end::<false>(self.text.as_bytes(), start);
        self.pos = stop;
        self.quick_byte(b'"')?;
        self.text.get(start..stop)
    }

    /// Takes a string of bytes of a set, in which no byte is that JSON would escape.
    #[inline]
    pub(crate) fn quick_string_of(&mut self, set: &[u8; 256]) -> Option<&'a str> {
        self.quick_byte(b'"')?;
        let bytes = self.text.as_bytes();
        let start = self.pos;
        while let Some(eight) = bytes.get(self.pos..).and_then(<[u8]>::first_chunk::<8>) {
            let outside = (0..8).fold(0, |any, i| any | u32::from(set[usize::from(eight[i])]) << i);
            self.pos += outside.trailing_zeros().min(8) as usize;
            if outside != 0 {
                break;
            }
        }
        // None are left, but near the end of the text.
        while self.byte().is_some_and(|byte| set[usize::from(byte)] == 0) {
            self.pos += 1;
        }
        let stop = self.pos;
        self.quick_byte(b'"')?;
        self.text.get(start..stop)
    }

    /// Takes an integer of at most 18 digits; a fraction or exponent is left for what comes next to refuse.
    #[inline]
    pub(crate) fn quick_integer(&mut self) -> Option<i64> {
        let negative = self.quick_byte(b'-').is_some();
        let start = self.pos;
        let mut value = 0;
        while let Some(digit @ b'0'..=b'9') = self.byte() {
            if self.pos - start == 18 {
                return None;
            }
            value = value * 10 + i64::from(digit - b'0');
            self.pos += 1;
        }
        let leading_zero = self.text.as_bytes().get(start) == Some(&b'0') && self.pos - start > 1;
        if self.pos == start || leading_zero {
            return None;
        }
        Some(if negative { -value } else { value })
    }

    /// Moves to the next element of an array (true) or behind its end (false). `first` starts as true.
    #[inline]
    pub(crate) fn quick_element(&mut self, first: &mut bool) -> Option<bool> {
        let is_first = std::mem::replace(first, false);
        if is_first {
            self.quick_byte(b'[')?;
        }
        if self.quick_byte(b']').is_some() {
            return Some(false);
        }
        if !is_first {
            self.quick_byte(b',')?;
            self.quick_blank();
        }
        Some(true)
    }
}
