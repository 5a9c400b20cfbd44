//! The arithmetic of CEL rules: checked 64-bit integers, and errors (`None`) that `&&` and `||` absorb.
//!
//! Semantics: CEL language definition, "Logical operators" and "Numeric values".
#![allow(dead_code, reason = "the compiled subset is larger than what the rules of today use")]

pub(crate) fn add(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    a?.checked_add(b?)
}

pub(crate) fn sub(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    a?.checked_sub(b?)
}

pub(crate) fn mul(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    a?.checked_mul(b?)
}

pub(crate) fn div(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    a?.checked_div(b?)
}

pub(crate) fn rem(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    a?.checked_rem(b?)
}

/// False wins over an error, on either side.
pub(crate) fn and(a: Option<bool>, b: impl FnOnce() -> Option<bool>) -> Option<bool> {
    match a {
        Some(false) => Some(false),
        Some(true) => b(),
        None => b().filter(|b| !b),
    }
}

/// True wins over an error, on either side.
pub(crate) fn or(a: Option<bool>, b: impl FnOnce() -> Option<bool>) -> Option<bool> {
    match a {
        Some(true) => Some(true),
        Some(false) => b(),
        None => b().filter(|b| *b),
    }
}

/// An element of a list; an index outside it is an error.
pub(crate) fn at<T>(list: &[T], index: Option<i64>) -> Option<&T> {
    list.get(usize::try_from(index?).ok()?)
}

/// The size of a list. No list of the contract comes near 2^63 elements.
pub(crate) fn size<T>(list: &[T]) -> i64 {
    i64::try_from(list.len()).unwrap_or(i64::MAX)
}

/// `list.all(x, test)`: false wins over an error.
pub(crate) fn all<T>(list: &[T], test: impl Fn(&T) -> Option<bool>) -> Option<bool> {
    let mut result = Some(true);
    for item in list {
        result = and(result, || test(item));
    }
    result
}

/// `list.exists(x, test)`: true wins over an error.
pub(crate) fn exists<T>(list: &[T], test: impl Fn(&T) -> Option<bool>) -> Option<bool> {
    let mut result = Some(false);
    for item in list {
        result = or(result, || test(item));
    }
    result
}

/// `list.exists_one(x, test)`: any error is an error.
pub(crate) fn exists_one<T>(list: &[T], test: impl Fn(&T) -> Option<bool>) -> Option<bool> {
    let mut found = 0_usize;
    for item in list {
        found += usize::from(test(item)?);
    }
    Some(found == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_absorbed_only_by_a_decided_side() {
        assert_eq!(and(None, || Some(false)), Some(false));
        assert_eq!(and(None, || Some(true)), None);
        assert_eq!(and(Some(true), || None), None);
        assert_eq!(or(None, || Some(true)), Some(true));
        assert_eq!(or(None, || Some(false)), None);
        assert_eq!(all(&[1, 2], |i| if *i == 1 { None } else { Some(false) }), Some(false));
        assert_eq!(exists(&[1, 2], |i| if *i == 1 { None } else { Some(true) }), Some(true));
        assert_eq!(exists_one(&[1, 2], |i| if *i == 1 { None } else { Some(true) }), None);
    }

    #[test]
    fn arithmetic_outside_64_bits_is_an_error() {
        assert_eq!(add(Some(i64::MAX), Some(1)), None);
        assert_eq!(sub(Some(i64::MIN), Some(1)), None);
        assert_eq!(mul(Some(i64::MAX), Some(2)), None);
        assert_eq!(div(Some(1), Some(0)), None);
        assert_eq!(rem(Some(i64::MIN), Some(-1)), None);
        assert_eq!(at(&[1], Some(-1)), None);
    }
}
