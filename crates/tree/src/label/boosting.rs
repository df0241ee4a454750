//! Gradient boosting of trees with a score of every class in each leaf (Friedman 2001; vectors in the
//! leaves as in Zhang and Jung 2021, GBDT-MO), on the bins that forests grow on.
//!
//! Scores, gradients and curvatures are integers, so that sums do not depend on their order; what is
//! computed from the sums in floating point is computed by one thread. The background has the score
//! 0: the others are relative to it.

use crate::draw::{stream, subset};
use crate::grow::{TrainError, in_range};
use crate::label::edges::LABEL_BINS;
use crate::label::forest::{LEAF, LabelNode, LabelTree, SCORE_BITS, SCORE_ZERO, probabilities};
use crate::label::gain::MOST_LABEL_SAMPLES;
use crate::label::leaves::LEAF_ONE;
use crate::label::matrix::LabelMatrix;
use crate::node::MAX_DEPTH;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// How trees are boosted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LabelBoostParams {
    /// Number of trees, one after the other.
    pub trees: usize,
    /// Largest number of levels of inner nodes.
    pub depth: usize,
    /// Fewest training samples on either side of a split.
    pub min_leaf: u32,
    /// Share of the features that a tree looks at.
    pub features_per_tree: f64,
    /// Share of the samples that a tree grows on.
    pub samples_per_tree: f64,
    /// Share of each tree's step that is taken.
    pub shrinkage: f64,
    /// Added to the sum of curvatures: holds back small leaves.
    pub ridge: f64,
}

impl Default for LabelBoostParams {
    fn default() -> Self {
        Self {
            trees: 150,
            depth: 5,
            min_leaf: 20,
            features_per_tree: 0.2,
            samples_per_tree: 0.5,
            shrinkage: 0.1,
            ridge: 1.0,
        }
    }
}

impl LabelBoostParams {
    /// Checks every parameter.
    ///
    /// # Errors
    /// [`TrainError::Parameter`] with the first that is outside its range.
    pub fn check(&self) -> Result<(), TrainError> {
        in_range("trees", self.trees as f64, 1.0, 2048.0, "1 to 2048")?;
        in_range("depth", self.depth as f64, 0.0, MAX_DEPTH as f64, "0 to 24")?;
        in_range("min_leaf", f64::from(self.min_leaf), 1.0, 1e6, "1 to 1000000")?;
        in_range("features_per_tree", self.features_per_tree, 0.0, 1.0, "0 to 1")?;
        in_range("samples_per_tree", self.samples_per_tree, 0.0, 1.0, "0 to 1")?;
        in_range("shrinkage", self.shrinkage, 1e-3, 1.0, "0.001 to 1")?;
        in_range("ridge", self.ridge, 0.0, 1e6, "0 to 1000000")
    }
}

/// Fractional bits of gradients and curvatures.
const SLOPE_BITS: u32 = 14;

/// A gain of less than this is rounding and counts as none.
const LEAST_GAIN: f64 = 1e-6;

/// Grows the trees. `tick` is told of every tree that is done and says whether to go on; the trees
/// so far are given back where not.
///
/// # Errors
/// [`TrainError`] when a parameter is out of range, there are no samples or features or too many.
pub fn boost_labels(
    matrix: &LabelMatrix,
    params: &LabelBoostParams,
    seed: u64,
    mut tick: impl FnMut() -> bool,
) -> Result<Vec<LabelTree>, TrainError> {
    params.check()?;
    let count = matrix.labels().len();
    if matrix.features() == 0 {
        return Err(TrainError::NoFeatures);
    }
    if count == 0 {
        return Err(TrainError::NoSamples("labelled"));
    }
    if count > MOST_LABEL_SAMPLES {
        let what = "most samples";
        return Err(TrainError::Count { what, found: count, expected: MOST_LABEL_SAMPLES });
    }
    let mut boosting = Boosting::new(matrix, params, seed);
    let mut trees = Vec::with_capacity(params.trees);
    for tree in 0..params.trees as u32 {
        trees.push(boosting.grow(tree));
        if !tick() {
            break;
        }
    }
    Ok(trees)
}

/// Moves the score of each class but the background, by so many nats, wherever a sample arrives.
/// Trees that learned from other shares of the classes than there are in images need the logarithms
/// of the ratios.
pub fn shift_scores(trees: &mut [LabelTree], nats: &[f64]) {
    // The first tree takes a shift as it takes the scores before all trees.
    let Some(first) = trees.first_mut() else { return };
    let most = i32::from(u16::MAX);
    for leaf in first.leaves.chunks_exact_mut(nats.len() + 1) {
        for (score, &nats) in leaf[1..].iter_mut().zip(nats) {
            *score = (i32::from(*score) + fixed(nats)).clamp(0, most) as u16;
        }
    }
}

struct Boosting<'a> {
    matrix: &'a LabelMatrix,
    params: &'a LabelBoostParams,
    seed: u64,
    /// Classes but the background.
    others: usize,
    /// `[sample][class − 1]`, [`SCORE_BITS`] fractional bits.
    scores: Vec<i32>,
    /// Gradient and curvature of the loss by score, `[sample][class − 1][2]`.
    slopes: Vec<i16>,
    /// Scores before the first tree, nats.
    start: Vec<f64>,
}

/// The samples of a node.
struct Samples {
    /// Which, rising.
    which: Vec<u32>,
    /// Of their slopes, `[class − 1][2]`.
    sums: Vec<i64>,
}

/// A node whose samples are known.
struct Open {
    node: usize,
    samples: Samples,
}

/// Samples of a node by the bin of one feature.
struct Histogram {
    counts: [u32; LABEL_BINS],
    /// Sums of slopes, `[bin][class − 1][2]`.
    sums: Vec<i64>,
}

impl Histogram {
    /// What is left of a node without one of its children.
    fn without(&self, child: &Self) -> Self {
        Self {
            counts: std::array::from_fn(|bin| self.counts[bin] - child.counts[bin]),
            sums: self.sums.iter().zip(&child.sums).map(|(all, own)| all - own).collect(),
        }
    }
}

/// A test and what it gains.
#[derive(Clone, Copy)]
struct Test {
    feature: u32,
    last: u8,
    gain: f64,
}

/// A tree under way: beside the nodes, the last bin on the left of each.
struct Growing {
    tree: LabelTree,
    last_bins: Vec<u8>,
}

impl<'a> Boosting<'a> {
    /// Starts from the logarithms of the classes' shares.
    fn new(matrix: &'a LabelMatrix, params: &'a LabelBoostParams, seed: u64) -> Self {
        let others = matrix.classes() - 1;
        let mut counts = vec![0.5; matrix.classes()];
        matrix.labels().iter().for_each(|&label| counts[usize::from(label)] += 1.0);
        let start: Vec<f64> =
            counts[1..].iter().map(|n| libm::log(n / counts[0]).clamp(-8.0, 8.0)).collect();
        let n = matrix.labels().len();
        let first: Vec<i32> = start.iter().map(|&s| fixed(s)).collect();
        let scores = first.iter().copied().cycle().take(n * others).collect();
        Self { matrix, params, seed, others, scores, slopes: vec![0; 2 * n * others], start }
    }

    fn grow(&mut self, number: u32) -> LabelTree {
        self.measure_slopes();
        let n = self.matrix.labels().len();
        let mut random = stream(self.seed, number, 0);
        let features = subset(self.matrix.features(), self.params.features_per_tree, &mut random);
        let pairs = n / self.matrix.copies();
        let drawn = subset(pairs, self.params.samples_per_tree, &mut random);
        let copies = 0..self.matrix.copies() as u32;
        let samples = copies.flat_map(|copy| drawn.iter().map(move |&s| copy * pairs as u32 + s));
        let samples = samples.collect();
        let unsettled = LabelNode { feature: LEAF, next: 0, low: 0, high: 0 };
        let mut growing = Growing {
            tree: LabelTree { nodes: vec![unsettled], leaves: Vec::new() },
            last_bins: vec![0],
        };
        let mut open = vec![Open { node: 0, samples: self.samples(samples) }];
        // Of the parents of the nodes that are open, pair by pair.
        let mut parents: Vec<Vec<Histogram>> = Vec::new();
        for level in 0..=self.params.depth {
            let (tests, histograms) = match level < self.params.depth {
                true => self.best_tests(&open, &parents, &features),
                false => (vec![None; open.len()], open.iter().map(|_| Vec::new()).collect()),
            };
            let parts: Vec<Option<[Samples; 2]>> = open
                .par_iter()
                .zip(&tests)
                .map(|(node, test)| test.as_ref().map(|test| self.part(&node.samples, test)))
                .collect();
            let mut next = Vec::new();
            parents = Vec::new();
            let nodes = open.into_iter().zip(tests).zip(parts).zip(histograms);
            for (((node, test), parts), histograms) in nodes {
                match test.zip(parts) {
                    Some((test, parts)) => {
                        let child = self.split(&mut growing, node.node, &test);
                        let opened = parts.into_iter().enumerate();
                        next.extend(opened.map(|(n, samples)| Open { node: child + n, samples }));
                        parents.push(histograms);
                    }
                    None => self.settle(&mut growing, &node, number == 0),
                }
            }
            open = next;
        }
        self.add(&growing, number == 0);
        growing.tree
    }

    /// Gradient and curvature of the cross-entropy of every sample: p − y and p·(1 − p).
    fn measure_slopes(&mut self) {
        let others = self.others;
        let one = f64::from(1 << SLOPE_BITS) / f64::from(LEAF_ONE);
        let labels = self.matrix.labels().par_chunks(1024);
        let scores = self.scores.par_chunks(1024 * others);
        self.slopes.par_chunks_mut(2048 * others).zip(scores).zip(labels).for_each(
            |((slopes, scores), labels)| {
                let mut shares = vec![0; others + 1];
                let samples = slopes.chunks_exact_mut(2 * others).zip(scores.chunks_exact(others));
                for ((slopes, scores), &label) in samples.zip(labels) {
                    probabilities(scores.iter().map(|&s| i64::from(s)), &mut shares);
                    for (c, slope) in slopes.chunks_exact_mut(2).enumerate() {
                        let p = f64::from(shares[c + 1]) * one;
                        let y = if usize::from(label) == c + 1 { 1 << SLOPE_BITS } else { 0 };
                        slope[0] = libm::round(p - f64::from(y)) as i16;
                        let curve = p * (1.0 - p / f64::from(1 << SLOPE_BITS));
                        slope[1] = libm::round(curve).max(1.0) as i16;
                    }
                }
            },
        );
    }

    fn samples(&self, which: Vec<u32>) -> Samples {
        let width = 2 * self.others;
        let mut sums = vec![0; width];
        for &s in &which {
            let slopes = &self.slopes[s as usize * width..][..width];
            sums.iter_mut().zip(slopes).for_each(|(sum, &v)| *sum += i64::from(v));
        }
        Samples { which, sums }
    }

    /// The best test of each node, of equals that on the lower feature, then the one that ends lower;
    /// and the histograms of the nodes. Nodes but the first are pairs of siblings: of each pair the
    /// smaller one is counted, and the other is what is left of the parent.
    fn best_tests(
        &self,
        open: &[Open],
        parents: &[Vec<Histogram>],
        features: &[u32],
    ) -> (Vec<Option<Test>>, Vec<Vec<Histogram>>) {
        let family = if parents.is_empty() { 1 } else { 2 };
        let tasks: Vec<(usize, usize)> = (0..open.len() / family)
            .flat_map(|pair| (0..features.len()).map(move |f| (pair, f)))
            .collect();
        let of_task = |&(pair, f): &(usize, usize)| {
            let nodes = &open[pair * family..][..family];
            let feature = features[f];
            let histograms = match nodes {
                [a, b] => {
                    let parent = &parents[pair][f];
                    if a.samples.which.len() <= b.samples.which.len() {
                        let own = self.histogram(&a.samples.which, feature);
                        let other = parent.without(&own);
                        vec![own, other]
                    } else {
                        let own = self.histogram(&b.samples.which, feature);
                        vec![parent.without(&own), own]
                    }
                }
                _ => vec![self.histogram(&nodes[0].samples.which, feature)],
            };
            let tests: Vec<Option<Test>> = nodes
                .iter()
                .zip(&histograms)
                .map(|(node, histogram)| self.best_test(&node.samples, histogram, feature))
                .collect();
            (tests, histograms)
        };
        let found: Vec<(Vec<Option<Test>>, Vec<Histogram>)> =
            tasks.par_iter().map(of_task).collect();
        let mut best: Vec<Option<Test>> = vec![None; open.len()];
        let mut all: Vec<Vec<Histogram>> =
            open.iter().map(|_| Vec::with_capacity(features.len())).collect();
        for ((pair, _), (tests, histograms)) in tasks.into_iter().zip(found) {
            for (n, (test, histogram)) in tests.into_iter().zip(histograms).enumerate() {
                let node = pair * family + n;
                let better = |test: &Test| best[node].is_none_or(|b| test.gain > b.gain);
                if let Some(test) = test.filter(better) {
                    best[node] = Some(test);
                }
                all[node].push(histogram);
            }
        }
        (best, all)
    }

    fn best_test(&self, node: &Samples, histogram: &Histogram, feature: u32) -> Option<Test> {
        if node.which.len() < 2 * self.params.min_leaf as usize {
            return None;
        }
        let width = 2 * self.others;
        let before = self.worth(&node.sums);
        let n = node.which.len() as u32;
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
            if count < self.params.min_leaf {
                continue;
            }
            if n - count < self.params.min_leaf {
                break;
            }
            let gain = self.worth(&left) + self.worth(&right) - before;
            if gain > best.map_or(LEAST_GAIN, |test| test.gain) {
                best = Some(Test { feature, last: last as u8, gain });
            }
        }
        best
    }

    fn histogram(&self, samples: &[u32], feature: u32) -> Histogram {
        match self.others {
            1 => self.narrow_histogram::<2>(samples, feature),
            2 => self.narrow_histogram::<4>(samples, feature),
            _ => self.wide_histogram(samples, feature),
        }
    }

    fn narrow_histogram<const WIDTH: usize>(&self, samples: &[u32], feature: u32) -> Histogram {
        let row = self.matrix.row(feature);
        let (slopes, _) = self.slopes.as_chunks::<WIDTH>();
        let mut counts = [0u32; LABEL_BINS];
        let mut sums = [[0i64; WIDTH]; LABEL_BINS];
        for &s in samples {
            // Bins are below 64; the mask saves a test of bounds.
            let bin = usize::from(row[s as usize]) % LABEL_BINS;
            counts[bin] += 1;
            let slopes = &slopes[s as usize];
            for (sum, &slope) in sums[bin].iter_mut().zip(slopes) {
                *sum += i64::from(slope);
            }
        }
        Histogram { counts, sums: sums.as_flattened().to_vec() }
    }

    fn wide_histogram(&self, samples: &[u32], feature: u32) -> Histogram {
        let width = 2 * self.others;
        let row = self.matrix.row(feature);
        let mut counts = [0u32; LABEL_BINS];
        let mut sums = vec![0i64; width * LABEL_BINS];
        for &s in samples {
            let bin = usize::from(row[s as usize]) % LABEL_BINS;
            counts[bin] += 1;
            let slopes = &self.slopes[s as usize * width..][..width];
            let sums = &mut sums[bin * width..][..width];
            sums.iter_mut().zip(slopes).for_each(|(sum, &slope)| *sum += i64::from(slope));
        }
        Histogram { counts, sums }
    }

    /// Twice how much the loss falls by the best scores of a leaf with these sums, nats: Σ G²/(H + λ).
    fn worth(&self, sums: &[i64]) -> f64 {
        let one = f64::from(1 << SLOPE_BITS);
        let of = |pair: &[i64]| {
            let (gradient, curve) = (pair[0] as f64 / one, pair[1] as f64 / one);
            gradient * gradient / (curve + self.params.ridge)
        };
        sums.chunks_exact(2).map(of).sum()
    }

    /// The samples of a node's children.
    fn part(&self, node: &Samples, test: &Test) -> [Samples; 2] {
        let row = self.matrix.row(test.feature);
        let (left, right): (Vec<u32>, Vec<u32>) =
            node.which.iter().partition(|&&s| row[s as usize] <= test.last);
        [self.samples(left), self.samples(right)]
    }

    /// Gives a node its test, and the place of the first of its two children.
    fn split(&self, growing: &mut Growing, node: usize, test: &Test) -> usize {
        let [low, high] = self.matrix.edges(test.feature).range(0, usize::from(test.last));
        let child = growing.tree.nodes.len();
        growing.tree.nodes[node] =
            LabelNode { feature: test.feature, next: child as u32, low, high };
        growing.last_bins[node] = test.last;
        let unsettled = LabelNode { feature: LEAF, next: 0, low: 0, high: 0 };
        growing.tree.nodes.extend([unsettled; 2]);
        growing.last_bins.extend([0; 2]);
        child
    }

    /// The step of a leaf, −G/(H + λ) of each class; the first tree begins from the start.
    fn settle(&self, growing: &mut Growing, node: &Open, first: bool) {
        let leaf = (growing.tree.leaves.len() / (self.others + 1)) as u32;
        growing.tree.nodes[node.node] = LabelNode { feature: LEAF, next: leaf, low: 0, high: 0 };
        let one = f64::from(1 << SLOPE_BITS);
        growing.tree.leaves.push(SCORE_ZERO as u16);
        for (pair, start) in node.samples.sums.chunks_exact(2).zip(&self.start) {
            let curve = pair[1] as f64 / one + self.params.ridge;
            // Without curvature and ridge there is nothing to step on.
            let step = if curve > 0.0 { -(pair[0] as f64 / one) / curve } else { 0.0 };
            let value = self.params.shrinkage * step + if first { *start } else { 0.0 };
            let most = SCORE_ZERO - 1;
            growing.tree.leaves.push((SCORE_ZERO + fixed(value).clamp(-most, most)) as u16);
        }
    }

    /// Adds a tree to the scores of all samples.
    fn add(&mut self, growing: &Growing, first: bool) {
        let (others, matrix) = (self.others, self.matrix);
        let start: Vec<i32> =
            self.start.iter().map(|&s| if first { fixed(s) } else { 0 }).collect();
        self.scores.par_chunks_exact_mut(others).enumerate().for_each(|(s, scores)| {
            let mut at = 0;
            let leaf = loop {
                let node = &growing.tree.nodes[at];
                if node.feature == LEAF {
                    break node.next as usize;
                }
                let left = matrix.row(node.feature)[s] <= growing.last_bins[at];
                at = node.next as usize + usize::from(!left);
            };
            let values = &growing.tree.leaves[leaf * (others + 1) + 1..][..others];
            for ((score, &value), start) in scores.iter_mut().zip(values).zip(&start) {
                *score += i32::from(value) - SCORE_ZERO - start;
            }
        });
    }
}

/// A score in units of 2⁻[`SCORE_BITS`].
fn fixed(nats: f64) -> i32 {
    libm::round(nats * f64::from(1 << SCORE_BITS)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::edges::{Edges, MISSING_BIN};
    use crate::label::forest::{LabelForest, Vote};
    use pbt_features::{BoxMeanFeature, MeanBox};
    use proptest::prelude::*;

    /// Samples whose class follows from two features together, with some that are missing.
    fn matrix(samples: usize, classes: usize, seed: u64) -> LabelMatrix {
        let mut random = stream(seed, 0, 0);
        let mut draw = |n: u64| crate::draw::below(&mut random, n) as i64;
        let responses: Vec<Vec<i64>> =
            (0..5).map(|_| (0..samples).map(|_| draw(1000)).collect()).collect();
        let class = |s: usize, noise: i64| {
            let high = |f: usize| usize::from(responses[f][s] > 500);
            // Neither feature alone says anything.
            let class = if noise == 0 { 0 } else { high(0) ^ high(1) };
            (class + if class > 0 { high(2) * (classes - 2).min(1) } else { 0 }) as u8
        };
        let labels: Vec<u8> = (0..samples).map(|s| class(s, draw(10))).collect();
        let edges: Vec<Edges> = responses.iter().cloned().map(Edges::of_responses).collect();
        let mut bins = Vec::new();
        for (edges, responses) in edges.iter().zip(&responses) {
            let bin = |&r: &i64| if r % 97 == 0 { MISSING_BIN } else { edges.bin(r) };
            bins.extend(responses.iter().map(bin));
        }
        LabelMatrix::new(classes, labels, edges, bins)
    }

    fn params() -> LabelBoostParams {
        LabelBoostParams {
            trees: 30,
            depth: 3,
            min_leaf: 5,
            features_per_tree: 0.8,
            ..LabelBoostParams::default()
        }
    }

    fn boosted(matrix: &LabelMatrix, params: &LabelBoostParams) -> LabelForest {
        let trees = boost_labels(matrix, params, 3, || true).unwrap();
        let feature = |n: usize| {
            let first = MeanBox { min: [n as i16, 0, 0], size: [1; 3], channel: 0 };
            BoxMeanFeature { first, second: None }
        };
        let features = (0..matrix.features()).map(feature).collect();
        let forest = LabelForest { classes: matrix.classes(), vote: Vote::Scores, features, trees };
        assert_eq!(forest.fault(1), None);
        forest
    }

    /// The forest's shares of a sample, from a response in the middle of each bin.
    fn shares(forest: &LabelForest, matrix: &LabelMatrix, sample: usize) -> Vec<u32> {
        let response = |feature: u32| {
            let bin = matrix.row(feature)[sample];
            match bin {
                MISSING_BIN => pbt_features::MISSING,
                _ => matrix.edges(feature).range(usize::from(bin), usize::from(bin))[0],
            }
        };
        let mut sums = vec![0; forest.classes];
        forest.distribution(response, &mut sums);
        forest.shares(&mut sums);
        sums
    }

    #[test]
    fn what_two_features_say_together_is_learned() {
        for classes in [2, 3, 5] {
            let matrix = matrix(2000, classes, 7);
            let forest = boosted(&matrix, &params());
            let (mut right, mut loss) = (0, 0.0);
            for sample in 0..2000 {
                let shares = shares(&forest, &matrix, sample);
                assert_eq!(shares.iter().sum::<u32>(), LEAF_ONE);
                let class = usize::from(matrix.labels()[sample]);
                let best = (0..classes).max_by_key(|&c| shares[c]).unwrap();
                right += usize::from(best == class);
                loss -= (f64::from(shares[class].max(1)) / f64::from(LEAF_ONE)).ln();
            }
            // A tenth of the labels is noise.
            assert!(right > 1800, "{classes}: {right}");
            assert!(loss < 0.5 * 2000.0, "{classes}: {loss}");
        }
    }

    #[test]
    fn without_splits_shares_are_those_of_the_classes() {
        let matrix = matrix(1000, 3, 1);
        let forest = boosted(&matrix, &LabelBoostParams { depth: 0, ..params() });
        let found = shares(&forest, &matrix, 0);
        for (class, &share) in found.iter().enumerate() {
            let count = matrix.labels().iter().filter(|&&l| usize::from(l) == class).count();
            let expected = count as f64 / 1000.0 * f64::from(LEAF_ONE);
            // Each tree steps by what its own half of the samples says.
            assert!((f64::from(share) / expected - 1.0).abs() < 0.1, "{class}: {share} {expected}");
        }
    }

    #[test]
    fn threads_do_not_show() {
        let matrix = matrix(3000, 3, 4);
        let of = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| boosted(&matrix, &params()))
        };
        assert_eq!(of(1), of(3));
    }

    #[test]
    fn a_tick_may_end_it() {
        let mut left = 3;
        let trees = boost_labels(&matrix(200, 2, 5), &params(), 0, || {
            left -= 1;
            left > 0
        });
        assert_eq!(trees.unwrap().len(), 3);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// From the definition, test by test.
        #[test]
        fn the_best_test_gains_most(seed in any::<u64>(), classes in 2usize..5, samples in 30usize..200) {
            let matrix = matrix(samples, classes, seed);
            let params = LabelBoostParams { min_leaf: 3, ..params() };
            let mut boosting = Boosting::new(&matrix, &params, 0);
            boosting.measure_slopes();
            let all: Vec<u32> = (0..samples as u32).collect();
            let worth = |side: &[u32]| boosting.worth(&boosting.samples(side.to_vec()).sums);
            let node = Open { node: 0, samples: boosting.samples(all.clone()) };
            let (found, _) = boosting.best_tests(std::slice::from_ref(&node), &[], &[0, 1, 2, 3, 4]);
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
            let gain = found[0].map_or(0.0, |test| test.gain);
            prop_assert!((gain - best).abs() < 1e-5, "{gain} {best}");
        }

        /// A child that is what is left of its parent is as if it was counted.
        #[test]
        fn siblings_need_one_count(seed in any::<u64>(), classes in 2usize..5) {
            let matrix = matrix(150, classes, seed);
            let params = params();
            let mut boosting = Boosting::new(&matrix, &params, 0);
            boosting.measure_slopes();
            let all: Vec<u32> = (0..150).collect();
            let (own, others): (Vec<u32>, Vec<u32>) = all.iter().partition(|&&s| s % 3 == 0);
            let left = boosting.histogram(&all, 2).without(&boosting.histogram(&own, 2));
            let counted = boosting.histogram(&others, 2);
            prop_assert_eq!(left.counts, counted.counts);
            prop_assert_eq!(left.sums, counted.sums);
        }
    }
}
