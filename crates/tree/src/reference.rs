//! A slow booster that is correct by its look: every classifier of every feature is tried and its
//! errors are counted.

use crate::bins::BinnedMatrix;
use crate::boost::{BoostParams, Booster, WEIGHT_TOTAL, WeakKind, output_bins};
use crate::device_error::DeviceError;
use crate::weak::{ALPHA_BITS, Weak};

/// The oracle of every [`Booster`].
#[derive(Debug, Clone, Copy, Default)]
pub struct ReferenceBooster;

/// All 128 thresholds as masks, in the order in which ties are settled.
fn thresholds() -> impl Iterator<Item = u64> {
    (0..64).flat_map(|t| {
        let upper: u64 = (t + 1..64).map(|b| 1u64 << b).sum();
        [upper, !upper]
    })
}

/// The histogram classifier of a feature: each group of bins votes as the majority of its weight
/// does.
fn histogram(row: &[u8], labels: &[bool], weights: &[u32], bins: usize) -> u64 {
    let mut votes = 0;
    for bin in 0..bins {
        let group: Vec<usize> =
            (0..row.len()).filter(|&s| row[s] as usize * bins / 64 == bin).collect();
        let weight_of = |label: bool| {
            group.iter().filter(|&&s| labels[s] == label).map(|&s| weights[s] as u64).sum::<u64>()
        };
        if weight_of(true) > weight_of(false) {
            votes |= (0..64).filter(|b| b * bins / 64 == bin).map(|b| 1u64 << b).sum::<u64>();
        }
    }
    votes
}

impl Booster for ReferenceBooster {
    fn boost(
        &self,
        matrix: &BinnedMatrix,
        labels: &[bool],
        weights: &[u32],
        params: &BoostParams,
    ) -> Result<Vec<Weak>, DeviceError> {
        let mut weights = weights.to_vec();
        let mut strong = Vec::new();
        for _ in 0..params.rounds {
            let total: u64 = weights.iter().map(|&w| w as u64).sum();
            let error_of = |feature: usize, votes: u64| -> u64 {
                let row = matrix.row(feature);
                let wrong = |s: &usize| ((votes >> row[*s]) & 1 == 1) != labels[*s];
                (0..row.len()).filter(wrong).map(|s| weights[s] as u64).sum()
            };
            // (cost, error, feature, votes); the first of equals is kept.
            let mut best: Option<(u64, u64, usize, u64)> = None;
            for feature in 0..matrix.features() {
                let with_histogram = |bins| histogram(matrix.row(feature), labels, &weights, bins);
                let candidates: Vec<(u64, u64)> = match params.weak {
                    WeakKind::Threshold => thresholds().map(|votes| (7, votes)).collect(),
                    WeakKind::Histogram { bins } => vec![(8, with_histogram(output_bins(bins)))],
                    WeakKind::Best => thresholds()
                        .map(|votes| (7, votes))
                        .chain([(8, with_histogram(16))])
                        .collect(),
                };
                for (factor, votes) in candidates {
                    let error = error_of(feature, votes);
                    if best.is_none_or(|b| factor * error < b.0) {
                        best = Some((factor * error, error, feature, votes));
                    }
                }
            }
            let Some((_, error, feature, votes)) = best else { break };
            if total == 0 || error as f64 > params.max_error * total as f64 {
                break;
            }
            let rate = (error as f64 / total as f64).clamp(1.0 / 1048576.0, 0.5);
            let alpha =
                (0.5 * libm::log((1.0 - rate) / rate) * (1 << ALPHA_BITS) as f64).round() as i32;
            if alpha <= 0 {
                break;
            }
            strong.push(Weak {
                feature: feature as u32,
                bounds: matrix.bounds(feature),
                votes,
                alpha,
            });
            if error == 0 || error == total {
                break;
            }
            for (s, w) in weights.iter_mut().enumerate() {
                let right = ((votes >> matrix.row(feature)[s]) & 1 == 1) == labels[s];
                let share = if right { total - error } else { error };
                *w = (*w as u64 * (WEIGHT_TOTAL as u64 / 2) / share) as u32;
            }
        }
        Ok(strong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boost::Candidate;
    use crate::boost::{adaboost, best_of_feature};
    use proptest::prelude::*;

    /// The plain search by the signed sums, against which the counting of the reference is checked.
    fn by_sums(
        matrix: &BinnedMatrix,
        labels: &[bool],
        weights: &[u32],
        params: &BoostParams,
    ) -> Vec<Weak> {
        adaboost(matrix, labels, weights, params, |signed, total| {
            let of_feature = |f: usize| {
                let mut sums = [0i32; 64];
                matrix.row(f).iter().zip(signed).for_each(|(&b, &w)| sums[b as usize] += w);
                best_of_feature(f as u32, &sums, total, params.weak)
            };
            (0..matrix.features()).map(of_feature).reduce(Candidate::better)
        })
    }

    fn problem() -> impl Strategy<Value = (BinnedMatrix, Vec<bool>, Vec<u32>)> {
        (1usize..60, 1usize..8).prop_flat_map(|(samples, features)| {
            let responses = prop::collection::vec(-40i32..40, samples * features);
            let weights =
                prop::collection::vec(prop_oneof![Just(0u32), 1u32..10, 1u32..(1 << 24)], samples);
            (responses, prop::collection::vec(any::<bool>(), samples), weights).prop_map(
                move |(responses, labels, weights)| {
                    let mut matrix = BinnedMatrix::new(samples, 2.0);
                    matrix.push_features(&responses);
                    (matrix, labels, weights)
                },
            )
        })
    }

    proptest! {
        #[test]
        fn signed_sums_equal_counting((matrix, labels, weights) in problem(), kind in 0usize..5) {
            let weak = [WeakKind::Threshold, WeakKind::Histogram { bins: 64 }, WeakKind::Histogram { bins: 16 }, WeakKind::Histogram { bins: 2 }, WeakKind::Best][kind];
            let params = BoostParams { rounds: 12, weak, ..BoostParams::default() };
            prop_assert_eq!(Ok(by_sums(&matrix, &labels, &weights, &params)), ReferenceBooster.boost(&matrix, &labels, &weights, &params));
        }
    }

    #[test]
    fn training_error_falls() {
        // A band in the middle of one feature: no threshold gets it alone, three together do.
        let n = 200;
        let mut matrix = BinnedMatrix::new(n, 0.0);
        matrix.push_features(&(0..n as i32).collect::<Vec<_>>());
        let labels: Vec<bool> = (0..n).map(|s| (60..140).contains(&s)).collect();
        let weights = vec![WEIGHT_TOTAL / n as u32; n];
        let boost = |params: &BoostParams| {
            ReferenceBooster.boost(&matrix, &labels, &weights, params).expect("no device")
        };
        let strong = boost(&BoostParams::default());
        let wrong = (0..n)
            .filter(|&s| {
                (strong.iter().map(|w| w.signed_alpha(s as i32)).sum::<i32>() > 0) != labels[s]
            })
            .count();
        assert!(wrong <= 4, "{wrong} of {n} wrong");
        let strong =
            boost(&BoostParams { weak: WeakKind::Histogram { bins: 64 }, ..Default::default() });
        let wrong = (0..n)
            .filter(|&s| {
                (strong.iter().map(|w| w.signed_alpha(s as i32)).sum::<i32>() > 0) != labels[s]
            })
            .count();
        assert!(wrong <= 4, "{wrong} of {n} wrong");
    }

    #[test]
    fn a_perfect_classifier_ends_boosting_with_a_bounded_weight() {
        let mut matrix = BinnedMatrix::new(4, 0.0);
        matrix.push_features(&[0, 1, 10, 11]);
        let strong = ReferenceBooster
            .boost(&matrix, &[false, false, true, true], &[1 << 20; 4], &BoostParams::default())
            .expect("no device");
        assert_eq!(strong.len(), 1);
        assert_eq!(strong[0].alpha, (0.5 * (1048575f64).ln() * 65536.0).round() as i32);
    }
}
