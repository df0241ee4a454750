//! Boosted trees on the host: what the CPU's backend grows.
//!
//! A sample's slopes and its count are one number, so that it takes one addition to count it, and a
//! thread counts the same samples by several features at a time. Of two siblings the smaller one is
//! counted; the other is what is left of their parent.

use crate::label::booster::{BinTree, GrownNode, NodeTest, TreeTask};
use crate::label::edges::LABEL_BINS;
use crate::label::matrix::LabelMatrix;
use crate::label::slopes::{LEAST_FALL, slope, worth};
use crate::label::softmax::probabilities;
use rayon::prelude::*;

/// Features that a thread counts at a time.
const TOGETHER: usize = 4;

/// Samples whose packed slopes are added before the sums are unpacked: no field overflows.
const PACKED: usize = 1 << 11;
/// Where curvature and gradient begin in a packed number; the count comes first. A curvature is at most
/// 2¹², a gradient, raised by [`RAISE`], at most 2¹⁵.
const CURVE_SHIFT: u32 = 12;
const GRADIENT_SHIFT: u32 = 36;
/// What is added to gradients to make them positive.
const RAISE: i64 = 1 << 14;

fn packed([gradient, curve]: [i32; 2]) -> u64 {
    ((i64::from(gradient) + RAISE) as u64) << GRADIENT_SHIFT | (curve as u64) << CURVE_SHIFT | 1
}

/// Gradient, curvature and number of samples of a sum of packed numbers.
fn unpacked(sum: u64) -> ([i64; 2], u32) {
    let count = sum & ((1 << CURVE_SHIFT) - 1);
    let curve = sum >> CURVE_SHIFT & ((1 << (GRADIENT_SHIFT - CURVE_SHIFT)) - 1);
    let gradient = (sum >> GRADIENT_SHIFT) as i64 - count as i64 * RAISE;
    ([gradient, curve as i64], count as u32)
}

/// A matrix with the scores of its samples.
pub struct HostBoosting<'a> {
    matrix: &'a LabelMatrix,
    /// Classes but the background.
    others: usize,
    /// `[sample][class − 1]`.
    scores: Vec<i32>,
}

/// The samples of a node.
#[derive(Default)]
struct Samples {
    /// Which, in the order of the task.
    which: Vec<u32>,
    /// Their slopes, `[sample][class − 1]`.
    slopes: Vec<u64>,
    /// The sums of those, `[class − 1][2]`.
    sums: Vec<i64>,
}

/// Samples of a node by the bin of one feature.
#[derive(Clone)]
struct Histogram {
    counts: [u32; LABEL_BINS],
    /// Sums of slopes, `[bin][class − 1][2]`.
    sums: Vec<i64>,
}

impl Histogram {
    fn new(others: usize) -> Self {
        Self { counts: [0; LABEL_BINS], sums: vec![0; 2 * others * LABEL_BINS] }
    }

    /// Adds packed numbers, `[bin][class − 1]`, which become 0.
    fn take(&mut self, packed: &mut [u64]) {
        let others = packed.len() / LABEL_BINS;
        let bins = self.sums.chunks_exact_mut(2 * others).zip(packed.chunks_exact_mut(others));
        for (total, (sums, packed)) in self.counts.iter_mut().zip(bins) {
            *total += unpacked(packed[0]).1;
            for (sums, packed) in sums.chunks_exact_mut(2).zip(packed) {
                let ([gradient, curve], _) = unpacked(std::mem::take(packed));
                sums[0] += gradient;
                sums[1] += curve;
            }
        }
    }

    /// What is left of a node without one of its children.
    fn without(&self, child: &Self) -> Self {
        Self {
            counts: std::array::from_fn(|bin| self.counts[bin] - child.counts[bin]),
            sums: self.sums.iter().zip(&child.sums).map(|(all, own)| all - own).collect(),
        }
    }
}

/// A test, and twice how much the loss falls by it.
#[derive(Clone, Copy)]
struct Test {
    test: NodeTest,
    fall: f64,
}

/// Of each node the best test, and its histograms by feature.
type Level = (Vec<Option<Test>>, Vec<Vec<Histogram>>);

impl<'a> HostBoosting<'a> {
    /// All samples with the scores `start`.
    pub fn new(matrix: &'a LabelMatrix, start: &[i32]) -> Self {
        let count = matrix.labels().len() * start.len();
        let scores = start.iter().copied().cycle().take(count).collect();
        Self { matrix, others: start.len(), scores }
    }

    /// As [`LabelBooster::grow`](crate::LabelBooster::grow).
    pub fn grow(&self, task: &TreeTask<'_>) -> Vec<Vec<GrownNode>> {
        let mut open = vec![self.root(task.samples)];
        // Of the parents of the nodes that are open, pair by pair.
        let mut parents: Vec<Vec<Histogram>> = Vec::new();
        let mut levels = Vec::new();
        for level in 0..=task.depth {
            let (tests, histograms) = match level < task.depth {
                true => self.best_tests(&open, &parents, task, level + 1 < task.depth),
                false => (vec![None; open.len()], open.iter().map(|_| Vec::new()).collect()),
            };
            let part = |(node, test): (&Samples, &Option<Test>)| {
                test.map(|test| self.part(node, &test.test))
            };
            let parts: Vec<Option<[Samples; 2]>> = open.par_iter().zip(&tests).map(part).collect();
            let is_split = |(test, histograms): (&Option<Test>, Vec<Histogram>)| {
                test.as_ref().map(|_| histograms)
            };
            parents = tests.iter().zip(histograms).filter_map(is_split).collect();
            let grown = |(node, test): (Samples, Option<Test>)| GrownNode {
                sums: node.sums,
                test: test.map(|test| test.test),
            };
            levels.push(open.into_iter().zip(tests).map(grown).collect());
            open = parts.into_iter().flatten().flatten().collect();
            if open.is_empty() {
                break;
            }
        }
        levels
    }

    /// As [`LabelBooster::add`](crate::LabelBooster::add).
    pub fn add(&mut self, tree: &BinTree) {
        let (others, matrix) = (self.others, self.matrix);
        self.scores.par_chunks_exact_mut(others).enumerate().for_each(|(s, scores)| {
            let leaf = tree.leaf(|feature| matrix.row(feature)[s]);
            let steps = &tree.steps[leaf * others..][..others];
            scores.iter_mut().zip(steps).for_each(|(score, step)| *score += step);
        });
    }

    /// The samples of a tree with their slopes.
    fn root(&self, which: &[u32]) -> Samples {
        let others = self.others;
        let mut slopes = vec![0; which.len() * others];
        let slopes_of = |(slopes, which): (&mut [u64], &[u32])| {
            let (mut shares, mut sums) = (vec![0; others + 1], vec![0; 2 * others]);
            for (slopes, &s) in slopes.chunks_exact_mut(others).zip(which) {
                let scores = &self.scores[s as usize * others..][..others];
                probabilities(scores.iter().map(|&score| i64::from(score)), &mut shares);
                let label = usize::from(self.matrix.labels()[s as usize]);
                for (c, slot) in slopes.iter_mut().enumerate() {
                    let own = slope(shares[c + 1], label == c + 1);
                    *slot = packed(own);
                    sums[2 * c] += i64::from(own[0]);
                    sums[2 * c + 1] += i64::from(own[1]);
                }
            }
            sums
        };
        let plus = |mut a: Vec<i64>, b: Vec<i64>| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            a
        };
        let chunks = slopes.par_chunks_mut(1024 * others).zip(which.par_chunks(1024));
        let sums = chunks.map(slopes_of).reduce(|| vec![0; 2 * others], plus);
        Samples { which: which.to_vec(), slopes, sums }
    }

    /// The best test of each node, and its histograms where they are `kept`. Nodes but the root are
    /// pairs of siblings.
    fn best_tests(
        &self,
        open: &[Samples],
        parents: &[Vec<Histogram>],
        task: &TreeTask<'_>,
        kept: bool,
    ) -> Level {
        let family = if parents.is_empty() { 1 } else { 2 };
        // All nodes by the same features one after the other: those are then in the cache.
        let tasks: Vec<(usize, usize)> = (0..task.features.len())
            .step_by(TOGETHER)
            .flat_map(|f| (0..open.len() / family).map(move |family| (f, family)))
            .collect();
        let of_task = |&(first, number): &(usize, usize)| {
            let last = (first + TOGETHER).min(task.features.len());
            let features = &task.features[first..last];
            let nodes = &open[number * family..][..family];
            let histograms: Vec<Vec<Histogram>> = match nodes {
                [a, b] => {
                    let of_parents = &parents[number][first..last];
                    let is_first = a.which.len() <= b.which.len();
                    let smaller = self.histograms(if is_first { a } else { b }, features);
                    let pairs = of_parents.iter().zip(&smaller);
                    let larger = pairs.map(|(parent, own)| parent.without(own)).collect();
                    if is_first { vec![smaller, larger] } else { vec![larger, smaller] }
                }
                _ => vec![self.histograms(&nodes[0], features)],
            };
            let tests: Vec<Option<Test>> = nodes
                .iter()
                .zip(&histograms)
                .map(|(node, histograms)| {
                    let all = features.iter().zip(histograms);
                    let all = all.filter_map(|(&f, of)| self.best_test(node, of, f, task));
                    all.reduce(better)
                })
                .collect();
            (tests, if kept { histograms } else { Vec::new() })
        };
        let found: Vec<Level> = tasks.par_iter().map(of_task).collect();
        let mut best: Vec<Option<Test>> = vec![None; open.len()];
        let mut all: Vec<Vec<Histogram>> =
            open.iter().map(|_| Vec::with_capacity(task.features.len())).collect();
        for ((_, number), (tests, histograms)) in tasks.into_iter().zip(found) {
            for (n, test) in tests.into_iter().enumerate() {
                let best = &mut best[number * family + n];
                *best = match (*best, test) {
                    (Some(before), Some(test)) => Some(better(before, test)),
                    (before, test) => before.or(test),
                };
            }
            for (n, histograms) in histograms.into_iter().enumerate() {
                all[number * family + n].extend(histograms);
            }
        }
        (best, all)
    }

    fn best_test(
        &self,
        node: &Samples,
        histogram: &Histogram,
        feature: u32,
        task: &TreeTask<'_>,
    ) -> Option<Test> {
        let n = node.which.len() as u32;
        if n < 2 * task.min_leaf {
            return None;
        }
        let width = 2 * self.others;
        let before = worth(&node.sums, task.ridge);
        let (mut left, mut right) = (vec![0; width], node.sums.clone());
        let mut count = 0;
        let mut best: Option<Test> = None;
        for last in 0..self.matrix.edges(feature).bins() {
            let here = histogram.counts[last];
            if here == 0 {
                continue;
            }
            count += here;
            let sums = &histogram.sums[last * width..][..width];
            for ((left, right), &here) in left.iter_mut().zip(&mut right).zip(sums) {
                *left += here;
                *right -= here;
            }
            if count < task.min_leaf {
                continue;
            }
            if n - count < task.min_leaf {
                break;
            }
            let fall = worth(&left, task.ridge) + worth(&right, task.ridge) - before;
            if fall > best.map_or(LEAST_FALL, |best| best.fall) {
                best = Some(Test { test: NodeTest { feature, last: last as u8 }, fall });
            }
        }
        best
    }

    /// Histograms of a node by a few features.
    fn histograms(&self, node: &Samples, features: &[u32]) -> Vec<Histogram> {
        match (self.others, features) {
            (1, &[a, b, c, d]) => self.counted::<1, 4>(node, [a, b, c, d]),
            (2, &[a, b, c, d]) => self.counted::<2, 4>(node, [a, b, c, d]),
            (1, _) => features.iter().flat_map(|&f| self.counted::<1, 1>(node, [f])).collect(),
            (2, _) => features.iter().flat_map(|&f| self.counted::<2, 1>(node, [f])).collect(),
            _ => features.iter().map(|&f| self.counted_wide(node, f)).collect(),
        }
    }

    fn counted<const OTHERS: usize, const FEATURES: usize>(
        &self,
        node: &Samples,
        features: [u32; FEATURES],
    ) -> Vec<Histogram> {
        let n = self.matrix.labels().len();
        let rows = features.map(|feature| &self.matrix.row(feature)[..n]);
        let mut sums = [[[0u64; OTHERS]; LABEL_BINS]; FEATURES];
        let mut all = vec![Histogram::new(OTHERS); FEATURES];
        let (slopes, _) = node.slopes.as_chunks::<OTHERS>();
        for (which, slopes) in node.which.chunks(PACKED).zip(slopes.chunks(PACKED)) {
            for (&s, slopes) in which.iter().zip(slopes) {
                for (sums, row) in sums.iter_mut().zip(&rows) {
                    // Bins are below 64; the remainder saves a test of bounds.
                    let sums = &mut sums[usize::from(row[s as usize]) % LABEL_BINS];
                    sums.iter_mut().zip(slopes).for_each(|(sum, slope)| *sum += slope);
                }
            }
            for (all, sums) in all.iter_mut().zip(&mut sums) {
                all.take(sums.as_flattened_mut());
            }
        }
        all
    }

    fn counted_wide(&self, node: &Samples, feature: u32) -> Histogram {
        let others = self.others;
        let row = self.matrix.row(feature);
        let mut sums = vec![0u64; LABEL_BINS * others];
        let mut all = Histogram::new(others);
        let parts = node.which.chunks(PACKED).zip(node.slopes.chunks(PACKED * others));
        for (which, slopes) in parts {
            for (&s, slopes) in which.iter().zip(slopes.chunks_exact(others)) {
                let bin = usize::from(row[s as usize]) % LABEL_BINS;
                let sums = &mut sums[bin * others..][..others];
                sums.iter_mut().zip(slopes).for_each(|(sum, slope)| *sum += slope);
            }
            all.take(&mut sums);
        }
        all
    }

    /// The samples of a node's children.
    fn part(&self, node: &Samples, test: &NodeTest) -> [Samples; 2] {
        let (others, row) = (self.others, self.matrix.row(test.feature));
        let n = node.which.len();
        // Written on both sides and kept on one: which side is hard to foresee.
        let mut which = [vec![0; n], vec![0; n]];
        let mut slopes = [vec![0; n * others], vec![0; n * others]];
        let mut counts = [0; 2];
        for (&s, own) in node.which.iter().zip(node.slopes.chunks_exact(others)) {
            for side in 0..2 {
                which[side][counts[side]] = s;
                slopes[side][counts[side] * others..][..others].copy_from_slice(own);
            }
            let right = usize::from(row[s as usize] > test.last);
            counts[0] += 1 - right;
            counts[1] += right;
        }
        let mut sides = which.into_iter().zip(slopes).zip(counts);
        let mut side = || {
            let ((mut which, mut slopes), count) = sides.next().unwrap_or_default();
            which.truncate(count);
            slopes.truncate(count * others);
            Samples { which, slopes, sums: vec![0; 2 * others] }
        };
        let (mut left, mut right) = (side(), side());
        for slopes in left.slopes.chunks_exact(others) {
            for (sums, &slope) in left.sums.chunks_exact_mut(2).zip(slopes) {
                let ([gradient, curve], _) = unpacked(slope);
                sums[0] += gradient;
                sums[1] += curve;
            }
        }
        let rest = node.sums.iter().zip(&left.sums).map(|(all, left)| all - left);
        right.sums = rest.collect();
        [left, right]
    }
}

/// The better of two tests of one node, given in the order of the features: of equals the first.
fn better(before: Test, later: Test) -> Test {
    if later.fall > before.fall { later } else { before }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::test_boosting::matrix;
    use proptest::prelude::*;

    fn task<'a>(samples: &'a [u32], min_leaf: u32) -> TreeTask<'a> {
        TreeTask { features: &[0, 1, 2, 3, 4], samples, depth: 3, min_leaf, ridge: 1.0 }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn packed_slopes_add_up(slopes in prop::collection::vec((-16384i32..=16384, 1i32..=4096), 1..=PACKED)) {
            let sum = slopes.iter().map(|&(g, h)| packed([g, h])).sum();
            let gradient = slopes.iter().map(|s| i64::from(s.0)).sum();
            let curve = slopes.iter().map(|s| i64::from(s.1)).sum();
            prop_assert_eq!(unpacked(sum), ([gradient, curve], slopes.len() as u32));
        }

        /// From the definition, test by test.
        #[test]
        fn the_best_test_gains_most(seed in any::<u64>(), classes in 2usize..5, samples in 30usize..200) {
            let matrix = matrix(samples, classes, seed);
            let boosting = HostBoosting::new(&matrix, &vec![0; classes - 1]);
            let all: Vec<u32> = (0..samples as u32).collect();
            let worth = |side: &[u32]| worth(&boosting.root(side).sums, 1.0);
            let (found, _) = boosting.best_tests(&[boosting.root(&all)], &[], &task(&all, 3), true);
            let mut best = 0.0f64;
            for feature in 0..5 {
                for last in 0..matrix.edges(feature).bins() as u8 {
                    let goes_left = |s: &u32| matrix.row(feature)[*s as usize] <= last;
                    let (left, right): (Vec<u32>, Vec<u32>) = all.iter().partition(|s| goes_left(s));
                    if left.len() >= 3 && right.len() >= 3 {
                        best = best.max(worth(&left) + worth(&right) - worth(&all));
                    }
                }
            }
            let fall = found[0].map_or(0.0, |test| test.fall);
            prop_assert!((fall - best).abs() < 1e-5, "{fall} {best}");
        }

        /// A child that is what is left of its parent is as if it was counted, whichever way samples are
        /// counted and parted.
        #[test]
        fn siblings_need_one_count(seed in any::<u64>(), classes in 2usize..5) {
            let matrix = matrix(5000, classes, seed);
            let boosting = HostBoosting::new(&matrix, &vec![100; classes - 1]);
            let all: Vec<u32> = (0..5000).collect();
            let root = boosting.root(&all);
            let [left, right] = boosting.part(&root, &NodeTest { feature: 1, last: 20 });
            let of = |node: &Samples| boosting.histograms(node, &[2])[0].clone();
            let rest = of(&root).without(&of(&left));
            let counted = of(&right);
            prop_assert_eq!(rest.counts, counted.counts);
            prop_assert_eq!(rest.sums, counted.sums);
            prop_assert_eq!(&boosting.root(&right.which).sums, &right.sums);
            prop_assert_eq!(&boosting.root(&left.which).sums, &left.sums);
            let together = boosting.histograms(&root, &[0, 1, 2, 3]);
            prop_assert_eq!(&together[2].sums, &of(&root).sums);
            prop_assert_eq!(&boosting.counted_wide(&root, 2).sums, &of(&root).sums);
        }
    }
}
