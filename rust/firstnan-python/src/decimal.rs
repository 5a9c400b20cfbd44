//! Integers beyond 64 bits as decimal digits. Not by `str`: its limit (`sys.set_int_max_str_digits`) is the process's to
//! set, and canonical bytes may not depend on it.

use firstnan_core::limits::MAX_INTEGER_DIGITS;
use firstnan_core::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::errors::Outcome;
use crate::native;

/// The bits of 10^4300 - 1, the largest integer that the evidence profile takes: 4,300 log2(10), rounded up.
const MAX_BITS: usize = 14_285;
/// A limb holds nine decimal digits, and takes in seven hexadecimal ones without leaving 64 bits.
const LIMB: u64 = 1_000_000_000;
const HEX_DIGITS: usize = 7;

/// The canonical digits of an int by its content, with a minus where it is negative.
#[cold]
pub fn digits(number: &Bound<'_, PyInt>) -> Outcome<String> {
    let too_large = || Error::new(ErrorKind::IntegerRange).bound(format_args!("{MAX_INTEGER_DIGITS} digits"));
    if native::bit_length(number)? > MAX_BITS {
        return Err(too_large().into());
    }
    let hexadecimal = native::hexadecimal(number)?;
    let text = native::utf8(hexadecimal.as_borrowed())?;
    let (sign, prefixed) = text.strip_prefix('-').map_or(("", text), |magnitude| ("-", magnitude));
    let magnitude = decimal(prefixed.strip_prefix("0x").unwrap_or(prefixed));
    if magnitude.len() > MAX_INTEGER_DIGITS {
        return Err(too_large().into());
    }
    Ok(format!("{sign}{magnitude}"))
}

/// Decimal digits of hexadecimal ones; quadratic, which the bound on the input keeps below a millisecond.
fn decimal(hexadecimal: &str) -> String {
    let mut limbs: Vec<u64> = vec![0];
    for chunk in hexadecimal.as_bytes().chunks(HEX_DIGITS) {
        let mut carry = chunk.iter().fold(0, |value, digit| value << 4 | u64::from((*digit as char).to_digit(16).unwrap_or(0)));
        for limb in &mut limbs {
            let value = (*limb << (4 * chunk.len())) + carry;
            (*limb, carry) = (value % LIMB, value / LIMB);
        }
        if carry > 0 {
            limbs.push(carry);
        }
    }
    let leading = limbs.pop().unwrap_or(0).to_string();
    limbs.iter().rev().fold(leading, |text, limb| text + &format!("{limb:09}"))
}

#[cfg(test)]
mod tests {
    use super::decimal;

    #[test]
    fn hexadecimal_becomes_decimal() {
        for value in [0, 1, 999_999_999, 1_000_000_000, u128::from(u64::MAX), 10_u128.pow(27), u128::MAX] {
            assert_eq!(decimal(&format!("{value:x}")), value.to_string());
        }
    }
}
