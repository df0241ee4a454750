//! From scores to probabilities.

use crate::label::forest::SCORE_BITS;
use crate::label::leaves::LEAF_ONE;
use std::sync::LazyLock;

/// Steps of a score from which on its exponential, below 2⁻⁶⁴, counts as 0: beside 1 it is nothing.
const STEPS: usize = 45 << SCORE_BITS;

/// exp(−k·2⁻¹¹), since differences of scores are whole steps of 2⁻¹¹.
static EXP: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let exp = |k| libm::exp(-(k as f64) / f64::from(1 << SCORE_BITS));
    (0..STEPS).map(exp).collect()
});

/// exp(−k·2⁻¹¹) by rising k; beyond its end 0. Devices have it as a table, too.
pub fn exp_table() -> &'static [f64] {
    &EXP
}

/// Probabilities of the classes, sum [`LEAF_ONE`], from the scores of all but the background, which
/// has 0 (the softmax).
pub(crate) fn probabilities(scores: impl Iterator<Item = i64> + Clone, out: &mut [u32]) {
    let table: &[f64] = &EXP;
    let highest = scores.clone().fold(0, i64::max);
    let share = |score: i64| table.get((highest - score) as usize).copied().unwrap_or(0.0);
    let all = share(0) + scores.clone().map(share).sum::<f64>();
    let mut left = LEAF_ONE;
    for (out, score) in out[1..].iter_mut().zip(scores) {
        *out = ((share(score) / all * f64::from(LEAF_ONE)) as u32).min(left);
        left -= *out;
    }
    out[0] = left;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shares_are_those_of_the_softmax(
            scores in prop::collection::vec(prop_oneof![4 => -20_000i64..20_000, 1 => -4_000_000i64..4_000_000], 1..12),
        ) {
            let mut shares = vec![0; scores.len() + 1];
            probabilities(scores.iter().copied(), &mut shares);
            prop_assert_eq!(shares.iter().sum::<u32>(), LEAF_ONE);
            let nats: Vec<f64> = std::iter::once(0.0).chain(scores.iter().map(|&s| s as f64 / 2048.0)).collect();
            let highest = nats.iter().copied().fold(0.0, f64::max);
            let all: f64 = nats.iter().map(|s| (s - highest).exp()).sum();
            for (&share, nats) in shares.iter().zip(&nats) {
                let exact = (nats - highest).exp() / all * f64::from(LEAF_ONE);
                // The background has what rounding down leaves.
                prop_assert!((f64::from(share) - exact).abs() <= scores.len() as f64 + 1e-6);
            }
        }
    }
}
