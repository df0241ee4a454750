//! Growing a forest that labels voxels: all nodes of a level at once (Sharp 2008, section 5).
//!
//! The histogram over leaves, classes, features and bins is never stored as a whole: samples are
//! kept by node, and a node's histogram of one feature lives only until its best test is known.

use crate::draw::{below, stream};
use crate::grow::{TrainError, in_range};
use crate::label::backend::{SplitTask, Splitter};
use crate::label::forest::{LEAF, LabelNode, LabelTree, Vote};
use crate::label::gain::MOST_LABEL_SAMPLES;
use crate::label::leaves::LeafPrior;
use crate::label::matrix::LabelMatrix;
use crate::node::MAX_DEPTH;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Which tests a node may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelTest {
    /// Whether a response lies below a threshold.
    #[default]
    Threshold,
    /// On every other feature, whether it lies between two: the lower one is drawn, the upper one is
    /// the best.
    Interval,
}

/// How a forest grows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LabelForestParams {
    /// Number of trees.
    pub trees: usize,
    /// Largest number of levels of inner nodes.
    pub depth: usize,
    /// Fewest training samples on either side of a split.
    pub min_leaf: u32,
    /// Share of the features that a node looks at.
    pub features_per_node: f64,
    /// Which tests a node may have.
    pub test: LabelTest,
    /// How trees become one answer.
    pub vote: Vote,
    /// This share of a leaf's samples is taken off each class's count before they become
    /// probabilities (CURFIL's `histogramBias`).
    pub histogram_bias: f64,
}

impl Default for LabelForestParams {
    fn default() -> Self {
        Self {
            trees: 20,
            depth: 16,
            min_leaf: 4,
            features_per_node: 0.05,
            test: LabelTest::Threshold,
            vote: Vote::Mean,
            histogram_bias: 0.0,
        }
    }
}

impl LabelForestParams {
    /// Checks every parameter.
    ///
    /// # Errors
    /// [`TrainError::Parameter`] with the first that is outside its range.
    pub fn check(&self) -> Result<(), TrainError> {
        in_range("trees", self.trees as f64, 1.0, 2048.0, "1 to 2048")?;
        in_range("depth", self.depth as f64, 0.0, MAX_DEPTH as f64, "0 to 24")?;
        in_range("min_leaf", f64::from(self.min_leaf), 1.0, 1e6, "1 to 1000000")?;
        in_range("features_per_node", self.features_per_node, 0.0, 1.0, "0 to 1")?;
        in_range("histogram_bias", self.histogram_bias, 0.0, 0.99, "0 to 0.99")
    }
}

/// A node whose samples are known and that is not settled yet.
struct Open {
    node: usize,
    /// Those of each class together.
    samples: Vec<u32>,
    counts: Vec<u32>,
}

/// Grows the trees of a forest, each on as many samples as there are, drawn with repetition. `tick` is
/// told of every tree that is done.
///
/// # Errors
/// [`TrainError`] when a parameter is out of range, there are no samples or features or too many, or
/// the device fails.
pub fn grow_label_forest<B: Splitter>(
    backend: &B,
    matrix: &LabelMatrix,
    prior: &LeafPrior,
    params: &LabelForestParams,
    seed: u64,
    tick: impl Fn() + Sync,
) -> Result<Vec<LabelTree>, TrainError> {
    params.check()?;
    let count = matrix.labels().len();
    if prior.weights.len() != count {
        let (what, found) = ("weights of samples", prior.weights.len());
        return Err(TrainError::Count { what, found, expected: count });
    }
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
    let on_device = backend.matrix(matrix)?;
    let tree = |tree: u32| {
        let grown = grow(backend, (matrix, &on_device), prior, params, seed, tree);
        tick();
        grown
    };
    (0..params.trees as u32).into_par_iter().map(tree).collect()
}

fn grow<B: Splitter>(
    backend: &B,
    (matrix, on_device): (&LabelMatrix, &B::Matrix<'_>),
    prior: &LeafPrior,
    params: &LabelForestParams,
    seed: u64,
    tree: u32,
) -> Result<LabelTree, TrainError> {
    let mut grown = LabelTree::default();
    let mut open = vec![root(matrix, seed, tree)];
    grown.nodes.push(LabelNode { feature: LEAF, next: 0, low: 0, high: 0 });
    for level in 0..=params.depth {
        let may_split = |node: &Open| {
            let pure = node.counts.iter().filter(|&&count| count > 0).count() < 2;
            level < params.depth && !pure && node.samples.len() >= 2 * params.min_leaf as usize
        };
        let (inner, leaves): (Vec<Open>, Vec<Open>) = open.into_iter().partition(may_split);
        for leaf in &leaves {
            settle(&mut grown, leaf, prior, matrix.classes());
        }
        let candidates: Vec<Vec<(u32, u8)>> = inner
            .par_iter()
            .map(|node| candidates(matrix, params, &mut stream(seed, tree, node.node as u32)))
            .collect();
        let tasks: Vec<SplitTask<'_>> = inner
            .iter()
            .zip(&candidates)
            .map(|(node, candidates)| SplitTask {
                samples: &node.samples,
                counts: &node.counts,
                candidates,
            })
            .collect();
        let splits = backend.best_splits(on_device, &tasks, params.min_leaf)?;
        open = Vec::new();
        let mut parted = Vec::new();
        for (node, split) in inner.into_iter().zip(splits) {
            let Some(split) = split else {
                settle(&mut grown, &node, prior, matrix.classes());
                continue;
            };
            let [first, last] = [split.test.first, split.test.last].map(usize::from);
            let [low, high] = matrix.edges(split.feature).range(first, last);
            let next = grown.nodes.len();
            grown.nodes[node.node] =
                LabelNode { feature: split.feature, next: next as u32, low, high };
            let unsettled = LabelNode { feature: LEAF, next: 0, low: 0, high: 0 };
            grown.nodes.extend([unsettled; 2]);
            parted.push((node, split, next));
        }
        // Both sides keep the order of the samples, and with it that of the classes.
        let halves = parted.par_iter().flat_map_iter(|(node, split, next)| {
            let row = matrix.row(split.feature);
            let goes_left =
                |s: &u32| (split.test.first..=split.test.last).contains(&row[*s as usize]);
            let (left, right): (Vec<u32>, Vec<u32>) =
                node.samples.iter().partition(|s| goes_left(s));
            [(left, *next), (right, next + 1)].map(|(samples, at)| Open::new(matrix, at, samples))
        });
        open.extend(halves.collect::<Vec<Open>>());
    }
    Ok(grown)
}

impl Open {
    fn new(matrix: &LabelMatrix, node: usize, samples: Vec<u32>) -> Self {
        let mut counts = vec![0; matrix.classes()];
        for &sample in &samples {
            counts[usize::from(matrix.labels()[sample as usize])] += 1;
        }
        Self { node, samples, counts }
    }
}

/// The root with a bootstrap sample, in the order of classes and, within a class, of numbers.
fn root(matrix: &LabelMatrix, seed: u64, tree: u32) -> Open {
    let labels = matrix.labels();
    let mut rng = stream(seed, tree, u32::MAX);
    let mut times = vec![0u32; labels.len()];
    for _ in 0..labels.len() {
        times[below(&mut rng, labels.len() as u64) as usize] += 1;
    }
    let mut samples = Vec::with_capacity(labels.len());
    for class in 0..matrix.classes() {
        for (sample, &times) in times.iter().enumerate() {
            if usize::from(labels[sample]) == class {
                samples.extend(std::iter::repeat_n(sample as u32, times as usize));
            }
        }
    }
    Open::new(matrix, 0, samples)
}

/// The features that a node looks at, rising, at least one; and where the tests on them begin.
fn candidates(
    matrix: &LabelMatrix,
    params: &LabelForestParams,
    rng: &mut ChaCha8Rng,
) -> Vec<(u32, u8)> {
    let count = matrix.features();
    let wanted = (params.features_per_node * count as f64).ceil().clamp(1.0, count as f64) as usize;
    let mut drawn = vec![false; count];
    let mut left = wanted;
    while left > 0 {
        let feature = below(rng, count as u64) as usize;
        left -= usize::from(!std::mem::replace(&mut drawn[feature], true));
    }
    let features = (0..count as u32).filter(|&feature| drawn[feature as usize]);
    let mut first = |feature: u32| match params.test {
        LabelTest::Threshold => 0,
        LabelTest::Interval => {
            let bins = matrix.edges(feature).bins() as u64;
            // Half of the tests have no lower end.
            below(rng, 2 * bins).saturating_sub(bins) as u8
        }
    };
    features.map(|feature| (feature, first(feature))).collect()
}

fn settle(tree: &mut LabelTree, node: &Open, prior: &LeafPrior, classes: usize) {
    let leaf = (tree.leaves.len() / classes) as u32;
    tree.nodes[node.node] = LabelNode { feature: LEAF, next: leaf, low: 0, high: 0 };
    prior.push_distribution(&node.samples, &node.counts, &mut tree.leaves);
}
