//! Growing a probabilistic boosting tree (Tu, ICCV 2005), level by level.
//!
//! A node's classifier is boosted on at most a few thousand samples of each class, drawn by weight;
//! then *all* samples that reached the node go on to its children, so that hard negatives of a
//! large pool collect in deep nodes. Each class gets one half of the boosting weight in every node:
//! deep nodes often hold a hundred negatives a positive, and a boosted constant would teach
//! nothing.

use crate::boost::{BoostParams, BoostTask, Booster, WeakKind, output_bins};
use crate::device_error::DeviceError;
use crate::draw::{stream, subset};
use crate::node::{MAX_ALPHA_SUM, MAX_DEPTH, Node, Tree};
use crate::reached::{Empirical, PATH_ONE, Reached, split};
use crate::source::SampleSource;
use crate::weak::Weak;
use serde::{Deserialize, Serialize};

/// How a probabilistic boosting tree grows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PbtParams {
    /// Largest number of levels of inner nodes.
    pub depth: usize,
    /// How a node is boosted.
    pub boost: BoostParams,
    /// Rounds at each level from the root, the last one repeated; where empty, `boost.rounds` holds
    /// at every level.
    pub rounds_by_level: Vec<usize>,
    /// A training sample goes to one side only when q̂ is outside ½ ± ε, else to both with the
    /// weights q̂ and 1 − q̂.
    pub epsilon: f64,
    /// Most positives in the feature matrix of a node.
    pub positives_per_node: usize,
    /// Most negatives in the feature matrix of a node.
    pub negatives_per_node: usize,
    /// A node with a smaller sum of path weights in either class becomes a leaf: it is pure, or has
    /// too few samples.
    pub min_samples: f64,
    /// Percent of the responses that lie outside the bins, at either end.
    pub cut_percent: f64,
    /// Share of the features that a tree may use.
    pub feature_fraction: f64,
}

impl Default for PbtParams {
    /// The patent's four levels with 40, 42, 44 and 48 weak classifiers on 2,500 + 2,500 samples,
    /// and Tu's ε = 0.1.
    fn default() -> Self {
        Self {
            depth: 4,
            boost: BoostParams::default(),
            rounds_by_level: vec![40, 42, 44, 48],
            epsilon: 0.1,
            positives_per_node: 2500,
            negatives_per_node: 2500,
            min_samples: 10.0,
            cut_percent: 0.5,
            feature_fraction: 1.0,
        }
    }
}

/// Why a classifier cannot be trained.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TrainError {
    /// A parameter is outside its range.
    #[error("{field}: {value} is outside {range}")]
    Parameter {
        /// The parameter's name in the configuration.
        field: &'static str,
        /// What it is.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
    /// A list does not have one entry a sample, or names a sample that there is not.
    #[error("{what}: {found} where {expected} are needed")]
    Count {
        /// Which list.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The length that is needed.
        expected: usize,
    },
    /// There is no sample of a class.
    #[error("there are no {0} samples")]
    NoSamples(&'static str),
    /// There are no features.
    #[error("there are no features")]
    NoFeatures,
    /// The device that makes responses or boosts failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Checks that a parameter lies in a range.
pub(crate) fn in_range(
    field: &'static str,
    value: f64,
    low: f64,
    high: f64,
    range: &'static str,
) -> Result<(), TrainError> {
    if value >= low && value <= high {
        Ok(())
    } else {
        Err(TrainError::Parameter { field, value, range })
    }
}

impl PbtParams {
    /// Checks every parameter.
    ///
    /// # Errors
    /// [`TrainError::Parameter`] with the first that is outside its range.
    pub fn check(&self) -> Result<(), TrainError> {
        in_range("depth", self.depth as f64, 0.0, MAX_DEPTH as f64, "0 to 24")?;
        let rounds = self.rounds_by_level.iter().chain([&self.boost.rounds]);
        rounds.copied().try_for_each(|n| in_range("rounds", n as f64, 1.0, 2000.0, "1 to 2000"))?;
        if let WeakKind::Histogram { bins } = self.boost.weak
            && output_bins(bins) != bins as usize
        {
            return Err(TrainError::Parameter {
                field: "bins",
                value: bins as f64,
                range: "2, 4, 8, 16, 32, 64",
            });
        }
        in_range("max_error", self.boost.max_error, 0.0, 0.5, "0 to 0.5")?;
        in_range("epsilon", self.epsilon, 0.0, 0.5, "0 to 0.5")?;
        in_range("positives_per_node", self.positives_per_node as f64, 1.0, 1e6, "1 to 1000000")?;
        in_range("negatives_per_node", self.negatives_per_node as f64, 1.0, 1e6, "1 to 1000000")?;
        in_range("min_samples", self.min_samples, 1.0, 1e9, "1 to 1e9")?;
        in_range("cut_percent", self.cut_percent, 0.0, 49.0, "0 to 49")?;
        in_range("feature_fraction", self.feature_fraction, 1e-6, 1.0, "0.000001 to 1")
    }

    fn rounds_at(&self, level: usize) -> usize {
        self.rounds_by_level
            .get(level)
            .or(self.rounds_by_level.last())
            .copied()
            .unwrap_or(self.boost.rounds)
    }
}

/// Checks that labels fit the source, that `samples` exist, and that both classes and a feature are
/// there.
pub(crate) fn check_samples(
    source: &dyn SampleSource,
    labels: &[bool],
    samples: &[u32],
) -> Result<(), TrainError> {
    let expected = source.sample_count();
    if labels.len() != expected {
        return Err(TrainError::Count { what: "labels", found: labels.len(), expected });
    }
    if let Some(&beyond) = samples.iter().find(|&&s| s as usize >= expected) {
        return Err(TrainError::Count { what: "samples", found: beyond as usize + 1, expected });
    }
    if source.feature_count() == 0 {
        return Err(TrainError::NoFeatures);
    }
    for (label, name) in [(true, "positive"), (false, "negative")] {
        if !samples.iter().any(|&s| labels[s as usize] == label) {
            return Err(TrainError::NoSamples(name));
        }
    }
    Ok(())
}

/// Grows a tree on `samples` (ids of the source; a repeated one counts as often). `labels` has one
/// entry a sample of the source. `seed` and `tree` (the number of the tree in a forest) choose the
/// random streams.
///
/// # Errors
/// [`TrainError`] when a parameter is out of range, a class has no samples, the lists do not fit the
/// source, or the device fails.
pub fn grow_pbt(
    source: &dyn SampleSource,
    labels: &[bool],
    samples: &[u32],
    booster: &dyn Booster,
    params: &PbtParams,
    seed: u64,
    tree: u32,
) -> Result<Tree, TrainError> {
    params.check()?;
    check_samples(source, labels, samples)?;
    let features =
        subset(source.feature_count(), params.feature_fraction, &mut stream(seed, tree, u32::MAX));
    let empirical = Empirical::new(labels, samples);
    let least = (params.min_samples * PATH_ONE as f64) as u64;
    let most = |label| if label { params.positives_per_node } else { params.negatives_per_node };

    let grown =
        grow_levels(Reached::all(samples), labels, empirical, |level, index, reached, masses| {
            if level >= params.depth || masses.0 < least || masses.1 < least {
                return Ok(None);
            }
            let (drawn, weights) = reached.draw(labels, most, &mut stream(seed, tree, index));
            let drawn_labels: Vec<bool> = drawn.iter().map(|&s| labels[s as usize]).collect();
            let boost = BoostParams { rounds: params.rounds_at(level), ..params.boost.clone() };
            let task = BoostTask {
                labels: &drawn_labels,
                weights: &weights,
                params: &boost,
                cut_percent: params.cut_percent,
            };
            let mut weaks = source.boost(booster, &features, &drawn, &task)?;
            tidy(&mut weaks, &features);
            if weaks.is_empty() {
                return Ok(None);
            }
            let (left, right) = split(source, reached, &weaks, params.epsilon)?;
            Ok(Some((weaks, left, right)))
        })?;
    Ok(grown)
}

/// The weak classifiers of a new inner node, and what reaches its left and its right child.
pub(crate) type Grown = (Vec<Weak>, Reached, Reached);

/// Grows a tree level by level. `grow_node` gets the level, the node's index, what reaches it and
/// the masses of the positives and the negatives (units of 2⁻³⁰ samples), and returns `None` for a
/// leaf.
///
/// # Errors
/// That of `grow_node`.
pub(crate) fn grow_levels(
    root: Reached,
    labels: &[bool],
    empirical: Empirical,
    mut grow_node: impl FnMut(usize, u32, &Reached, (u64, u64)) -> Result<Option<Grown>, DeviceError>,
) -> Result<Tree, DeviceError> {
    let mut tree = Tree::default();
    let mut level_nodes = vec![root];
    for level in 0.. {
        let mut next_level = Vec::new();
        // Nodes are numbered level by level: the children of this level's inner nodes come after
        // its last node.
        let first_child = tree.nodes.len() + level_nodes.len();
        for reached in std::mem::take(&mut level_nodes) {
            let masses = (reached.mass(labels, true), reached.mass(labels, false));
            let mut node = Node {
                first_weak: 0,
                weak_count: 0,
                left: 0,
                right: 0,
                positive: empirical.q(masses.0, masses.1),
            };
            if let Some((weaks, left, right)) =
                grow_node(level, tree.nodes.len() as u32, &reached, masses)?
            {
                node.first_weak = tree.weaks.len() as u32;
                node.weak_count = weaks.len() as u32;
                node.left = (first_child + next_level.len()) as u32;
                node.right = node.left + 1;
                next_level.extend([left, right]);
                tree.weaks.extend(weaks);
            }
            tree.nodes.push(node);
        }
        if next_level.is_empty() {
            break;
        }
        level_nodes = next_level;
    }
    Ok(tree)
}

/// From matrix rows to feature ids, and the heaviest vote first: a sum that stops early then stops
/// soonest. The margin does not change. What would take the sum of the alphas beyond its limit is
/// dropped (it takes more than 2,360 perfect votes).
fn tidy(weaks: &mut Vec<Weak>, features: &[u32]) {
    weaks.iter_mut().for_each(|weak| weak.feature = features[weak.feature as usize]);
    let mut sum = 0i64;
    weaks.retain(|weak| {
        sum += weak.alpha as i64;
        sum <= MAX_ALPHA_SUM
    });
    weaks.sort_by_key(|weak| std::cmp::Reverse(weak.alpha));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reached::Columns;
    use crate::reference::ReferenceBooster;

    #[test]
    fn growth_stops_at_depth_purity_and_theta() {
        let n = 400;
        let labels: Vec<bool> = (0..n).map(|s| s % 2 == 0).collect();
        let samples: Vec<u32> = (0..n as u32).collect();
        let grow = |column: Vec<i32>, depth| {
            let params = PbtParams { depth, ..PbtParams::default() };
            grow_pbt(&Columns(vec![column]), &labels, &samples, &ReferenceBooster, &params, 3, 0)
                .expect("a sound problem")
        };
        let separable: Vec<i32> = (0..n as i32).map(|s| (s % 2) * 1000 + s).collect();
        assert_eq!(grow(separable.clone(), 0), Tree::leaf(1 << 31));
        // One perfect threshold, and then both children are pure. Right is the side of the
        // positives, which have the lower responses here.
        let tree = grow(separable, 4);
        assert_eq!((tree.nodes.len(), tree.weaks.len()), (3, 1));
        assert!(tree.nodes[1].positive < 1 << 26 && tree.nodes[2].positive > u32::MAX - (1 << 26));
        // A feature that says nothing: no classifier is better than θ.
        assert_eq!(grow(vec![7; n], 4).nodes.len(), 1);
    }

    #[test]
    fn a_pool_of_negatives_beyond_the_limit_is_drawn_from() {
        // 50 positives at 0, 5,000 negatives spread around: the node sees 60 of them, and all are
        // counted in the leaves.
        let column: Vec<i32> =
            (0..5050).map(|s| if s < 50 { 0 } else { (s - 2550) * 4 + 1 }).collect();
        let labels: Vec<bool> = (0..5050).map(|s| s < 50).collect();
        let samples: Vec<u32> = (0..5050).collect();
        let params = PbtParams { negatives_per_node: 60, depth: 6, ..PbtParams::default() };
        let tree =
            grow_pbt(&Columns(vec![column]), &labels, &samples, &ReferenceBooster, &params, 1, 0)
                .expect("a sound problem");
        tree.validate(1).expect("valid tables");
        assert!(tree.nodes.len() > 3, "hard negatives reach deeper nodes");
    }

    #[test]
    fn parameters_are_checked() {
        let refused = |change: fn(&mut PbtParams)| {
            let mut params = PbtParams::default();
            change(&mut params);
            match params.check().expect_err("a bad parameter") {
                TrainError::Parameter { field, .. } => field,
                other => panic!("{other}"),
            }
        };
        assert_eq!(PbtParams::default().check(), Ok(()));
        assert_eq!(refused(|p| p.depth = 25), "depth");
        assert_eq!(refused(|p| p.rounds_by_level = vec![40, 0]), "rounds");
        assert_eq!(refused(|p| p.boost.max_error = 0.6), "max_error");
        assert_eq!(refused(|p| p.boost.weak = WeakKind::Histogram { bins: 48 }), "bins");
        assert_eq!(refused(|p| p.epsilon = f64::NAN), "epsilon");
        assert_eq!(refused(|p| p.cut_percent = 50.0), "cut_percent");
        assert_eq!(refused(|p| p.feature_fraction = 0.0), "feature_fraction");
    }
}
