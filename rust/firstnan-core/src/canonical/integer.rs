//! Integers as decimal digits.

/// Appends an integer.
#[inline]
pub fn write_integer(value: i64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[start..]);
}

/// Appends an integer of any size, given as the decimal text that JSON has for it; `-0` is 0.
pub fn write_digits(digits: &str, out: &mut Vec<u8>) {
    let digits = if digits == "-0" { "0" } else { digits };
    out.extend_from_slice(digits.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_every_length_and_both_ends() {
        let mut values = vec![0, i64::MAX, i64::MIN];
        for power in 0..19 {
            let power = 10_i64.pow(power);
            values.extend([power - 1, power, -power, 1 - power]);
        }
        for value in values {
            let mut out = Vec::new();
            write_integer(value, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
    }

    #[test]
    fn minus_nought_is_nought() {
        let mut out = Vec::new();
        write_digits("-0", &mut out);
        write_digits("-10", &mut out);
        assert_eq!(out, b"0-10");
    }
}
