//! The usual spelling, read without a branch for any other: what is gone through here is a known order of members, at most
//! one blank after a comma and a colon, strings without escapes, short integers. None says no more than that the careful
//! reader has to look; the place means nothing then.

use super::reader::Reader;
use super::scan::plain_end;
use crate::record::Real;

/// Powers of ten that are binary64 exactly, as all up to 10^22 are.
const POWERS: [f64; 19] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18];

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

    /// Takes a number of at most 18 digits without an exponent, an integer or one whose digits are below 2^53: those and the
    /// power of ten are exact in binary64, so that one division rounds as it should (Clinger 1990). Moves only where it does.
    #[inline]
    pub(crate) fn quick_real(&mut self) -> Option<Real<'static>> {
        let bytes = self.text.as_bytes().get(self.pos..)?;
        let sign = usize::from(bytes.first() == Some(&b'-'));
        let (mut value, mut at, mut point) = (0_i64, sign, None);
        loop {
            match bytes.get(at) {
                Some(digit @ b'0'..=b'9') if at - sign < 19 => value = value.wrapping_mul(10).wrapping_add((digit - b'0').into()),
                Some(b'.') if point.is_none() => point = Some(at),
                Some(b'0'..=b'9' | b'e' | b'E') => return None,
                _ => break,
            }
            at += 1;
        }
        let whole = point.unwrap_or(at) - sign;
        let digits = at - sign - usize::from(point.is_some());
        let leading_zero = whole > 1 && bytes.get(sign) == Some(&b'0');
        if whole == 0 || digits > 18 || leading_zero {
            return None;
        }
        let real = if point.is_some() {
            let places = digits - whole;
            #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
            let magnitude = (places > 0 && value < 1 << 53).then(|| value as f64 / POWERS[places])?;
            Real::Float(if sign == 1 { -magnitude } else { magnitude })
        } else {
            Real::Int(if sign == 1 { -value } else { value })
        };
        self.pos += at;
        Some(real)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn carefully(text: &str) -> Option<(Real<'_>, usize)> {
        let mut reader = Reader::new(text.as_bytes()).ok()?;
        let number = reader.number().ok()?;
        let real = if number.integer { Real::Int(number.to_i64()?) } else { Real::Float(number.to_f64()?) };
        Some((real, reader.offset()))
    }

    #[test]
    fn a_number_that_is_taken_is_the_one_that_the_careful_way_reads() {
        let wholes =
            ["", "0", "00", "01", "7", "10", "4503599627370497", "9007199254740991", "9007199254740993", "99999999999999999"];
        let fractions =
            ["", ".", ".0", ".5", ".1", ".125", ".3000", ".99", ".000000000000001", ".12345678901234567", "..1", ".1.2"];
        let mut taken = 0;
        for sign in ["", "-", "--"] {
            for whole in wholes.into_iter().chain(["999999999999999999", "9223372036854775807", "99999999999999999999"]) {
                for fraction in fractions {
                    for after in ["", ",", "}", "e5", "E-300", " "] {
                        let text = format!("{sign}{whole}{fraction}{after}");
                        let mut reader = Reader::new(text.as_bytes()).unwrap();
                        if let Some(real) = reader.quick_real() {
                            let (expected, end) = carefully(&text).unwrap();
                            // As text, since -0.0 is equal to 0.0.
                            assert_eq!(format!("{real:?}"), format!("{expected:?}"), "{text}");
                            assert_eq!(reader.offset(), end, "{text}");
                            taken += 1;
                        } else {
                            assert_eq!(reader.offset(), 0, "{text}");
                        }
                    }
                }
            }
        }
        assert!(taken > 200, "{taken}");
    }

    #[test]
    fn random_digits_are_rounded_as_the_careful_way_does() {
        let mut state = 1_u64;
        let mut taken = 0;
        for _ in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let digits = format!("{}", (state >> 10) >> (state & 31));
            let point = (state >> 5) as usize % digits.len();
            let (whole, fraction) = digits.split_at(point.max(1));
            let text = format!("{whole}.{fraction}");
            let mut reader = Reader::new(text.as_bytes()).unwrap();
            if let Some(real) = reader.quick_real() {
                assert_eq!(Some((real, text.len())), carefully(&text), "{text}");
                taken += 1;
            }
        }
        assert!(taken > 100_000, "{taken}");
    }
}
