//! What a leaf says: from the drawn samples in it to a distribution of the classes.

/// The sum of a leaf's distribution.
pub const LEAF_ONE: u32 = 1 << 15;

/// What turns a leaf's samples into a distribution (CURFIL's `histogramBias` and `useLabelsPrior`).
#[derive(Debug, Clone, PartialEq)]
pub struct LeafPrior {
    /// For each sample, how many voxels of the training images it stands for, in any one unit.
    pub weights: Vec<u32>,
    /// This share of the leaf's samples is taken off each class's count, in units of 2⁻¹⁶.
    pub bias: u32,
}

impl LeafPrior {
    /// Adds the distribution of a leaf, sum [`LEAF_ONE`], to a list. `samples` are those of each
    /// class together, `counts` how many of each.
    ///
    /// With h samples of the weight w in a class, max(0, h − bias·Σh)/h·w, divided by its sum; without
    /// the bias where that leaves nothing. Fractions go to the classes with the largest remainders, of
    /// equals to the lower one.
    pub fn push_distribution(&self, samples: &[u32], counts: &[u32], out: &mut Vec<u16>) {
        let off = (samples.len() as u64 * u64::from(self.bias)) >> 16;
        let mut rest = samples;
        let mut weighted = Vec::with_capacity(counts.len());
        let mut unbiased = Vec::with_capacity(counts.len());
        for &count in counts {
            let (own, others) = rest.split_at(count as usize);
            rest = others;
            let weight: u128 = own.iter().map(|&s| u128::from(self.weights[s as usize])).sum();
            let left = u128::from(u64::from(count).saturating_sub(off));
            unbiased.push(weight);
            weighted.push(weight * left / u128::from(count.max(1)));
        }
        if weighted.iter().all(|&w| w == 0) {
            weighted = unbiased;
        }
        let mut sum: u128 = weighted.iter().sum();
        if sum == 0 {
            (weighted, sum) = (vec![1; counts.len()], counts.len() as u128);
        }
        let one = u128::from(LEAF_ONE);
        let first = out.len();
        out.extend(weighted.iter().map(|&w| (w * one / sum) as u16));
        let given: u32 = out[first..].iter().map(|&v| u32::from(v)).sum();
        let mut order: Vec<usize> = (0..counts.len()).collect();
        order.sort_by_key(|&c| (std::cmp::Reverse(weighted[c] * one % sum), c));
        for &class in order.iter().take((LEAF_ONE - given) as usize) {
            out[first + class] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn distributions_sum_to_one_and_are_close(
            counts in prop::collection::vec(0u32..200, 1..9), weights in prop::collection::vec(1u32..1 << 20, 40), bias in 0u32..40_000,
        ) {
            let samples: Vec<u32> = (0..counts.iter().sum()).map(|n| n % 40).collect();
            let mut leaf = Vec::new();
            LeafPrior { weights: weights.clone(), bias }.push_distribution(&samples, &counts, &mut leaf);
            prop_assert_eq!(leaf.iter().map(|&v| u32::from(v)).sum::<u32>(), LEAF_ONE);
            let all = samples.len() as f64;
            let off = (all * f64::from(bias) / 65536.0).floor();
            let mut rest = &samples[..];
            let shares: Vec<f64> = counts.iter().map(|&count| {
                let (own, others) = rest.split_at(count as usize);
                rest = others;
                let weight: f64 = own.iter().map(|&s| f64::from(weights[s as usize])).sum();
                weight * (f64::from(count) - off).max(0.0) / f64::from(count.max(1))
            }).collect();
            let sum: f64 = shares.iter().sum();
            if sum > 100_000.0 {
                for (&v, share) in leaf.iter().zip(shares) {
                    prop_assert!((f64::from(v) - share / sum * f64::from(LEAF_ONE)).abs() <= 2.0);
                }
            }
        }
    }
}
