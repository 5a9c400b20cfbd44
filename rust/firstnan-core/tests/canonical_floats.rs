//! Float text beyond the vectors: digits against the standard library's, and the text back to the same bits.

use firstnan_core::canonical::write_float;
use firstnan_core::{Error, ErrorKind};

fn text(value: f64) -> Result<String, Error> {
    let mut out = Vec::new();
    write_float(value, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

/// Significant digits and decimal exponent of text in either layout.
fn decimal(text: &str) -> (String, i32) {
    let (mantissa, power) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    let skipped = i32::try_from(all.len() - digits.len()).unwrap();
    let point = i32::try_from(whole.len()).unwrap();
    (digits.trim_end_matches('0').to_owned(), power.parse::<i32>().unwrap() + point - skipped - 1)
}

#[test]
fn agrees_with_the_shortest_digits_of_the_standard_library() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..300_000_u32 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Every third value has a short fraction, every third a whole number, where the layouts change over.
        #[expect(clippy::cast_precision_loss, reason = "any value will do")]
        let value = match round % 3 {
            0 => f64::from_bits(state),
            1 => (state % 1_000_000) as f64 / f64::from(10_u32.pow(round % 10)),
            _ => (state >> (round % 60)) as f64,
        };
        if !value.is_finite() || value == 0.0 {
            continue;
        }
        let ours = text(value).unwrap();
        assert_eq!(ours.parse::<f64>().unwrap().to_bits(), value.to_bits(), "{ours}");
        let (digits, power) = decimal(ours.trim_start_matches('-'));
        let shortest = decimal(&format!("{:e}", value.abs()));
        // Of two shortest texts at the same distance, Python takes the even one and the standard library the upper one.
        let nearest = decimal(&format!("{:.*e}", digits.len() - 1, value.abs()));
        assert_eq!(digits.len(), shortest.0.len(), "{ours}");
        assert!([shortest, nearest].contains(&(digits, power)), "{ours}");
        assert_eq!(ours.starts_with('-'), value < 0.0);
    }
}

#[test]
fn layout_changes_at_the_documented_exponents() {
    let cases = [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (1e-4, "0.0001"),
        (1.5e-4, "0.00015"),
        (1e-5, "1e-05"),
        (1e15, "1000000000000000.0"),
        (9_999_999_999_999_998.0, "9999999999999998.0"),
        (1e16, "1e+16"),
        (1.2e17, "1.2e+17"),
        (1.5e300, "1.5e+300"),
        (5e-324, "5e-324"),
        (f64::MAX, "1.7976931348623157e+308"),
        (-f64::MIN_POSITIVE, "-2.2250738585072014e-308"),
        (6_632_827_120_354_249.0 / 4.0, "1658206780088562.2"),
        (6_632_827_120_354_251.0 / 4.0, "1658206780088562.8"),
        (0.1 + 0.2, "0.30000000000000004"),
    ];
    for (value, expected) in cases {
        assert_eq!(text(value).unwrap(), expected);
    }
}

#[test]
fn refuses_what_is_not_finite() {
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(text(value).unwrap_err().kind(), ErrorKind::NonFinite);
    }
}
