//! A trained classifier, and the three ways to one: a boosting tree, a forest of them, a random
//! forest.

use crate::boost::Booster;
use crate::draw::{bootstrap_of_groups, stream};
use crate::grow::{PbtParams, TrainError, check_samples, grow_pbt, in_range};
use crate::masses::Masses;
use crate::node::{Tree, TreeError};
use crate::posterior::{EvalParams, Evaluator};
use crate::random_forest::{RandomForestParams, grow_random_tree};
use crate::score::Score;
use crate::source::SampleSource;
use serde::{Deserialize, Serialize};

/// Most trees of a classifier, so that masses add up in a `u64`.
pub const MAX_TREES: usize = 2048;
/// The random stream of a tree's bootstrap: `stream(seed, tree, BOOTSTRAP)`; nodes and the feature
/// subset use other numbers.
const BOOTSTRAP: u32 = u32::MAX - 1;

/// Trees and how they are evaluated. The posterior of several trees is the mean of theirs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Classifier {
    /// The trees.
    pub trees: Vec<Tree>,
    /// Soft or hard.
    pub eval: Evaluator,
}

/// Why a classifier's tables cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClassifierError {
    /// None, or too many.
    #[error("{0} trees (1 to {MAX_TREES} are possible)")]
    TreeCount(usize),
    /// The tables of a tree are wrong.
    #[error("tree {tree}: {error}")]
    Tree {
        /// Which tree.
        tree: usize,
        /// What is wrong.
        #[source]
        error: TreeError,
    },
}

impl Classifier {
    /// Checks everything that evaluation relies on.
    ///
    /// # Errors
    /// The first [`ClassifierError`] that is found.
    pub fn validate(&self, feature_count: usize) -> Result<(), ClassifierError> {
        if self.trees.is_empty() || self.trees.len() > MAX_TREES {
            return Err(ClassifierError::TreeCount(self.trees.len()));
        }
        let check = |(tree, t): (usize, &Tree)| {
            t.validate(feature_count).map_err(|error| ClassifierError::Tree { tree, error })
        };
        self.trees.iter().enumerate().try_for_each(check)
    }

    /// The score of the sample whose responses `respond` gives by feature. The classifier must be
    /// valid.
    pub fn score(&self, respond: &mut impl FnMut(u32) -> i32) -> Score {
        let masses = self.trees.iter().map(|tree| self.eval.masses(tree, respond));
        masses.fold(Masses::default(), Masses::plus).score()
    }
}

/// Which classifier to train.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassifierKind {
    /// One probabilistic boosting tree.
    #[default]
    Pbt,
    /// A forest of them: each on a bootstrap of the cases and a random subset of the features.
    PbtForest,
    /// Thresholds of the highest information gain.
    RandomForest,
}

/// What distinguishes a forest of PBTs from a tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PbtForestParams {
    /// Number of trees.
    pub trees: usize,
    /// Share of the features that each tree may use (in place of the tree's own parameter).
    pub feature_fraction: f64,
}

impl Default for PbtForestParams {
    /// 10 trees with a third of the features each.
    fn default() -> Self {
        Self { trees: 10, feature_fraction: 1.0 / 3.0 }
    }
}

/// Everything that training a classifier needs to be told.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClassifierParams {
    /// Which classifier.
    pub kind: ClassifierKind,
    /// The boosting trees of [`ClassifierKind::Pbt`] and [`ClassifierKind::PbtForest`].
    pub pbt: PbtParams,
    /// The forest of [`ClassifierKind::PbtForest`].
    pub pbt_forest: PbtForestParams,
    /// The forest of [`ClassifierKind::RandomForest`].
    pub random_forest: RandomForestParams,
    /// How boosting trees are evaluated; a random forest's are always hard.
    pub eval: EvalParams,
}

/// Labelled samples.
#[derive(Clone, Copy)]
pub struct TrainingSet<'a> {
    /// The samples and the features.
    pub source: &'a dyn SampleSource,
    /// The class of each sample: true is +1.
    pub labels: &'a [bool],
    /// The case of each sample: what forests bootstrap, since samples of one case are alike.
    pub groups: &'a [u32],
}

/// A way to grow trees from samples.
pub trait Grower {
    /// Grows the trees. The same bits for the same arguments, whatever the number of threads.
    ///
    /// # Errors
    /// [`TrainError`] when a parameter is out of range, a class has no samples, the lists do not fit
    /// the source, or the device fails.
    fn grow(
        &self,
        set: &TrainingSet<'_>,
        booster: &dyn Booster,
        seed: u64,
    ) -> Result<Vec<Tree>, TrainError>;
}

/// One boosting tree on all samples.
impl Grower for PbtParams {
    fn grow(
        &self,
        set: &TrainingSet<'_>,
        booster: &dyn Booster,
        seed: u64,
    ) -> Result<Vec<Tree>, TrainError> {
        let samples: Vec<u32> = (0..set.labels.len() as u32).collect();
        Ok(vec![grow_pbt(set.source, set.labels, &samples, booster, self, seed, 0)?])
    }
}

/// A forest of boosting trees that are grown by the second of the pair.
impl Grower for (&PbtForestParams, &PbtParams) {
    fn grow(
        &self,
        set: &TrainingSet<'_>,
        booster: &dyn Booster,
        seed: u64,
    ) -> Result<Vec<Tree>, TrainError> {
        let (forest, tree) = self;
        in_range("trees", forest.trees as f64, 1.0, MAX_TREES as f64, "1 to 2048")?;
        let tree = PbtParams { feature_fraction: forest.feature_fraction, ..(*tree).clone() };
        let grow = |t| {
            grow_pbt(set.source, set.labels, &bootstrap(set, seed, t)?, booster, &tree, seed, t)
        };
        (0..forest.trees as u32).map(grow).collect()
    }
}

/// A random forest; it needs no booster.
impl Grower for RandomForestParams {
    fn grow(
        &self,
        set: &TrainingSet<'_>,
        _booster: &dyn Booster,
        seed: u64,
    ) -> Result<Vec<Tree>, TrainError> {
        self.check()?;
        let grow =
            |t| grow_random_tree(set.source, set.labels, &bootstrap(set, seed, t)?, self, seed, t);
        (0..self.trees as u32).map(grow).collect()
    }
}

/// The samples of the cases that tree number `tree` draws, each as often as its case was drawn.
/// Where a draw misses a class altogether, which happens with a handful of cases, the tree gets all
/// samples once.
fn bootstrap(set: &TrainingSet<'_>, seed: u64, tree: u32) -> Result<Vec<u32>, TrainError> {
    let all: Vec<u32> = (0..set.labels.len() as u32).collect();
    check_samples(set.source, set.labels, &all)?;
    if set.groups.len() != all.len() {
        return Err(TrainError::Count {
            what: "groups",
            found: set.groups.len(),
            expected: all.len(),
        });
    }
    let times = bootstrap_of_groups(set.groups, &mut stream(seed, tree, BOOTSTRAP));
    let drawn: Vec<u32> =
        all.iter().flat_map(|&s| std::iter::repeat_n(s, times[s as usize] as usize)).collect();
    Ok(if check_samples(set.source, set.labels, &drawn).is_ok() { drawn } else { all })
}

/// Trains a classifier of the kind that `params` names.
///
/// # Errors
/// [`TrainError`] when a parameter is out of range, a class has no samples, the lists do not fit the
/// source, or the device fails.
pub fn train_classifier(
    set: &TrainingSet<'_>,
    booster: &dyn Booster,
    params: &ClassifierParams,
    seed: u64,
) -> Result<Classifier, TrainError> {
    in_range("e1", params.eval.e1, 0.0, 0.5, "0 to 0.5")?;
    in_range("e2", params.eval.e2, 0.0, 0.5, "0 to 0.5")?;
    let (grower, eval): (&dyn Grower, EvalParams) = match params.kind {
        ClassifierKind::Pbt => (&params.pbt, params.eval),
        ClassifierKind::PbtForest => (&(&params.pbt_forest, &params.pbt), params.eval),
        ClassifierKind::RandomForest => (&params.random_forest, EvalParams::HARD),
    };
    Ok(Classifier { trees: grower.grow(set, booster, seed)?, eval: Evaluator::new(eval) })
}
