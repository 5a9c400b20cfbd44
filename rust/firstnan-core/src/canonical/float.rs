//! Floats of the evidence profile: the shortest digits that read back, laid out as Python's `repr` does.

use super::{write_digits, write_integer};
use crate::error::{Error, ErrorKind, Result};
use crate::record::Real;

/// Decimal exponents from this one up are written in exponent form (Python `float_repr_style` "short").
const EXPONENT_FORM_FROM: i32 = 16;
/// Decimal exponents below this one are written in exponent form.
const EXPONENT_FORM_BELOW: i32 = -4;
/// The same bounds as magnitudes.
const FIXED_FROM: f64 = 1e-4;
const FIXED_BELOW: f64 = 1e16;

/// Appends a binary64; a value that is not finite is an error.
#[inline]
pub fn write_float(value: f64, out: &mut Vec<u8>) -> Result<()> {
    if !value.is_finite() {
        return Err(Error::new(ErrorKind::NonFinite));
    }
    write_finite(value, out);
    Ok(())
}

/// Appends a number in the type it was written in; a float that is not finite is an error.
#[inline]
pub fn write_real(value: &Real<'_>, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Real::Int(value) => write_integer(*value, out),
        Real::Big(digits) => write_digits(digits, out),
        Real::Float(value) => write_float(*value, out)?,
    }
    Ok(())
}

fn write_finite(value: f64, out: &mut Vec<u8>) {
    if value.is_sign_negative() {
        out.push(b'-');
    }
    if let Some(whole) = whole(value.abs()) {
        write_integer(whole, out);
        out.extend_from_slice(b".0");
        return;
    }
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value.abs());
    // There, digits around a point alone are laid out in but one way.
    if (FIXED_FROM..FIXED_BELOW).contains(&value.abs()) && !text.contains('e') {
        out.extend_from_slice(text.as_bytes());
    } else {
        Decimal::from_text(text).write(out);
    }
}

/// A magnitude that is an integer below 2^53, where each is a binary64 of its own, so that its own digits are the
/// shortest; counts and scales are such.
#[inline]
pub(super) fn whole(magnitude: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "an integer below 2^53")]
    (magnitude < 9_007_199_254_740_992.0 && magnitude.fract() == 0.0).then_some(magnitude as i64)
}

/// Significant digits, the first not 0 unless the value is, and the power of ten of the first.
struct Decimal {
    digits: [u8; 32],
    count: usize,
    exponent: i32,
}

impl Decimal {
    /// Takes digits and exponent from decimal text in any layout, fixed or with an exponent.
    fn from_text(text: &str) -> Self {
        let mut this = Self { digits: [b'0'; 32], count: 0, exponent: -1 };
        let mut significant = 0;
        let mut after_point = false;
        let mut bytes = text.bytes();
        for byte in bytes.by_ref() {
            match byte {
                b'0'..=b'9' => {
                    let leading_zero = byte == b'0' && this.count == 0;
                    // More digits than fit would be zeros of the fixed form: 17 are enough for any binary64.
                    if !leading_zero && this.count < this.digits.len() {
                        this.digits[this.count] = byte;
                        this.count += 1;
                        if byte != b'0' {
                            significant = this.count;
                        }
                    }
                    this.exponent += i32::from(!leading_zero && !after_point);
                    this.exponent -= i32::from(leading_zero && after_point);
                }
                b'.' => after_point = true,
                _ => break,
            }
        }
        let mut power = 0;
        let mut sign = 1;
        for byte in bytes {
            match byte {
                b'-' => sign = -1,
                b'0'..=b'9' => power = power * 10 + i32::from(byte - b'0'),
                _ => {}
            }
        }
        if significant == 0 {
            return Self { digits: [b'0'; 32], count: 1, exponent: 0 };
        }
        this.count = significant;
        this.exponent += sign * power;
        this
    }

    fn write(&self, out: &mut Vec<u8>) {
        let digits = &self.digits[..self.count];
        if self.exponent < EXPONENT_FORM_BELOW || self.exponent >= EXPONENT_FORM_FROM {
            self.write_exponent_form(digits, out);
        } else if let Ok(whole) = usize::try_from(self.exponent + 1) {
            let split = whole.min(digits.len());
            if whole == 0 {
                out.push(b'0');
            }
            out.extend_from_slice(&digits[..split]);
            out.resize(out.len() + whole - split, b'0');
            out.push(b'.');
            out.extend_from_slice(if split < digits.len() { &digits[split..] } else { b"0" });
        } else {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + (-self.exponent - 1).unsigned_abs() as usize, b'0');
            out.extend_from_slice(digits);
        }
    }

    fn write_exponent_form(&self, digits: &[u8], out: &mut Vec<u8>) {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.extend_from_slice(if self.exponent < 0 { b"e-" } else { b"e+" });
        let power = self.exponent.unsigned_abs();
        if power < 10 {
            out.push(b'0');
        }
        write_integer(power.into(), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_does_not_depend_on_the_layout_of_the_digits() {
        for (expected, others) in [
            ("0.0", &["0", "0.0", "0e0", "000.000e-5"][..]),
            ("1.0", &["1", "1.0", "1e0", "10e-1", "0.1e1", "01.00"]),
            ("65536.0", &["65536", "6.5536e4", "6.5536E+04", "65536000e-3"]),
            ("0.00015", &["1.5e-4", "15e-5", "0.000150", "0.15e-3"]),
            ("12.5", &["12.5", "1.25e1", "125e-1", "0012.500"]),
            ("1.5e-05", &["1.5e-5", "0.000015", "15e-6"]),
            ("1e+16", &["10000000000000000", "1e16", "10000000000000000.0"]),
            ("1.2e+300", &["1.2e300", "12e299", "0.12E+301"]),
        ] {
            for text in others {
                let mut out = Vec::new();
                Decimal::from_text(text).write(&mut out);
                assert_eq!(String::from_utf8(out).unwrap(), expected, "from {text}");
            }
        }
    }
}
