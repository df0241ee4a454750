//! The bootstrap over cases: how far a mean would move if other cases of the same kind had been
//! tested.
//!
//! Structures of one case share its image and its faults, so whole cases are drawn with
//! replacement, never single structures (the cluster bootstrap: Davison and Hinkley 1997, section
//! 3.8). Intervals are percentiles of the resampled means (Efron 1979).

use crate::summary::quantile;
use pbt_volume::Random;
use serde::{Deserialize, Serialize};

/// What one case adds to a mean: the sum over its structures, and their number.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CaseSum {
    /// Sum of the values.
    pub sum: f64,
    /// Number of values; 0 where the case has none.
    pub count: usize,
}

impl CaseSum {
    /// One value more.
    pub fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }
}

/// A range that holds 95 % of the resampled means.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The 2.5th percentile.
    pub low: f64,
    /// The 97.5th percentile.
    pub high: f64,
}

/// Resamples that an interval needs so that its ends vary by a few hundredths of its width.
pub const RESAMPLES: usize = 10_000;

/// The mean over all values of all cases; `None` of none.
pub fn pooled_mean(cases: &[CaseSum]) -> Option<f64> {
    let count: usize = cases.iter().map(|c| c.count).sum();
    (count > 0).then(|| cases.iter().map(|c| c.sum).sum::<f64>() / count as f64)
}

/// Pooled means of several measures over `RESAMPLES` draws of as many cases with replacement:
/// `means[measure][resample]`, `None` where no drawn case has a value. All measures
/// (`measures[measure][case]`, the same cases in each) see the same draws, so that differences
/// between them are paired. The same bits on every machine.
pub fn resampled_means(measures: &[Vec<CaseSum>], seed: u64) -> Vec<Vec<Option<f64>>> {
    let cases = measures.first().map_or(0, Vec::len);
    let mut random = Random::from_seed(seed);
    let mut means = vec![Vec::with_capacity(RESAMPLES); measures.len()];
    let mut drawn = vec![0usize; cases];
    for _ in 0..RESAMPLES {
        drawn.fill(0);
        for _ in 0..cases {
            drawn[random.below(cases)] += 1;
        }
        for (measure, means) in measures.iter().zip(&mut means) {
            let (mut sum, mut count) = (0.0, 0);
            for (case, &times) in measure.iter().zip(&drawn) {
                sum += times as f64 * case.sum;
                count += times * case.count;
            }
            means.push((count > 0).then(|| sum / count as f64));
        }
    }
    means
}

impl Interval {
    /// Of resampled values; `None` of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        (!sorted.is_empty())
            .then(|| Self { low: quantile(&sorted, 0.025), high: quantile(&sorted, 0.975) })
    }

    /// Whether 0 lies outside: the sign is settled.
    pub fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(values: &[(f64, usize)]) -> Vec<CaseSum> {
        values.iter().map(|&(sum, count)| CaseSum { sum, count }).collect()
    }

    fn interval(values: &[(f64, usize)]) -> Interval {
        let means = resampled_means(&[cases(values)], 0);
        Interval::of(means[0].iter().flatten().copied()).unwrap()
    }

    /// All 5⁵ draws of five cases with different numbers of structures, weighed equally, are the
    /// oracle.
    #[test]
    fn agrees_with_all_possible_draws() {
        let values = [(1.0, 1), (-3.0, 2), (10.0, 4), (0.5, 1), (2.0, 3)];
        let mut all: Vec<f64> = (0..3125usize)
            .map(|n| {
                let draw = [n % 5, n / 5 % 5, n / 25 % 5, n / 125 % 5, n / 625];
                draw.iter().map(|&c| values[c].0).sum::<f64>()
                    / draw.iter().map(|&c| values[c].1).sum::<usize>() as f64
            })
            .collect();
        all.sort_by(f64::total_cmp);
        let found = interval(&values);
        // Where the distribution function is steep the ends are sharp; a twentieth of a percent of
        // rank either way brackets them.
        let near = |value: f64, q: f64| {
            assert!(
                (quantile(&all, q - 0.006)..=quantile(&all, q + 0.006)).contains(&value),
                "{value} at {q}"
            )
        };
        near(found.low, 0.025);
        near(found.high, 0.975);
    }

    /// Of many independent values the interval is that of the normal distribution: mean ± 1.96
    /// standard errors.
    #[test]
    fn agrees_with_the_normal_distribution() {
        let mut random = Random::from_seed(5);
        let values: Vec<(f64, usize)> =
            (0..400).map(|_| (3.0 + 2.0 * random.normal(), 1)).collect();
        let mean = values.iter().map(|v| v.0).sum::<f64>() / 400.0;
        let error =
            (values.iter().map(|v| (v.0 - mean).powi(2)).sum::<f64>() / 400.0).sqrt() / 20.0;
        let found = interval(&values);
        assert!(
            (found.low - (mean - 1.96 * error)).abs() < 0.1 * error
                && (found.high - (mean + 1.96 * error)).abs() < 0.1 * error
        );
    }

    /// Ten structures of a case are no ten cases: the same values, each ten times, give the same
    /// interval.
    #[test]
    fn structures_of_a_case_do_not_narrow_the_interval() {
        let (one, ten): (Vec<_>, Vec<_>) =
            [1.0, 2.0, 4.0, 8.0].iter().map(|&v| ((v, 1), (10.0 * v, 10))).unzip();
        let (one, ten) = (interval(&one), interval(&ten));
        assert!((one.low - ten.low).abs() < 1e-12 && (one.high - ten.high).abs() < 1e-12);
    }

    #[test]
    fn draws_without_values_have_no_mean() {
        let means =
            resampled_means(&[cases(&[(2.0, 1), (0.0, 0)]), cases(&[(1.0, 1), (3.0, 1)])], 1);
        let empty = means[0].iter().filter(|m| m.is_none()).count();
        // Both draws miss the first case in a quarter of the resamples.
        assert!(
            (2300..2700).contains(&empty) && means[0].iter().flatten().all(|&m| m == 2.0),
            "{empty}"
        );
        // The draws are shared: where the first measure has none, only the second case was drawn.
        assert!(means[0].iter().zip(&means[1]).all(|(a, b)| a.is_some() || *b == Some(3.0)));
        assert_eq!(
            (pooled_mean(&cases(&[(2.0, 1), (4.0, 2)])), pooled_mean(&cases(&[(0.0, 0)]))),
            (Some(2.0), None)
        );
        assert!(Interval::of([]).is_none() && resampled_means(&[], 0).is_empty());
    }

    #[test]
    fn the_sign_is_settled_when_zero_is_outside() {
        assert!(
            Interval { low: 0.1, high: 0.2 }.excludes_zero()
                && Interval { low: -2.0, high: -0.1 }.excludes_zero()
        );
        assert!(
            !Interval { low: 0.0, high: 0.0 }.excludes_zero()
                && !Interval { low: -0.1, high: 0.1 }.excludes_zero()
        );
    }
}
