//! Information gain in integers: the best test of one feature from the histogram of its bins.

use crate::fixed::{LN_BITS, ln};
use crate::label::edges::LABEL_BINS;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// Most samples of a tree: x·ln x in units of 2⁻³² nats then fits 63 bits.
pub const MOST_LABEL_SAMPLES: usize = 1 << 26;

/// A gain of less than this a sample is within the error of the logarithm's table and counts as none, nats·2³².
pub const LEAST_GAIN: i64 = 1 << (LN_BITS - 20);

/// What tests are judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gain {
    /// Information gain I.
    #[default]
    Information,
    /// 2·I / (Hs + Hc), of the entropies of the sides and of the classes (Geurts, Ernst and Wehenkel,
    /// Machine Learning 63, 2006): tests that part evenly have no advantage. CURFIL's code has it.
    Normalised,
}

impl Gain {
    /// What a test is worth; more is better. Of normalised gain in units of 2⁻³².
    pub(crate) fn worth(self, of: &TestGain) -> i64 {
        match self {
            Self::Information => of.information,
            Self::Normalised => {
                let entropies = i128::from(of.sides) + i128::from(of.classes);
                ((i128::from(of.information) << (LN_BITS + 1)) / entropies.max(1)) as i64
            }
        }
    }
}

/// How splits are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitRule {
    /// Fewest samples on either side.
    pub min_leaf: u32,
    /// What tests are judged by.
    pub gain: Gain,
}

/// Of a test: its information gain and two entropies, each times the number of samples, nats·2³².
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TestGain {
    pub(crate) information: i64,
    /// Entropy of the sides: which of them a sample is on.
    pub(crate) sides: i64,
    /// Entropy of the classes in the node.
    pub(crate) classes: i64,
}

/// Bins at which a test may end, a bit each.
pub type Ends = u64;

/// Every bin.
pub const ALL_ENDS: Ends = Ends::MAX;

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
    /// What it is worth: information gain times the number of samples, nats·2³², or the normalised
    /// gain.
    pub gain: i64,
    /// First bin of the left side.
    pub first: u8,
    /// Last bin of the left side.
    pub last: u8,
}

impl Histogram<'_> {
    /// The test that begins at the bin `first` and has the highest information gain; of equals the
    /// one that ends lowest. `None` where none leaves `min_leaf` samples on both sides and gains
    /// anything.
    ///
    /// `left` is scratch with a place for each class.
    pub fn best_from(&self, first: usize, min_leaf: u32, left: &mut [u32]) -> Option<BinTest> {
        let rule = SplitRule { min_leaf, gain: Gain::Information };
        self.best((first, ALL_ENDS), &rule, left)
    }

    /// As [`Histogram::best_from`] by any rule, among tests with some of the ends.
    pub(crate) fn best(
        &self,
        (first, ends): (usize, Ends),
        rule: &SplitRule,
        left: &mut [u32],
    ) -> Option<BinTest> {
        let least = LEAST_GAIN * i64::from(self.samples());
        let mut best: Option<BinTest> = None;
        self.each_test((first, ends), rule.min_leaf, left, |last, of| {
            let gain = rule.gain.worth(&of);
            if of.information > least && best.is_none_or(|best| gain > best.gain) {
                best = Some(BinTest { gain, first: first as u8, last: last as u8 });
            }
        });
        best
    }

    /// Number of samples.
    pub(crate) fn samples(&self) -> u32 {
        self.totals.iter().sum()
    }

    /// Entropy of the classes times the number of samples, nats·2³².
    pub(crate) fn class_entropy(&self) -> i64 {
        let small: &[i64] = &SMALL;
        let own: i64 = self.totals.iter().map(|&c| x_ln_x(small, c)).sum();
        x_ln_x(small, self.samples()) - own
    }

    /// Hands out every test that begins at the bin `first`, ends at one of the `ends` and leaves
    /// `min_leaf` samples on both sides, by rising last bin.
    pub(crate) fn each_test(
        &self,
        (first, ends): (usize, Ends),
        min_leaf: u32,
        left: &mut [u32],
        mut take: impl FnMut(usize, TestGain),
    ) {
        let small: &[i64] = &SMALL;
        let n = self.samples();
        let order = |n: i64, x: i64| x - n;
        let all_n = x_ln_x(small, n);
        let before = -self.class_entropy();
        left.fill(0);
        let mut count = 0;
        let mut all = [0; LABEL_BINS];
        for class in self.counts {
            all.iter_mut().zip(class).for_each(|(all, &here)| *all += here);
        }
        for (last, &here) in all.iter().enumerate().take(self.bins).skip(first) {
            // The same samples as one bin before, where a test may have ended, too.
            if here == 0 && ends == ALL_ENDS {
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
            if ends >> last & 1 == 0 {
                continue;
            }
            let mut sides = 0;
            for (&left, &all) in left.iter().zip(self.totals) {
                sides += x_ln_x(small, left) + x_ln_x(small, all - left);
            }
            let numbers = x_ln_x(small, count) + x_ln_x(small, n - count);
            let information = order(numbers, sides) - before;
            take(last, TestGain { information, sides: all_n - numbers, classes: -before });
        }
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
            // Of drawn thresholds, by normalised gain, from its definition.
            let ends = u64::from(counts[0][0]).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << first;
            let rule = SplitRule { min_leaf, gain: Gain::Normalised };
            let found = histogram.best((first, ends), &rule, &mut vec![0; classes]);
            let entropy = |counts: &[u32]| {
                let n = counts.iter().map(|&c| f64::from(c)).sum::<f64>();
                let term = |&c: &u32| if c > 0 { -f64::from(c) * (f64::from(c) / n).ln() } else { 0.0 };
                counts.iter().map(term).sum::<f64>()
            };
            let normalised = |last: usize| {
                let left: u32 = side(&|b| (first..=last).contains(&b)).iter().sum();
                let sides = [left, totals.iter().sum::<u32>() - left];
                if of(last) < 1e-4 * n { 0.0 } else { 2.0 * of(last) / (entropy(&sides) + entropy(&totals)) }
            };
            let ends = (first..bins).filter(|last| ends >> last & 1 == 1);
            let highest = ends.map(normalised).fold(0.0, f64::max);
            if let Some(test) = found {
                prop_assert!((test.gain as f64 / 2f64.powi(32) - highest).abs() < 0.05 || of(usize::from(test.last)) < 1e-3 * n, "{test:?} {highest}");
            } else {
                prop_assert_eq!(highest, 0.0);
            }
        }
    }
}
