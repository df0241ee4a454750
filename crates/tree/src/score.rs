//! A sample's score: one integer that ranks.

use crate::fixed::{LN_BITS, ln};
use crate::masses::Masses;
use serde::{Deserialize, Serialize};

/// Fractional bits of the log-odds in a score.
pub const LOG_ODDS_BITS: u32 = 16;

/// Log-odds of the posterior in the upper 32 bits (units of 2⁻¹⁶), and in the lower 32 the margin
/// along the dominant path (units of 2⁻¹⁶, offset by 2³¹). The order of the integers is the order
/// of the scores: samples that end in the same leaf of a hard tree have equal log-odds and are
/// ranked by the margin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Score(pub i64);

impl Score {
    /// Below every score of a classifier.
    pub const LOWEST: Self = Self(i64::MIN);

    /// The score of a tree's or a forest's masses.
    pub fn from_masses(masses: Masses) -> Self {
        let log_odds = (ln(masses.positive) - ln(masses.negative)) >> (LN_BITS - LOG_ODDS_BITS);
        let margin = masses.margin.clamp(i32::MIN as i64, i32::MAX as i64);
        Self((log_odds << 32) | (margin - i32::MIN as i64))
    }

    /// ln(p/(1 − p)).
    pub fn log_odds(self) -> f64 {
        (self.0 >> 32) as f64 / (1u32 << LOG_ODDS_BITS) as f64
    }

    /// The margin along the dominant path.
    pub fn margin(self) -> f64 {
        ((self.0 & 0xffff_ffff) + i32::MIN as i64) as f64 / (1u32 << crate::weak::ALPHA_BITS) as f64
    }

    /// The mean of two classifiers' scores of one sample: of the log-odds, and of the margins.
    pub fn mean(self, other: Self) -> Self {
        let half = |a: i64, b: i64| (a + b) >> 1;
        let low = |score: Self| score.0 & 0xffff_ffff;
        Self((half(self.0 >> 32, other.0 >> 32) << 32) | half(low(self), low(other)))
    }

    /// The posterior p(+1), between 0 and 1.
    pub fn posterior(self) -> f64 {
        1.0 / (1.0 + libm::exp(-self.log_odds()))
    }
}

/// Indices of the `k` highest scores, highest first, the lower index first where scores tie.
pub fn best_indices(scores: &[Score], k: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    let key = |&n: &usize| (std::cmp::Reverse(scores[n]), n);
    if k < order.len() && k > 0 {
        order.select_nth_unstable_by_key(k - 1, key);
    }
    order.truncate(k);
    order.sort_unstable_by_key(key);
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixed::MASS_ONE;
    use approx::assert_abs_diff_eq;
    use proptest::prelude::*;

    fn score(positive: u64, margin: i64) -> Score {
        Score::from_masses(Masses { positive, negative: MASS_ONE - positive, margin })
    }

    proptest! {
        #[test]
        fn more_mass_never_ranks_lower(a in 0..=MASS_ONE, b in 0..=MASS_ONE, shift in 0u32..50) {
            let (a, b) = (a >> shift, b >> shift);
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(score(low, 0) <= score(high, 0));
            prop_assert!(score(MASS_ONE - high, 0) <= score(MASS_ONE - low, 0));
        }

        #[test]
        fn equal_masses_are_ranked_by_the_margin(positive in 0..=MASS_ONE, a: i64, b: i64) {
            let clamped = |m: i64| m.clamp(i32::MIN as i64, i32::MAX as i64);
            prop_assert_eq!(score(positive, a).cmp(&score(positive, b)), clamped(a).cmp(&clamped(b)));
            prop_assert_eq!(score(positive, a).log_odds(), score(positive, b).log_odds());
            prop_assert_eq!(score(positive, a).margin(), clamped(a) as f64 / 65536.0);
        }
    }

    proptest! {
        #[test]
        fn the_best_are_the_first_of_all_in_order(values in prop::collection::vec(-3i64..4, 0..40), k in 0usize..50) {
            let scores: Vec<Score> = values.into_iter().map(Score).collect();
            let mut all: Vec<usize> = (0..scores.len()).collect();
            // Stable: the lower index stays first.
            all.sort_by_key(|&n| std::cmp::Reverse(scores[n]));
            all.truncate(k);
            prop_assert_eq!(best_indices(&scores, k), all);
        }
    }

    #[test]
    fn known_values() {
        assert_eq!(score(MASS_ONE / 2, 0), Score(1 << 31));
        assert_eq!(score(MASS_ONE / 2, 0).posterior(), 0.5);
        assert_abs_diff_eq!(score(MASS_ONE / 4 * 3, 0).log_odds(), 3f64.ln(), epsilon = 2e-5);
        // One part in 2⁴⁰ is told from two.
        assert!(
            (score(1 << 12, 0).log_odds() - score(2 << 12, 0).log_odds() + 2f64.ln()).abs() < 4e-5
        );
        assert!(Score::LOWEST < score(0, i64::MIN));
        assert!(score(MASS_ONE, i64::MAX).posterior() <= 1.0);
    }

    #[test]
    fn a_mean_lies_between_and_keeps_the_order() {
        let score = |log_odds: f64, margin: i64| {
            let bits = (log_odds * f64::from(1u32 << LOG_ODDS_BITS)) as i64;
            Score((bits << 32) | (margin - i64::from(i32::MIN)))
        };
        let (low, high) = (score(-3.25, -7), score(1.5, 4_000));
        let mean = low.mean(high);
        assert_abs_diff_eq!(mean.log_odds(), -0.875, epsilon = 1e-4);
        assert!(low < mean && mean < high && mean == high.mean(low));
        assert_eq!(low.mean(low), low);
        // The margin decides where log-odds tie.
        assert!(low.mean(score(1.5, 3_000)) < mean);
        let extreme = Score(i64::MAX).mean(Score::LOWEST);
        assert!(Score::LOWEST < extreme && extreme < Score(i64::MAX));
    }
}
