//! Values in their range.

use crate::DetectError;

/// An error that names the key of a value outside its range.
pub(crate) fn within(key: &str, value: f64, low: f64, high: f64) -> Result<(), DetectError> {
    // Other than its negation, this refuses NaN too.
    if value >= low && value <= high {
        Ok(())
    } else {
        Err(DetectError::config(key, format!("{value} is not between {low} and {high}")))
    }
}
