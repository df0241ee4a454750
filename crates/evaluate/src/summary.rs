//! Lists of errors in a few numbers.

use serde::{Deserialize, Serialize};

/// Mean, median, 95th percentile and maximum of a list of errors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of errors.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median: the mean of the middle two for an even number.
    pub median: f64,
    /// 95th percentile, linear between neighbours (numpy's default).
    pub p95: f64,
    /// Largest.
    pub max: f64,
}

impl Summary {
    /// `None` for an empty list.
    pub fn new(errors: &[f64]) -> Option<Self> {
        let mut sorted = errors.to_vec();
        sorted.sort_by(f64::total_cmp);
        let max = *sorted.last()?;
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        Some(Self {
            n: sorted.len(),
            mean,
            median: quantile(&sorted, 0.5),
            p95: quantile(&sorted, 0.95),
            max,
        })
    }
}

/// A quantile of values in ascending order, linear between neighbours (numpy's default). There must
/// be a value; `q` is from 0 to 1.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let place = q * (sorted.len() - 1) as f64;
    let low = place.floor() as usize;
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64)
}

/// Share of errors within each limit: the success detection rate.
pub fn success_rates(errors: &[f64], limits: &[f64]) -> Vec<f64> {
    let n = errors.len().max(1) as f64;
    limits.iter().map(|&limit| errors.iter().filter(|&&e| e <= limit).count() as f64 / n).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_agree_with_numpy() {
        let s = Summary::new(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((s.mean, s.median, s.max), (2.5, 2.5, 4.0));
        assert!((s.p95 - 3.85).abs() < 1e-12);
        assert!(Summary::new(&[]).is_none());
        assert_eq!(
            success_rates(&[0.5, 1.5, 2.5, 9.0], &[1.0, 2.0, 3.0, 4.0]),
            [0.25, 0.5, 0.75, 0.75]
        );
    }
}
