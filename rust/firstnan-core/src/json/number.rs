//! A number as it was written: the text decides between integer and float, not the value.

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
        self.text.parse().ok().filter(|value: &f64| value.is_finite())
    }
}
