//! A linear map from image samples to numbers: ridge regression, kept as integers so that it gives
//! the same bits everywhere.

use crate::linear::ridge;

/// Fractional bits of targets.
const TARGET_BITS: i32 = 20;

/// Bits of the largest weight of an output. With thousands of samples the rounding of all others
/// stays far below what they say together.
const WEIGHT_BITS: i32 = 14;

/// Numbers from a patch of 12-bit values.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearMap {
    /// Mean of every feature.
    pub means: Vec<i16>,
    /// `weights[o * means.len() + f]`.
    pub weights: Vec<i16>,
    /// Fractional bits of the weights by output.
    pub weight_bits: Vec<i32>,
    /// Mean target by output, 20 fractional bits.
    pub bias: Vec<i32>,
}

impl LinearMap {
    /// The ridge solution for samples with their features side by side (`patches[s * length + f]`,
    /// |value| ≤ 4095) and one list of targets an output, each within ±1.
    pub(crate) fn fit(patches: &[i16], length: usize, targets: &[Vec<f64>], ridge: f64) -> Self {
        let n = patches.len() / length;
        let (means, features) = ridge::centred(patches, length);
        let fixed = |v: &f64| libm::round(libm::ldexp(v.clamp(-0.99, 0.99), TARGET_BITS)) as i32;
        let mut targets: Vec<Vec<i32>> =
            targets.iter().map(|values| values.iter().map(fixed).collect()).collect();
        let bias: Vec<i32> = targets
            .iter()
            .map(|values| {
                values.iter().map(|&v| i64::from(v)).sum::<i64>().div_euclid(n as i64) as i32
            })
            .collect();
        for (values, bias) in targets.iter_mut().zip(&bias) {
            values.iter_mut().for_each(|v| *v -= bias);
        }
        let mut weight_bits = Vec::with_capacity(targets.len());
        let mut weights = Vec::with_capacity(targets.len() * length);
        for solution in ridge::fit(&ridge::Samples { features, targets, n }, ridge) {
            let largest = solution.iter().fold(1e-12f64, |m, v| m.max(v.abs()));
            let bits = (WEIGHT_BITS - 1 - libm::ilogb(largest)).clamp(0, 60);
            weights.extend(solution.iter().map(|&v| libm::round(libm::ldexp(v, bits)) as i16));
            weight_bits.push(bits);
        }
        Self { means, weights, weight_bits, bias }
    }

    /// The outputs for a patch.
    pub(crate) fn apply(&self, patch: &[i16]) -> Vec<f64> {
        let length = self.means.len();
        let outputs =
            self.weights.chunks_exact(length.max(1)).zip(&self.weight_bits).zip(&self.bias);
        outputs
            .map(|((weights, &bits), &bias)| {
                let sum: i64 = patch
                    .iter()
                    .zip(&self.means)
                    .zip(weights)
                    .map(|((&x, &m), &w)| i64::from(x - m) * i64::from(w))
                    .sum();
                libm::ldexp(sum as f64, -bits - TARGET_BITS)
                    + libm::ldexp(f64::from(bias), -TARGET_BITS)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn a_noiseless_line_is_found() {
        let mut random = Random::new(3, 0, 0);
        let (n, length) = (400, 20);
        let patches: Vec<i16> =
            (0..n * length).map(|_| random.between(0.0, 4095.0) as i16).collect();
        let line = |patch: &[i16]| 0.1 + 1e-4 * f64::from(patch[3]) - 5e-5 * f64::from(patch[7]);
        let targets = vec![patches.chunks_exact(length).map(line).collect::<Vec<f64>>()];
        let map = LinearMap::fit(&patches, length, &targets, 1e-9);
        for patch in patches.chunks_exact(length) {
            assert!((map.apply(patch)[0] - line(patch)).abs() < 1e-3);
        }
    }
}
