//! Forests that regress numbers on image samples: extremely randomised trees (Geurts, Ernst and
//! Wehenkel, Machine Learning 63, 2006, table 1).
//!
//! A node draws some values of the patch and for each a random threshold, and keeps the one that
//! leaves the least variance. Every tree sees all samples; what differs between trees is chance, and
//! their mean is smooth. Sums are integers and the rest is plain arithmetic in one order, so a forest
//! has the same bits everywhere.

use crate::draw::{below, stream};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// Fractional bits of a leaf's numbers, which lie within ±1.
const LEAF_BITS: i32 = 14;

/// [`RegressionNode::value`] of a leaf.
pub const REGRESSION_LEAF: u16 = u16::MAX;

/// A node: an inner one looks at one value of the patch. At most `bound` leads to the node `next`,
/// more to the one after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegressionNode {
    /// Which value; [`REGRESSION_LEAF`] of a leaf.
    pub value: u16,
    /// The largest that goes left.
    pub bound: i16,
    /// The left child, or the leaf's number.
    pub next: u32,
}

/// A tree. Children come after their parent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RegressionTree {
    /// The root first.
    pub nodes: Vec<RegressionNode>,
    /// Mean targets, `[leaf][output]`, with 14 fractional bits.
    pub leaves: Vec<i16>,
}

/// A forest; its answer is the mean of its trees'.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegressionForest {
    /// Numbers that it gives.
    pub outputs: usize,
    /// The trees, one at least.
    pub trees: Vec<RegressionTree>,
}

/// How a forest grows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RegressionForestParams {
    /// Number of trees.
    pub trees: usize,
    /// Fewest samples of a leaf.
    pub min_leaf: usize,
    /// So many values does a node look at, drawn with replacement.
    pub looks: usize,
}

impl RegressionForest {
    /// Grows a forest on samples with their values side by side (`patches[s * length + f]`) and one
    /// list of targets an output, each within ±1. There is one sample at least, and fewer values
    /// than [`REGRESSION_LEAF`].
    pub fn grow(
        patches: &[i16],
        length: usize,
        targets: &[Vec<f64>],
        params: &RegressionForestParams,
        seed: u64,
    ) -> Self {
        let count = patches.len() / length;
        let columns: Vec<i16> = (0..length)
            .into_par_iter()
            .flat_map_iter(|value| patches[value..].iter().step_by(length).copied())
            .collect();
        let fixed = |v: &f64| libm::round(libm::ldexp(v.clamp(-1.0, 1.0), LEAF_BITS)) as i16;
        let rows = (0..count).flat_map(|sample| targets.iter().map(move |t| fixed(&t[sample])));
        let targets_of: Vec<i16> = rows.collect();
        let samples =
            Samples { columns: &columns, count, targets: &targets_of, outputs: targets.len() };
        let trees = (0..params.trees as u32).into_par_iter();
        let trees = trees.map(|tree| samples.grow(params, seed, tree)).collect();
        Self { outputs: targets.len(), trees }
    }

    /// The outputs for a patch.
    pub fn apply(&self, patch: &[i16]) -> Vec<f64> {
        let mut sums = vec![0i64; self.outputs];
        for tree in &self.trees {
            let leaf = tree.leaf(patch) * self.outputs;
            for (sum, &value) in sums.iter_mut().zip(&tree.leaves[leaf..]) {
                *sum += i64::from(value);
            }
        }
        let trees = self.trees.len() as f64;
        sums.iter().map(|&sum| libm::ldexp(sum as f64 / trees, -LEAF_BITS)).collect()
    }

    /// Whether its evaluation ends and stays within its tables and a patch of this length.
    pub fn is_valid(&self, length: usize) -> bool {
        let valid = |tree: &RegressionTree| {
            let leaves = tree.leaves.len() / self.outputs;
            let within = |(n, node): (usize, &RegressionNode)| {
                let next = node.next as usize;
                match node.value {
                    REGRESSION_LEAF => next < leaves,
                    value => usize::from(value) < length && next > n && next + 1 < tree.nodes.len(),
                }
            };
            leaves * self.outputs == tree.leaves.len()
                && !tree.nodes.is_empty()
                && tree.nodes.iter().enumerate().all(within)
        };
        self.outputs > 0 && !self.trees.is_empty() && self.trees.iter().all(valid)
    }
}

impl RegressionTree {
    /// The leaf that a patch arrives at.
    fn leaf(&self, patch: &[i16]) -> usize {
        let mut node = self.nodes[0];
        while node.value != REGRESSION_LEAF {
            let beyond = patch[usize::from(node.value)] > node.bound;
            node = self.nodes[node.next as usize + usize::from(beyond)];
        }
        node.next as usize
    }
}

/// What a forest learns from.
#[derive(Clone, Copy)]
struct Samples<'a> {
    /// `columns[value * count + sample]`: those of one value lie together, so that a node stays in the
    /// cache.
    columns: &'a [i16],
    count: usize,
    /// `targets[sample * outputs + output]`
    targets: &'a [i16],
    outputs: usize,
}

impl<'a> Samples<'a> {
    /// Breadth first, so that children lie side by side.
    fn grow(&self, params: &RegressionForestParams, seed: u64, tree: u32) -> RegressionTree {
        let mut samples: Vec<Vec<u32>> = vec![(0..self.count as u32).collect()];
        let mut grown = RegressionTree::default();
        let mut n = 0;
        while n < samples.len() {
            let own = std::mem::take(&mut samples[n]);
            let mut random = stream(seed, tree, n as u32);
            grown.nodes.push(match self.split(&own, params, &mut random) {
                Some((value, bound)) => {
                    let next = samples.len() as u32;
                    let column = self.column(value);
                    let (left, right) =
                        own.iter().partition(|&&sample| column[sample as usize] <= bound);
                    samples.extend([left, right]);
                    RegressionNode { value: value as u16, bound, next }
                }
                None => {
                    let next = (grown.leaves.len() / self.outputs) as u32;
                    let count = own.len() as i64;
                    let mean = |sum: &i64| (2 * sum + count).div_euclid(2 * count) as i16;
                    grown.leaves.extend(self.sums(own.iter().copied()).1.iter().map(mean));
                    RegressionNode { value: REGRESSION_LEAF, bound: 0, next }
                }
            });
            n += 1;
        }
        grown
    }

    /// One value of all samples.
    fn column(&self, value: u32) -> &'a [i16] {
        &self.columns[value as usize * self.count..][..self.count]
    }

    /// How many they are, and the sums of their targets by output.
    fn sums(&self, samples: impl Iterator<Item = u32>) -> (usize, Vec<i64>) {
        let (mut count, mut sums) = (0, vec![0; self.outputs]);
        for sample in samples {
            count += 1;
            let targets = &self.targets[sample as usize * self.outputs..];
            sums.iter_mut().zip(targets).for_each(|(sum, &target)| *sum += i64::from(target));
        }
        (count, sums)
    }

    /// The value and the bound that leave the least variance, of those drawn; of equals the first.
    /// `None` where too few samples are left, or no bound parts them.
    fn split(
        &self,
        own: &[u32],
        params: &RegressionForestParams,
        random: &mut ChaCha8Rng,
    ) -> Option<(u32, i16)> {
        if own.len() < 2 * params.min_leaf {
            return None;
        }
        let (_, totals) = self.sums(own.iter().copied());
        let length = self.columns.len() / self.count;
        let mut best: Option<(f64, u32, i16)> = None;
        for _ in 0..params.looks {
            let value = below(random, length as u64) as u32;
            let column = self.column(value);
            let values = own.iter().map(|&sample| column[sample as usize]);
            let (lowest, highest) =
                values.fold((i16::MAX, i16::MIN), |(l, h), v| (l.min(v), h.max(v)));
            let range = i64::from(highest) - i64::from(lowest);
            if range <= 0 {
                continue;
            }
            let bound = (i64::from(lowest) + below(random, range as u64) as i64) as i16;
            let left = own.iter().copied().filter(|&sample| column[sample as usize] <= bound);
            let (count, left) = self.sums(left);
            if count.min(own.len() - count) < params.min_leaf {
                continue;
            }
            // The sum of squares about the means is least where this is largest.
            let square = |sum: i64, count: usize| {
                let sum = sum as f64;
                sum * sum / count as f64
            };
            let gain = |(left, total): (&i64, &i64)| {
                square(*left, count) + square(total - left, own.len() - count)
            };
            let gain: f64 = left.iter().zip(&totals).map(gain).sum();
            if best.is_none_or(|(most, ..)| gain > most) {
                best = Some((gain, value, bound));
            }
        }
        best.map(|(_, value, bound)| (value, bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: usize = 6;
    const PARAMS: RegressionForestParams =
        RegressionForestParams { trees: 40, min_leaf: 5, looks: 5 };

    /// Values that are independent of each other.
    fn patches(count: usize, seed: u64) -> Vec<i16> {
        let mut random = stream(seed, 0, 0);
        (0..count * LENGTH).map(|_| below(&mut random, 4000) as i16 - 2000).collect()
    }

    /// A step in one value, and the product of two others: no line fits either.
    fn truth(patch: &[i16]) -> [f64; 2] {
        let step = if patch[1] > 300 { 0.5 } else { -0.25 };
        [step, f64::from(patch[2]) * f64::from(patch[4]) / 4e6]
    }

    fn grown(count: usize, params: &RegressionForestParams) -> RegressionForest {
        let samples = patches(count, 1);
        let targets: Vec<Vec<f64>> =
            (0..2).map(|o| samples.chunks(LENGTH).map(|p| truth(p)[o]).collect()).collect();
        RegressionForest::grow(&samples, LENGTH, &targets, params, 3)
    }

    #[test]
    fn what_no_line_fits_is_learned() {
        let forest = grown(4000, &PARAMS);
        assert!(forest.is_valid(LENGTH));
        let tests = patches(500, 2);
        let off = |o: usize| {
            let errors = tests.chunks(LENGTH).map(|p| (forest.apply(p)[o] - truth(p)[o]).powi(2));
            (errors.sum::<f64>() / 500.0).sqrt()
        };
        // Standard deviations of the targets: 0.37 and 0.33.
        assert!(off(0) < 0.08 && off(1) < 0.12, "{} {}", off(0), off(1));
    }

    #[test]
    fn leaves_hold_so_many_samples_and_all_arrive_at_one() {
        let forest = grown(300, &PARAMS);
        let samples = patches(300, 1);
        for tree in &forest.trees {
            let mut count = vec![0; tree.leaves.len() / 2];
            samples.chunks(LENGTH).for_each(|p| count[tree.leaf(p)] += 1);
            assert!(count.iter().all(|&n| n >= PARAMS.min_leaf), "{count:?}");
        }
    }

    #[test]
    fn any_number_of_threads_grows_the_same() {
        let of = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| grown(400, &PARAMS))
        };
        assert_eq!(of(1), of(3));
    }

    #[test]
    fn few_samples_or_equal_ones_make_one_leaf() {
        let patches = [7i16; 4 * LENGTH];
        let targets = [vec![0.5, 0.25, 0.5, 0.25]];
        let forest = RegressionForest::grow(&patches, LENGTH, &targets, &PARAMS, 0);
        assert!(forest.trees.iter().all(|tree| tree.nodes.len() == 1));
        assert!((forest.apply(&patches[..LENGTH])[0] - 0.375).abs() < 1e-4);
    }

    #[test]
    fn a_damaged_forest_is_not_valid() {
        let sound = grown(300, &PARAMS);
        let damaged = |harm: &dyn Fn(&mut RegressionTree)| {
            let mut forest = sound.clone();
            harm(&mut forest.trees[1]);
            forest.is_valid(LENGTH)
        };
        assert!(damaged(&|_| ()));
        assert!(!damaged(&|tree| tree.nodes[0].next = 0));
        assert!(!damaged(&|tree| tree.nodes[0].value = LENGTH as u16));
        assert!(!damaged(&|tree| tree.nodes.truncate(3)));
        assert!(!damaged(&|tree| tree.nodes.clear()));
        assert!(!damaged(&|tree| tree.leaves.truncate(2)));
        assert!(!damaged(&|tree| _ = tree.leaves.pop()));
    }
}
