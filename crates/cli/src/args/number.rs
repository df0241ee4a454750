//! Numbers as users type them.

/// A whole number from 1 on.
pub(super) fn from_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|&number: &usize| number > 0);
    number.ok_or_else(|| "expected a whole number from 1 on".to_owned())
}

/// A whole number from 0 on.
pub(super) fn whole(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a whole number from 0 on".to_owned())
}

/// What random choices begin with.
pub(super) fn seed(text: &str) -> Result<u64, String> {
    let what = "a seed is a whole number from 0 to 18446744073709551615, and each gives its own \
                random choices";
    text.parse().map_err(|_| what.to_owned())
}

/// A length above 0.
pub(super) fn positive_mm(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|mm: &f64| mm.is_finite() && *mm > 0.0)
        .ok_or_else(|| "expected a length in mm above 0".to_owned())
}

/// A number from 0 on.
pub(super) fn from_zero(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number >= 0.0)
        .ok_or_else(|| "expected a number from 0 on".to_owned())
}
