//! Statistics that a few wrong values do not move.

use pbt_evaluate::quantile;

/// The median absolute deviation of a normal distribution times this is its standard deviation.
const MAD_TO_DEVIATION: f64 = 1.4826;

/// Fewer values than this have no usual value to compare with.
pub(super) const FEWEST_TO_COMPARE: usize = 5;

/// A median deviation of n cases may well be too small: it is enlarged by this over n.
pub(super) const UNSURE_CASES: f64 = 5.0;

/// Middle and spread of a list of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Robust {
    pub(super) median: f64,
    /// Standard deviation, from the median absolute deviation.
    pub(super) deviation: f64,
}

impl Robust {
    /// `None` for an empty list.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect();
        let middle = median(values.iter().copied())?;
        let deviation = median(values.iter().map(|v| (v - middle).abs()))? * MAD_TO_DEVIATION;
        Some(Self { median: middle, deviation })
    }
}

/// The median; `None` for an empty list.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    (!values.is_empty()).then(|| quantile(&values, 0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_value_moves_nothing() {
        // scipy.stats.median_abs_deviation([1, 2, 3, 4, 5], scale="normal") is 1.4826.
        let sound = Robust::of([1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(sound, Robust { median: 3.0, deviation: 1.4826 });
        assert_eq!(Robust::of([1.0, 2.0, 3.0, 4.0, 1e9]).unwrap(), sound);
        assert!(Robust::of([]).is_none());
    }
}
