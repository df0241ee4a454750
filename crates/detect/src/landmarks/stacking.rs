//! One estimate of a landmark from those of all regressors.
//!
//! Regressors see different surroundings and err differently, so a weighted mean of what they say is
//! better than the last word of the last one where much of the error is chance (stacked regression:
//! Breiman 1996). The weights come from cases that the regressors did not see.

use nalgebra::Vector3;
use pbt_linear::cholesky::{factorise, substitute};

/// So many samples count as much for what is believed beforehand as a landmark's own do: that its
/// weights are those of all landmarks, and theirs that the last regressor is right. By
/// cross-validation among the training cases of the hippocampus (3 to 30 differ by 0.4 %) and the
/// mouse skull.
const BELIEF: f64 = 10.0;

/// What the estimates of a landmark say of each other: inner products of their errors, mean over
/// samples, the last one's square being 1.
struct Products {
    /// `matrix[j * estimates + k]`
    matrix: Vec<f64>,
    samples: usize,
}

impl Products {
    /// `None` without samples, or where the last estimate is never wrong.
    fn new(samples: &[Vec<Vector3<f64>>], estimates: usize) -> Option<Self> {
        let mut matrix = vec![0.0; estimates * estimates];
        for errors in samples {
            for (n, sum) in matrix.iter_mut().enumerate() {
                *sum += errors[n / estimates].dot(&errors[n % estimates]);
            }
        }
        let last = *matrix.last()?;
        (last > 0.0).then(|| Self {
            matrix: matrix.iter().map(|sum| sum / last).collect(),
            samples: samples.len(),
        })
    }
}

/// By landmark, the weights of its estimates, which add up to 1.
/// `errors[landmark][sample][estimate]` is how far an estimate is from the truth, in any unit.
pub(crate) fn weights(errors: &[Vec<Vec<Vector3<f64>>>], estimates: usize) -> Vec<Vec<f64>> {
    let mut last = vec![0.0; estimates];
    if let Some(weight) = last.last_mut() {
        *weight = 1.0;
    }
    let known: Vec<Option<Products>> =
        errors.iter().map(|samples| Products::new(samples, estimates)).collect();
    let count = known.iter().flatten().count().max(1) as f64;
    let mut all = Products { matrix: vec![0.0; estimates * estimates], samples: 0 };
    for products in known.iter().flatten() {
        all.samples += products.samples;
        all.matrix
            .iter_mut()
            .zip(&products.matrix)
            .for_each(|(sum, product)| *sum += product / count);
    }
    let common = least(&all, &last);
    known
        .iter()
        .map(|products| {
            products.as_ref().map_or_else(|| last.clone(), |products| least(products, &common))
        })
        .collect()
}

/// The weights of least mean square error, drawn to those that are believed: minimises `wᵀ G w + λ
/// |w − b|²` where the weights add up to 1.
fn least(products: &Products, believed: &[f64]) -> Vec<f64> {
    let n = believed.len();
    if products.samples == 0 {
        return believed.to_vec();
    }
    let lambda = BELIEF / products.samples as f64;
    let mut matrix = products.matrix.clone();
    (0..n).for_each(|k| matrix[k * n + k] += lambda);
    factorise(&mut matrix, n);
    let mut sides = vec![believed.iter().map(|b| lambda * b).collect::<Vec<f64>>(), vec![1.0; n]];
    substitute(&matrix, n, &mut sides);
    let (free, ones) = (&sides[0], &sides[1]);
    let multiplier = (1.0 - free.iter().sum::<f64>()) / ones.iter().sum::<f64>();
    free.iter().zip(ones).map(|(x, y)| x + multiplier * y).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::test_random;

    /// Errors of estimates with these standard deviations, independent of each other.
    fn independent(count: usize, deviations: &[f64]) -> Vec<Vec<Vector3<f64>>> {
        let mut random = test_random(2);
        let mut error = |deviation: f64| Vector3::from_fn(|_, _| deviation * random.normal());
        (0..count).map(|_| deviations.iter().map(|&d| error(d)).collect()).collect()
    }

    #[test]
    fn independent_estimates_weigh_as_their_inverse_variances() {
        let found = &weights(&[independent(20_000, &[2.0, 1.0, 1.0])], 3)[0];
        for (weight, expected) in found.iter().zip([1.0 / 9.0, 4.0 / 9.0, 4.0 / 9.0]) {
            assert!((weight - expected).abs() < 0.01, "{found:?}");
        }
    }

    #[test]
    fn few_samples_leave_the_last_word_to_the_last_round() {
        let found = &weights(&[independent(2, &[1.0, 1.0])], 2)[0];
        assert!(found[1] > 0.7 && (found[0] + found[1] - 1.0).abs() < 1e-12, "{found:?}");
        assert_eq!(weights(&[Vec::new()], 3), [[0.0, 0.0, 1.0]]);
        // Never wrong: nothing to weigh.
        assert_eq!(weights(&[vec![vec![Vector3::zeros(); 2]; 5]], 2), [[0.0, 1.0]]);
    }

    #[test]
    fn a_landmark_with_few_samples_follows_the_others() {
        let found = weights(&[independent(3000, &[1.0, 1.0]), independent(2, &[1.0, 1.0])], 2);
        assert!(
            (found[0][0] - 0.5).abs() < 0.03 && (found[1][0] - found[0][0]).abs() < 0.25,
            "{found:?}"
        );
    }
}
