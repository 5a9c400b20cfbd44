//! What counting gives.

/// The counts of a run of elements. `checked` is all of them, finite or not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Elements looked at.
    pub checked: u64,
    /// Elements that are NaN; a complex one if either part is.
    pub nan: u64,
    /// Elements that are +Inf; a complex one without a NaN by the sign of its first infinite part.
    pub positive_infinity: u64,
    /// Elements that are -Inf.
    pub negative_infinity: u64,
    /// The largest magnitude among finite elements, 0 where there is none; of an integer, rounded to nearest.
    pub maximum_absolute_finite: f64,
    /// The index of the first element that is not finite.
    pub first_nonfinite: Option<u64>,
}

impl Counts {
    /// Elements that are not finite.
    pub fn nonfinite(&self) -> u64 {
        self.nan + self.positive_infinity + self.negative_infinity
    }

    /// The counts of these elements followed by `later`.
    #[must_use]
    pub fn merge(self, later: Self) -> Self {
        let moved = later.first_nonfinite.map(|index| self.checked + index);
        Self { first_nonfinite: self.first_nonfinite.or(moved), ..self.add(later) }
    }

    /// The sums of both, and the smaller of two indices that count from the same place.
    #[must_use]
    pub(super) fn add(self, other: Self) -> Self {
        Self {
            checked: self.checked + other.checked,
            nan: self.nan + other.nan,
            positive_infinity: self.positive_infinity + other.positive_infinity,
            negative_infinity: self.negative_infinity + other.negative_infinity,
            maximum_absolute_finite: self.maximum_absolute_finite.max(other.maximum_absolute_finite),
            first_nonfinite: match (self.first_nonfinite, other.first_nonfinite) {
                (Some(one), Some(two)) => Some(one.min(two)),
                (one, two) => one.or(two),
            },
        }
    }
}
