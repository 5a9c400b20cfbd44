//! A number as it was written: the text decides between integer and float, not the value.

/// Text longer than this is shortened before it becomes a binary64.
const MAX_PLAIN_TEXT: usize = 1_000;
/// No halfway point between two binary64 has more significant digits (the most is 767).
const SIGNIFICANT: usize = 800;

/// The text of a JSON number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number<'a> {
    /// The text, as RFC 8259 spells a number.
    pub text: &'a str,
    /// True when there is neither a fraction nor an exponent.
    pub integer: bool,
}

impl Number<'_> {
    /// The value of an integer that fits 64 bits; `-0` is 0.
    #[inline]
    pub fn to_i64(&self) -> Option<i64> {
        if self.integer { self.text.parse().ok() } else { None }
    }

    /// The nearest binary64, ties to even; None when that is not finite.
    pub fn to_f64(&self) -> Option<f64> {
        let value = if self.text.len() <= MAX_PLAIN_TEXT { self.text.parse() } else { shortened(self.text).parse() };
        value.ok().filter(|value: &f64| value.is_finite())
    }
}

/// Text of bounded length with the same nearest binary64: the standard library stops counting an exponent beyond
/// 65,535, which many digits on the other side of the point can make good.
fn shortened(text: &str) -> String {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("-", whole));
    let zeros = whole.bytes().chain(fraction.bytes()).take_while(|&digit| digit == b'0').count();
    let mut digits = whole.bytes().chain(fraction.bytes()).skip(zeros).map(char::from);
    let mut kept: String = digits.by_ref().take(SIGNIFICANT).collect();
    if digits.any(|digit| digit != '0') {
        kept.push('1');
    }
    let far = if exponent.starts_with('-') { i64::MIN } else { i64::MAX };
    let point = [whole.len(), zeros].map(|count| i64::try_from(count).unwrap_or(i64::MAX));
    // The value lies in 0.1..1 times this power of ten, so 1,000 either way is certain to be infinite or 0.
    let power = exponent.parse().unwrap_or(far).saturating_add(point[0] - point[1]).clamp(-1_000, 1_000);
    format!("{sign}0.{kept}0e{power}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<u64> {
        Number { text, integer: false }.to_f64().map(f64::to_bits)
    }

    #[test]
    fn shortening_changes_no_value() {
        let texts = [
            "0",
            "-0",
            "0.0",
            "0e9",
            "1",
            "-1",
            "10",
            "0.1",
            "-123.456e-7",
            "1e308",
            "1e309",
            "-2e-324",
            "5e-324",
            "0.000012e+3",
            "2.4703282292062327e-324",
            "2.4703282292062328e-324",
            "9007199254740993",
            "9007199254740992.99",
            "1e-99999999999999999999",
            "1e99999999999999999999",
            "0e99999999999999999999",
        ];
        for text in texts {
            let short = shortened(text);
            assert_eq!(value(&short), value(text), "{text} as {short}");
        }
    }

    #[test]
    fn a_digit_far_behind_breaks_the_tie() {
        let half_way = "9007199254740993";
        let zeros = "0".repeat(100_000);
        assert_eq!(value(&format!("{half_way}.{zeros}")), Some(9_007_199_254_740_992_f64.to_bits()));
        assert_eq!(value(&format!("{half_way}.{zeros}1")), Some(9_007_199_254_740_994_f64.to_bits()));
    }

    #[test]
    fn digits_make_good_what_the_exponent_takes() {
        for count in [999, 70_000, 1_000_000] {
            let zeros = "0".repeat(count);
            assert_eq!(value(&format!("0.{zeros}1e{}", count + 1)), Some(1_f64.to_bits()));
            assert_eq!(value(&format!("-1{zeros}.0e-{count}")), Some((-1_f64).to_bits()));
            assert_eq!(value(&format!("1{zeros}.0")), None);
            assert_eq!(value(&format!("-0.{zeros}1")), Some((-0_f64).to_bits()));
        }
    }
}
