//! Growing a forest that labels voxels: all nodes of a level at once (Sharp 2008, section 5).
//!
//! The histogram over leaves, classes, features and bins is never stored as a whole: samples are
//! kept by node, and a node's histogram of one feature lives only until its best test is known.

use crate::draw::{below, stream};
use crate::grow::{TrainError, in_range};
use crate::label::backend::{Split, SplitTask, Splitter};
use crate::label::edges::{LABEL_BINS, MISSING_BIN};
use crate::label::forest::{LEAF, LabelNode, LabelTree, Vote};
use crate::label::gain::{Ends, Gain, MOST_LABEL_SAMPLES, SplitRule};
use crate::label::leaves::LeafPrior;
use crate::label::matrix::LabelMatrix;
use crate::label::splits::{shared_split, splits_on_host};
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

/// Which nodes have a test of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Each.
    #[default]
    Tree,
    /// All of a level have one test: a fern. A node waits for the next level where the test would
    /// leave it too few samples on a side.
    Fern,
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
    /// Whether a tree has as many samples as there are, drawn with repetition, and not each of them
    /// once. Trees differ by the features that their nodes look at, too, and learn more from all
    /// samples.
    #[serde(skip_serializing_if = "is_default")]
    pub bootstrap: bool,
    /// Share of the features that a node looks at.
    pub features_per_node: f64,
    /// Which tests a node may have.
    pub test: LabelTest,
    /// What tests are judged by.
    #[serde(skip_serializing_if = "is_default")]
    pub gain: Gain,
    /// A node's tests on a feature have so many thresholds, drawn from the responses of its own
    /// samples; none for the edges of all bins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thresholds: Option<usize>,
    /// Which nodes have a test of their own.
    #[serde(skip_serializing_if = "is_default")]
    pub shape: Shape,
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
            bootstrap: false,
            features_per_node: 0.05,
            test: LabelTest::Threshold,
            gain: Gain::Information,
            thresholds: None,
            shape: Shape::Tree,
            vote: Vote::Mean,
            histogram_bias: 0.0,
        }
    }
}

/// Cards of models leave out what was not chosen, so that new settings do not change them.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl LabelForestParams {
    /// Whether devices know how to choose splits; else the host does, for all of them.
    fn is_known_to_devices(&self) -> bool {
        (self.gain, self.thresholds, self.shape) == (Gain::Information, None, Shape::Tree)
    }

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`TrainError::Parameter`] with the first that is outside its range.
    pub fn check(&self) -> Result<(), TrainError> {
        in_range("trees", self.trees as f64, 1.0, 2048.0, "1 to 2048")?;
        in_range("depth", self.depth as f64, 0.0, MAX_DEPTH as f64, "0 to 24")?;
        in_range("min_leaf", f64::from(self.min_leaf), 1.0, 1e6, "1 to 1000000")?;
        let thresholds = self.thresholds.unwrap_or(1) as f64;
        in_range("thresholds", thresholds, 1.0, (LABEL_BINS - 2) as f64, "1 to 62")?;
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

/// Grows the trees of a forest. `tick` is told of every tree that is done.
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
    let on_device = if params.is_known_to_devices() { Some(backend.matrix(matrix)?) } else { None };
    let growing = Growing { matrix, prior, params, seed };
    let tree = |tree: u32| {
        let grown = match &on_device {
            Some(on_device) => growing.grow(tree, |tasks, _| {
                Ok(backend.best_splits(on_device, tasks, params.min_leaf)?)
            }),
            None => growing.grow(tree, |tasks, ends| Ok(growing.splits_on_host(tasks, ends))),
        };
        tick();
        grown
    };
    (0..params.trees as u32).into_par_iter().map(tree).collect()
}

/// The features that a node looks at, rising, and the first bin of the test on each.
type Candidates = Vec<(u32, u8)>;

/// What the trees of a forest have in common.
struct Growing<'a> {
    matrix: &'a LabelMatrix,
    prior: &'a LeafPrior,
    params: &'a LabelForestParams,
    seed: u64,
}

impl Growing<'_> {
    fn splits_on_host(&self, tasks: &[SplitTask<'_>], ends: &[Vec<Ends>]) -> Vec<Option<Split>> {
        let rule = SplitRule { min_leaf: self.params.min_leaf, gain: self.params.gain };
        match self.params.shape {
            Shape::Tree => splits_on_host(self.matrix, tasks, ends, &rule),
            Shape::Fern => {
                let ends = ends.first().map_or(&[][..], Vec::as_slice);
                vec![shared_split(self.matrix, tasks, ends, &rule); tasks.len()]
            }
        }
    }

    /// Grows a tree. `splits` finds the splits of nodes, from the bins at which tests of each
    /// candidate may end where that is not every bin.
    fn grow(
        &self,
        tree: u32,
        splits: impl Fn(&[SplitTask<'_>], &[Vec<Ends>]) -> Result<Vec<Option<Split>>, TrainError>,
    ) -> Result<LabelTree, TrainError> {
        let Self { matrix, prior, params, seed } = *self;
        let mut grown = LabelTree::default();
        let mut open = vec![root(matrix, params.bootstrap.then(|| stream(seed, tree, u32::MAX)))];
        let unsettled = LabelNode { feature: LEAF, next: 0, low: 0, high: 0 };
        grown.nodes.push(unsettled);
        for level in 0..=params.depth {
            let may_split = |node: &Open| {
                let pure = node.counts.iter().filter(|&&count| count > 0).count() < 2;
                level < params.depth && !pure && node.samples.len() >= 2 * params.min_leaf as usize
            };
            let (inner, leaves): (Vec<Open>, Vec<Open>) = open.into_iter().partition(may_split);
            for leaf in &leaves {
                settle(&mut grown, leaf, prior, matrix.classes());
            }
            let drawn = self.draw_candidates(&inner, tree, level);
            let (candidates, ends): (Vec<Candidates>, Vec<Vec<Ends>>) = drawn.into_iter().unzip();
            let tasks: Vec<SplitTask<'_>> = inner
                .iter()
                .enumerate()
                .map(|(n, node)| SplitTask {
                    samples: &node.samples,
                    counts: &node.counts,
                    candidates: &candidates[n.min(candidates.len() - 1)],
                })
                .collect();
            let splits = splits(&tasks, &ends)?;
            open = Vec::new();
            let mut parted = Vec::new();
            for (node, split) in inner.into_iter().zip(splits) {
                let Some(split) = split else {
                    settle(&mut grown, &node, prior, matrix.classes());
                    continue;
                };
                if params.shape == Shape::Fern && !self.may_part(&node, &split) {
                    open.push(node);
                    continue;
                }
                let [first, last] = [split.test.first, split.test.last].map(usize::from);
                let [low, high] = matrix.edges(split.feature).range(first, last);
                let next = grown.nodes.len();
                grown.nodes[node.node] =
                    LabelNode { feature: split.feature, next: next as u32, low, high };
                grown.nodes.extend([unsettled; 2]);
                parted.push((node, split, next));
            }
            let halves = parted
                .par_iter()
                .flat_map_iter(|(node, split, next)| self.part(node, split, *next));
            open.extend(halves.collect::<Vec<Open>>());
        }
        Ok(grown)
    }

    /// The candidates of each node, or those that all share, and where tests on them may end, if
    /// not at every bin.
    fn draw_candidates(
        &self,
        nodes: &[Open],
        tree: u32,
        level: usize,
    ) -> Vec<(Candidates, Vec<Ends>)> {
        let draw = |nodes: &[Open], number: u32| {
            let random = &mut stream(self.seed, tree, number);
            let candidates = candidates(self.matrix, self.params, random);
            let of = |&(feature, first): &(u32, u8)| self.draw_ends(nodes, feature, first, random);
            let ends = match self.params.thresholds {
                Some(_) => candidates.iter().map(of).collect(),
                None => Vec::new(),
            };
            (candidates, ends)
        };
        match self.params.shape {
            Shape::Tree => nodes
                .par_iter()
                .map(|node| draw(std::slice::from_ref(node), node.node as u32))
                .collect(),
            Shape::Fern if nodes.is_empty() => Vec::new(),
            // The root has the last number.
            Shape::Fern => vec![draw(nodes, u32::MAX - 1 - level as u32)],
        }
    }

    /// The bins before thresholds that are responses of random samples in some nodes.
    fn draw_ends(&self, nodes: &[Open], feature: u32, first: u8, random: &mut ChaCha8Rng) -> Ends {
        let row = self.matrix.row(feature);
        let all: u64 = nodes.iter().map(|node| node.samples.len() as u64).sum();
        let mut ends = 0;
        for _ in 0..self.params.thresholds.unwrap_or(0) {
            let mut place = below(random, all) as usize;
            let mut samples = nodes.iter().map(|node| &node.samples);
            let sample = samples.find_map(|samples| {
                let sample = samples.get(place).copied();
                place = place.wrapping_sub(samples.len());
                sample
            });
            let bin = sample.map_or(MISSING_BIN, |sample| row[sample as usize]);
            // A test that ends before this bin begins no later.
            if bin != MISSING_BIN && bin > first {
                ends |= 1 << (bin - 1);
            }
        }
        ends
    }

    fn goes_left(&self, split: &Split) -> impl Fn(u32) -> bool {
        let row = self.matrix.row(split.feature);
        let bins = split.test.first..=split.test.last;
        move |sample: u32| bins.contains(&row[sample as usize])
    }

    /// The two sides of a node, of which the left one has the number `next`. Both keep the order of
    /// the samples, and with it that of the classes.
    fn part(&self, node: &Open, split: &Split, next: usize) -> [Open; 2] {
        let goes_left = self.goes_left(split);
        let sides: Vec<bool> = node.samples.iter().map(|&sample| goes_left(sample)).collect();
        let (mut begin, mut counts) = (0, [Vec::new(), Vec::new()]);
        for &count in &node.counts {
            let end = begin + count as usize;
            let left = sides[begin..end].iter().map(|&left| u32::from(left)).sum::<u32>();
            counts[0].push(left);
            counts[1].push(count - left);
            begin = end;
        }
        // Each sample is written to both sides, and stays on one: what comes next on the other takes
        // its place, or the end of the list does. A jump would be guessed wrong half of the time.
        let mut samples = [0, 1].map(|side| vec![0; counts[side].iter().sum::<u32>() as usize + 1]);
        let [left, right] = &mut samples;
        let (mut lefts, mut rights) = (0, 0);
        for (&sample, &is_left) in node.samples.iter().zip(&sides) {
            left[lefts] = sample;
            right[rights] = sample;
            lefts += usize::from(is_left);
            rights += usize::from(!is_left);
        }
        let [left, right] = samples.map(|mut side| {
            side.pop();
            side
        });
        let [left_counts, right_counts] = counts;
        [
            Open { node: next, samples: left, counts: left_counts },
            Open { node: next + 1, samples: right, counts: right_counts },
        ]
    }

    /// Whether a split leaves a node enough samples on both sides.
    fn may_part(&self, node: &Open, split: &Split) -> bool {
        let goes_left = self.goes_left(split);
        let left = node.samples.iter().filter(|&&s| goes_left(s)).count();
        left.min(node.samples.len() - left) >= self.params.min_leaf as usize
    }
}

/// The root with every sample once, or with a bootstrap sample, in the order of classes and, within
/// a class, of numbers.
fn root(matrix: &LabelMatrix, bootstrap: Option<ChaCha8Rng>) -> Open {
    let labels = matrix.labels();
    let mut times = vec![u32::from(bootstrap.is_none()); labels.len()];
    if let Some(mut rng) = bootstrap {
        // Twins are drawn as one, and stay together until a test parts them.
        let pairs = labels.len() / matrix.copies();
        for _ in 0..pairs {
            let drawn = below(&mut rng, pairs as u64) as usize;
            times.iter_mut().skip(drawn).step_by(pairs).for_each(|times| *times += 1);
        }
    }
    let mut samples = Vec::with_capacity(labels.len());
    for class in 0..matrix.classes() {
        for (sample, &times) in times.iter().enumerate() {
            if usize::from(labels[sample]) == class {
                samples.extend(std::iter::repeat_n(sample as u32, times as usize));
            }
        }
    }
    let mut counts = vec![0; matrix.classes()];
    samples.iter().for_each(|&sample| counts[usize::from(labels[sample as usize])] += 1);
    Open { node: 0, samples, counts }
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
    let mut features = Vec::with_capacity(wanted);
    while features.len() < wanted {
        let feature = below(rng, count as u64) as u32;
        if !std::mem::replace(&mut drawn[feature as usize], true) {
            features.push(feature);
        }
    }
    features.sort_unstable();
    let mut first = |feature: u32| match params.test {
        LabelTest::Threshold => 0,
        LabelTest::Interval => {
            let bins = matrix.edges(feature).bins() as u64;
            // Half of the tests have no lower end.
            below(rng, 2 * bins).saturating_sub(bins) as u8
        }
    };
    features.into_iter().map(|feature| (feature, first(feature))).collect()
}

fn settle(tree: &mut LabelTree, node: &Open, prior: &LeafPrior, classes: usize) {
    let leaf = (tree.leaves.len() / classes) as u32;
    tree.nodes[node.node] = LabelNode { feature: LEAF, next: leaf, low: 0, high: 0 };
    prior.push_distribution(&node.samples, &node.counts, &mut tree.leaves);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::edges::Edges;
    use rand_chacha::rand_core::Rng;
    use std::collections::BTreeSet;

    /// Two classes that follow from the first of six features, in noise.
    fn matrix(samples: usize) -> LabelMatrix {
        let mut random = stream(5, 0, 0);
        let labels: Vec<u8> = (0..samples).map(|_| (random.next_u32() & 1) as u8).collect();
        let mut row = |useful: bool| -> Vec<i64> {
            let of = |&label: &u8| {
                let noise = i64::from(random.next_u32() % 100);
                noise + if useful { 60 * i64::from(label) } else { 0 }
            };
            labels.iter().map(of).collect()
        };
        let rows: Vec<Vec<i64>> = (0..6).map(|f| row(f == 0)).collect();
        let edges: Vec<Edges> = rows.iter().cloned().map(Edges::of_responses).collect();
        let bins = rows.iter().zip(&edges).flat_map(|(row, e)| row.iter().map(|&r| e.bin(r)));
        let bins = bins.collect();
        LabelMatrix::new(2, labels, edges, bins)
    }

    struct NoDevice;

    impl Splitter for NoDevice {
        type Matrix<'a> = ();

        fn matrix(&self, _: &LabelMatrix) -> Result<(), crate::DeviceError> {
            unreachable!("the host finds these splits")
        }

        fn best_splits(
            &self,
            _: &(),
            _: &[SplitTask<'_>],
            _: u32,
        ) -> Result<Vec<Option<Split>>, crate::DeviceError> {
            unreachable!("the host finds these splits")
        }
    }

    fn grown(matrix: &LabelMatrix, params: LabelForestParams) -> Vec<LabelTree> {
        let prior = LeafPrior { weights: vec![1; matrix.labels().len()], bias: 0 };
        let params = LabelForestParams { trees: 3, features_per_node: 0.5, ..params };
        grow_label_forest(&NoDevice, matrix, &prior, &params, 2, || ()).unwrap()
    }

    #[test]
    fn a_fern_has_a_test_a_level() {
        let (matrix, depth) = (matrix(2000), 5);
        let fern = LabelForestParams { shape: Shape::Fern, depth, ..LabelForestParams::default() };
        for thresholds in [None, Some(4)] {
            for tree in grown(&matrix, LabelForestParams { thresholds, ..fern.clone() }) {
                let inner = tree.nodes.iter().filter(|node| node.feature != LEAF);
                let inner: Vec<&LabelNode> = inner.collect();
                let tests: BTreeSet<(u32, i64, i64)> =
                    inner.iter().map(|node| (node.feature, node.low, node.high)).collect();
                assert!(tests.len() <= depth && inner.len() > tests.len(), "{tests:?}");
                // No two tests of a level: along any path, and in the order of levels, once each.
                assert!(inner.len() < 1 << depth);
            }
        }
    }

    #[test]
    fn drawn_thresholds_are_few_and_edges_of_bins() {
        let matrix = matrix(500);
        let params = LabelForestParams { depth: 1, thresholds: Some(1), ..Default::default() };
        let roots = |params: &LabelForestParams, seed: u64| {
            let prior = LeafPrior { weights: vec![1; 500], bias: 0 };
            let params = LabelForestParams { trees: 40, features_per_node: 1.0, ..params.clone() };
            let trees =
                grow_label_forest(&NoDevice, &matrix, &prior, &params, seed, || ()).unwrap();
            trees.into_iter().map(|tree| tree.nodes[0]).collect::<Vec<_>>()
        };
        let drawn = roots(&params, 7);
        let edges = |node: &LabelNode| matrix.edges(node.feature).as_slice().contains(&node.high);
        assert!(drawn.iter().filter(|node| node.feature != LEAF).all(edges));
        let distinct: BTreeSet<i64> = drawn.iter().map(|node| node.high).collect();
        // The best of all thresholds would be nearly the same in all trees.
        assert!(distinct.len() > 8, "{distinct:?}");
        assert_eq!(drawn, roots(&params, 7));
        assert!(drawn != roots(&params, 8));
    }

    #[test]
    fn twins_are_drawn_together() {
        let single = matrix(300);
        let of = |tree: u32| {
            let pairs: Vec<u32> = (0..300).chain(0..300).collect();
            let matrix = single.of_samples(&pairs).with_twins();
            let root = root(&matrix, Some(stream(3, tree, 0)));
            let mut times = vec![0; 600];
            root.samples.iter().for_each(|&s| times[s as usize] += 1);
            assert_eq!(times[..300], times[300..]);
            assert_eq!(times.iter().sum::<u32>(), 600);
            times
        };
        assert!(of(0) != of(1));
    }
}
