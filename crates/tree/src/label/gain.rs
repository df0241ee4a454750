//! Information gain in integers: the best test of one feature from the histogram of its bins.

use crate::fixed::{LN_BITS, ln};
use crate::label::edges::LABEL_BINS;
use std::sync::LazyLock;

/// Most samples of a tree: x·ln x in units of 2⁻³² nats then fits 63 bits.
pub const MOST_LABEL_SAMPLES: usize = 1 << 26;

/// A gain of less than this a sample is within the error of the logarithm's table and counts as none, nats·2³².
pub const LEAST_GAIN: i64 = 1 << (LN_BITS - 20);

/// x·ln x of small numbers, in units of 2⁻³² nats.
static SMALL: LazyLock<Vec<i64>> =
    LazyLock::new(|| (0..4096u64).map(|x| x as i64 * ln(x)).collect());

/// x·ln x in units of 2⁻³² nats, where `small` is [`SMALL`].
#[inline]
fn x_ln_x(small: &[i64], x: u32) -> i64 {
    match small.get(x as usize) {
        Some(&value) => value,
        None => i64::from(x) * ln(u64::from(x)),
    }
}

/// Samples of each class in the bins of one feature; the last bin is that of missing responses.
#[derive(Debug)]
pub struct Histogram<'a> {
    /// Number of bins that responses can have.
    pub bins: usize,
    /// Counts by class and bin.
    pub counts: &'a [[u32; LABEL_BINS]],
    /// Samples of each class in all bins.
    pub totals: &'a [u32],
}

/// A test on one feature: the samples in the bins `first..=last` go left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinTest {
    /// Information gain times the number of samples, nats·2³².
    pub gain: i64,
    /// First bin of the left side.
    pub first: u8,
    /// Last bin of the left side.
    pub last: u8,
}

impl Histogram<'_> {
    /// The test that begins at the bin `first` and has the highest gain; of equals the one that ends
    /// lowest. `None` where none leaves `min_leaf` samples on both sides and gains anything.
    ///
    /// `left` is scratch with a place for each class.
    pub fn best_from(&self, first: usize, min_leaf: u32, left: &mut [u32]) -> Option<BinTest> {
        let small: &[i64] = &SMALL;
        let n: u32 = self.totals.iter().sum();
        let order = |n: i64, x: i64| x - n;
        let own: i64 = self.totals.iter().map(|&c| x_ln_x(small, c)).sum();
        let before = order(x_ln_x(small, n), own);
        let mut best: Option<BinTest> = None;
        let mut least = LEAST_GAIN * i64::from(n);
        left.fill(0);
        let mut count = 0;
        let mut all = [0; LABEL_BINS];
        for class in self.counts {
            all.iter_mut().zip(class).for_each(|(all, &here)| *all += here);
        }
        for (last, &here) in all.iter().enumerate().take(self.bins).skip(first) {
            // The same samples as one bin before.
            if here == 0 {
                continue;
            }
            count += here;
            left.iter_mut().zip(self.counts).for_each(|(left, class)| *left += class[last]);
            if count < min_leaf {
                continue;
            }
            if n - count < min_leaf {
                break;
            }
            let mut sides = 0;
            for (&left, &all) in left.iter().zip(self.totals) {
                sides += x_ln_x(small, left) + x_ln_x(small, all - left);
            }
            let after = order(x_ln_x(small, count) + x_ln_x(small, n - count), sides);
            let gain = after - before;
            if gain > least {
                least = gain;
                best = Some(BinTest { gain, first: first as u8, last: last as u8 });
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Information gain times the number of samples in floating point, from the definition.
    fn gain(left: &[u32], right: &[u32]) -> f64 {
        let entropy = |side: &[u32]| {
            let n: f64 = side.iter().map(|&c| f64::from(c)).sum();
            let term = |&c: &u32| if c > 0 { -f64::from(c) * (f64::from(c) / n).ln() } else { 0.0 };
            side.iter().map(term).sum::<f64>()
        };
        let all: Vec<u32> = left.iter().zip(right).map(|(l, r)| l + r).collect();
        entropy(&all) - entropy(left) - entropy(right)
    }

    proptest! {
        #[test]
        fn the_best_test_has_the_highest_gain(
            classes in 2usize..6, bins in 1usize..63, first in 0usize..63, min_leaf in 1u32..5,
            counts in prop::collection::vec(prop_oneof![2 => Just(0u32), 2 => 0u32..6, 1 => 0u32..9000], 64 * 6),
        ) {
            let first = first % bins;
            let mut counts: Vec<[u32; LABEL_BINS]> = counts.as_chunks().0[..classes].to_vec();
            counts.iter_mut().for_each(|class| class[bins..LABEL_BINS - 1].fill(0));
            let side = |wanted: &dyn Fn(usize) -> bool| -> Vec<u32> {
                counts.iter().map(|class| (0..LABEL_BINS).filter(|&b| wanted(b)).map(|b| class[b]).sum()).collect()
            };
            let totals = side(&|_| true);
            let histogram = Histogram { bins, counts: &counts, totals: &totals };
            let found = histogram.best_from(first, min_leaf, &mut vec![0; classes]);
            let of = |last: usize| {
                let (left, right) = (side(&|b| (first..=last).contains(&b)), side(&|b| !(first..=last).contains(&b)));
                let enough = |side: &[u32]| side.iter().sum::<u32>() >= min_leaf;
                if enough(&left) && enough(&right) { gain(&left, &right) } else { -1.0 }
            };
            let highest = (first..bins).map(of).fold(-1.0, f64::max);
            let n = f64::from(totals.iter().sum::<u32>());
            match found {
                Some(test) => {
                    prop_assert_eq!(usize::from(test.first), first);
                    let exact = of(usize::from(test.last));
                    prop_assert!((exact - highest).abs() < 4e-6 * n, "{exact} {highest}");
                    prop_assert!((test.gain as f64 / 2f64.powi(32) - exact).abs() < 4e-6 * n);
                }
                None => prop_assert!(highest < 1e-5 * n, "{highest}"),
            }
        }
    }
}
