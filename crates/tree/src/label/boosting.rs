//! Gradient boosting of trees with a score of every class in each leaf (Friedman 2001; vectors in the
//! leaves as in Zhang and Jung 2021, GBDT-MO), on the bins that forests grow on.
//!
//! Scores, gradients and curvatures are integers, so that sums do not depend on their order; what is
//! computed from the sums in floating point is computed by one thread. The background has the score
//! 0: the others are relative to it. A device grows the trees; here they get their samples, their
//! features and their leaves.

use crate::draw::{stream, subset};
use crate::grow::{TrainError, in_range};
use crate::label::booster::{BinNode, BinTree, GrownNode, LabelBooster, TreeTask};
use crate::label::forest::{LEAF, LabelNode, LabelTree, SCORE_BITS, SCORE_ZERO};
use crate::label::gain::MOST_LABEL_SAMPLES;
use crate::label::matrix::LabelMatrix;
use crate::label::slopes::SLOPE_BITS;
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

/// Samples of the trees that are drawn at a time, since drawing is no work for a device, and how many
/// such trees at most.
const DRAWN_SAMPLES: usize = 1 << 22;
const DRAWN_TREES: usize = 16;

/// Grows the trees. `tick` is told of every tree that is done and says whether to go on; the trees
/// so far are given back where not.
///
/// # Errors
/// [`TrainError`] when a parameter is out of range, there are no samples or features or too many, or
/// the device fails.
pub fn boost_labels<B: LabelBooster>(
    backend: &B,
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
    let steps = Steps::new(matrix, params);
    let mut boosting = backend.boosting(matrix, &steps.start)?;
    let mut trees = Vec::with_capacity(params.trees);
    let numbers: Vec<u32> = (0..params.trees as u32).collect();
    for numbers in numbers.chunks((DRAWN_SAMPLES / count).clamp(1, DRAWN_TREES)) {
        let drawn: Vec<Drawn> =
            numbers.par_iter().map(|&tree| Drawn::new(matrix, params, seed, tree)).collect();
        for Drawn { features, samples } in drawn {
            let task = TreeTask {
                features: &features,
                samples: &samples,
                depth: params.depth,
                min_leaf: params.min_leaf,
                ridge: params.ridge,
            };
            let levels = backend.grow(&mut boosting, &task)?;
            let (tree, on_bins) = steps.tree(matrix, &levels, trees.is_empty());
            trees.push(tree);
            if !tick() {
                return Ok(trees);
            }
            if trees.len() < params.trees {
                backend.add(&mut boosting, &on_bins)?;
            }
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

/// What a tree grows on.
struct Drawn {
    features: Vec<u32>,
    samples: Vec<u32>,
}

impl Drawn {
    fn new(matrix: &LabelMatrix, params: &LabelBoostParams, seed: u64, tree: u32) -> Self {
        let mut random = stream(seed, tree, 0);
        let features = subset(matrix.features(), params.features_per_tree, &mut random);
        let pairs = matrix.labels().len() / matrix.copies();
        let drawn = subset(pairs, params.samples_per_tree, &mut random);
        let copies = 0..matrix.copies() as u32;
        let samples = copies.flat_map(|copy| drawn.iter().map(move |&s| copy * pairs as u32 + s));
        Self { features, samples: samples.collect() }
    }
}

/// How scores go on from tree to tree.
struct Steps<'a> {
    params: &'a LabelBoostParams,
    /// Scores before the first tree, nats: the logarithms of the classes' shares.
    nats: Vec<f64>,
    /// The same in units of 2⁻[`SCORE_BITS`].
    start: Vec<i32>,
}

impl<'a> Steps<'a> {
    fn new(matrix: &LabelMatrix, params: &'a LabelBoostParams) -> Self {
        let mut counts = vec![0.5; matrix.classes()];
        matrix.labels().iter().for_each(|&label| counts[usize::from(label)] += 1.0);
        let nats: Vec<f64> =
            counts[1..].iter().map(|n| libm::log(n / counts[0]).clamp(-8.0, 8.0)).collect();
        let start = nats.iter().map(|&nats| fixed(nats)).collect();
        Self { params, nats, start }
    }

    /// The tree of these nodes, level by level; once asking for responses, with the scores of the
    /// start in the leaves if it is the `first`, and once for bins.
    fn tree(
        &self,
        matrix: &LabelMatrix,
        levels: &[Vec<GrownNode>],
        first: bool,
    ) -> (LabelTree, BinTree) {
        let (mut tree, mut on_bins) = (LabelTree::default(), BinTree::default());
        // The next child's place: all nodes of a level come before those of the next.
        let mut child = 1;
        for node in levels.iter().flatten() {
            let (own, asks_bin) = match node.test {
                Some(test) => {
                    let next = child;
                    child += 2;
                    let edges = matrix.edges(test.feature);
                    let [low, high] = edges.range(0, usize::from(test.last));
                    let own = LabelNode { feature: test.feature, next, low, high };
                    (own, BinNode { feature: test.feature, next, last: test.last })
                }
                None => {
                    let next = (on_bins.steps.len() / self.start.len()) as u32;
                    self.settle(node, first, &mut tree.leaves, &mut on_bins.steps);
                    let own = LabelNode { feature: LEAF, next, low: 0, high: 0 };
                    (own, BinNode { feature: LEAF, next, last: 0 })
                }
            };
            tree.nodes.push(own);
            on_bins.nodes.push(asks_bin);
        }
        (tree, on_bins)
    }

    /// The step of a leaf, −G/(H + λ) of each class; the first tree begins from the start.
    fn settle(&self, node: &GrownNode, first: bool, leaves: &mut Vec<u16>, steps: &mut Vec<i32>) {
        let one = f64::from(1 << SLOPE_BITS);
        leaves.push(SCORE_ZERO as u16);
        for ((pair, nats), start) in node.sums.chunks_exact(2).zip(&self.nats).zip(&self.start) {
            let curve = pair[1] as f64 / one + self.params.ridge;
            // Without curvature and ridge there is nothing to step on.
            let step = if curve > 0.0 { -(pair[0] as f64 / one) / curve } else { 0.0 };
            let value = self.params.shrinkage * step + if first { *nats } else { 0.0 };
            let most = SCORE_ZERO - 1;
            let value = fixed(value).clamp(-most, most);
            leaves.push((SCORE_ZERO + value) as u16);
            steps.push(value - if first { *start } else { 0 });
        }
    }
}

/// A score in units of 2⁻[`SCORE_BITS`].
fn fixed(nats: f64) -> i32 {
    libm::round(nats * f64::from(1 << SCORE_BITS)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::edges::MISSING_BIN;
    use crate::label::forest::{LabelForest, Vote};
    use crate::label::leaves::LEAF_ONE;
    use crate::label::test_boosting::{Host, matrix};
    use pbt_features::{BoxMeanFeature, MeanBox};

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
        let trees = boost_labels(&Host, matrix, params, 3, || true).unwrap();
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
        let trees = boost_labels(&Host, &matrix(200, 2, 5), &params(), 0, || {
            left -= 1;
            left > 0
        });
        assert_eq!(trees.unwrap().len(), 3);
    }
}
