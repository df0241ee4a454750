//! A linear map from image samples to numbers: ridge regression, kept as integers so that it gives
//! the same bits everywhere.

use crate::ridge::{self, Samples};
use std::convert::Infallible;

/// Fractional bits of targets.
const TARGET_BITS: i32 = 20;

/// Targets lie within ±1 and stay clear of it.
const LARGEST_TARGET: f64 = 0.99;

/// An integer that holds a weight.
pub trait Weight: Copy {
    /// Weights are scaled so that the largest of an output is about 2 to this power.
    const BITS: i32;

    /// The nearest integer.
    fn nearest(value: f64) -> Self;

    /// The same number in 64 bits.
    fn wide(self) -> i64;
}

/// For maps with thousands of inputs: their rounding errors average out.
impl Weight for i16 {
    const BITS: i32 = 13;

    fn nearest(value: f64) -> Self {
        libm::round(value) as Self
    }

    fn wide(self) -> i64 {
        i64::from(self)
    }
}

/// For poses: the last regressor is iterated, so rounding would accumulate.
impl Weight for i32 {
    const BITS: i32 = 24;

    fn nearest(value: f64) -> Self {
        libm::round(value) as Self
    }

    fn wide(self) -> i64 {
        i64::from(self)
    }
}

/// Numbers from a patch of 12-bit values.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearMap<W> {
    /// Mean of every feature.
    pub means: Vec<i16>,
    /// `weights[o * means.len() + f]`.
    pub weights: Vec<W>,
    /// Fractional bits of the weights by output.
    pub weight_bits: Vec<i32>,
    /// Mean target by output, 20 fractional bits.
    pub bias: Vec<i32>,
}

impl<W: Weight> LinearMap<W> {
    /// The map of every patch of so many values to as many zeros as there are outputs.
    pub fn zero(length: usize, outputs: usize) -> Self {
        Self {
            means: vec![0; length],
            weights: vec![W::nearest(0.0); outputs * length],
            weight_bits: vec![0; outputs],
            bias: vec![0; outputs],
        }
    }

    /// The outputs for a patch.
    pub fn apply(&self, patch: &[i16]) -> Vec<f64> {
        let length = self.means.len();
        let outputs =
            self.weights.chunks_exact(length.max(1)).zip(&self.weight_bits).zip(&self.bias);
        outputs
            .map(|((weights, &bits), &bias)| {
                let sum: i64 = patch
                    .iter()
                    .zip(&self.means)
                    .zip(weights)
                    .map(|((&x, &m), &w)| i64::from(x - m) * w.wide())
                    .sum();
                libm::ldexp(sum as f64, -bits - TARGET_BITS)
                    + libm::ldexp(f64::from(bias), -TARGET_BITS)
            })
            .collect()
    }
}

/// Patches with their targets, both centred: what a linear map learns from.
pub struct RegressionProblem {
    means: Vec<i16>,
    bias: Vec<i32>,
    samples: Samples,
}

impl RegressionProblem {
    /// Samples with their features side by side (`patches[s * length + f]`, |value| ≤ 4095) and one
    /// list of targets an output, each within ±1.
    pub fn new(patches: Vec<i16>, length: usize, targets: &[Vec<f64>]) -> Self {
        let n = patches.len() / length;
        let (means, features) = ridge::centred(&patches, length);
        drop(patches);
        let fixed = |v: &f64| {
            let clamped = v.clamp(-LARGEST_TARGET, LARGEST_TARGET);
            libm::round(libm::ldexp(clamped, TARGET_BITS)) as i32
        };
        let mut targets: Vec<Vec<i32>> =
            targets.iter().map(|values| values.iter().map(fixed).collect()).collect();
        let mean = |values: &Vec<i32>| {
            values.iter().map(|&v| i64::from(v)).sum::<i64>().div_euclid(n as i64) as i32
        };
        let bias: Vec<i32> = targets.iter().map(mean).collect();
        for (values, bias) in targets.iter_mut().zip(&bias) {
            values.iter_mut().for_each(|v| *v -= bias);
        }
        Self { means, bias, samples: Samples { features, targets, n } }
    }

    /// The ridge solution; `penalty` is a share of the mean variance of a feature.
    pub fn solve<W: Weight>(&self, penalty: f64) -> LinearMap<W> {
        let solved = self.solve_by(&[penalty], |vectors, ridges, right| {
            Ok::<_, Infallible>(ridge::solutions(vectors, ridges, right))
        });
        let Ok(mut maps) = solved;
        maps.remove(0)
    }

    /// The ridge solutions of some penalties, where another device does what
    /// [`solutions`](crate::solutions) does.
    ///
    /// # Errors
    /// Those of the device.
    pub fn solve_by<W: Weight, E>(
        &self,
        penalties: &[f64],
        solutions: impl FnOnce((&[i16], usize), &[f64], &[Vec<f64>]) -> Result<Vec<Vec<Vec<f64>>>, E>,
    ) -> Result<Vec<LinearMap<W>>, E> {
        let solutions = self.samples.solve(penalties, solutions)?;
        Ok(solutions.iter().map(|solution| self.map(solution)).collect())
    }

    fn map<W: Weight>(&self, solution: &[Vec<f64>]) -> LinearMap<W> {
        let mut weight_bits = Vec::with_capacity(solution.len());
        let mut weights = Vec::with_capacity(solution.len() * self.means.len());
        for output in solution {
            let largest = output.iter().fold(1e-12f64, |m, v| m.max(v.abs()));
            let bits = (W::BITS - libm::ilogb(largest)).clamp(0, 60);
            weights.extend(output.iter().map(|&v| W::nearest(libm::ldexp(v, bits))));
            weight_bits.push(bits);
        }
        LinearMap { means: self.means.clone(), weights, weight_bits, bias: self.bias.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random;

    fn a_noiseless_line_is_found<W: Weight>(within: f64) {
        let mut random = test_random(3);
        let (n, length) = (400, 20);
        let patches: Vec<i16> =
            (0..n * length).map(|_| random.between(0.0, 4095.0) as i16).collect();
        let line = |patch: &[i16]| 0.1 + 1e-4 * f64::from(patch[3]) - 5e-5 * f64::from(patch[7]);
        let targets = vec![patches.chunks_exact(length).map(line).collect::<Vec<f64>>()];
        let map: LinearMap<W> =
            RegressionProblem::new(patches.clone(), length, &targets).solve(1e-9);
        for patch in patches.chunks_exact(length) {
            assert!((map.apply(patch)[0] - line(patch)).abs() < within);
        }
    }

    #[test]
    fn lines_are_found_with_weights_of_either_width() {
        a_noiseless_line_is_found::<i16>(1e-3);
        a_noiseless_line_is_found::<i32>(1e-4);
    }
}
