//! Why a detection came out as it did: the way of its pose through the verification trees, and the
//! features that decided.

use crate::DetectError;
use crate::detect::detection::Detection;
use crate::landmarks::stage::expected;
use crate::model::StructureModel;
use crate::stages::classifier::PoseClassifier;
use crate::stages::orientation::OrientationStage;
use nalgebra::Vector3;
use pbt_features::{BoxGrid, SteerableFeature};
use pbt_tree::{ALPHA_BITS, Backend, PathStep, PoseSite, Steerable, Threshold};
use pbt_volume::{PointLps, Pose};

/// Why a detection came out as it did. What the stages found is in [`Detection::trace`].
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// Log-odds that the orientation classifier gives each mode of the trace.
    pub mode_log_odds: Vec<f64>,
    /// The pose that was verified.
    pub verified: Pose,
    /// What the verification classifier says of it: ln(p/(1 − p)).
    pub log_odds: f64,
    /// The same as a probability, fitted on held-out cases; before the orientation's classifier and the
    /// neighbours have their say.
    pub probability: f64,
    /// Its way through each tree of the verification classifier.
    pub trees: Vec<TreePath>,
    /// The weak classifiers on these ways, those with the largest weight first.
    pub votes: Vec<Vote>,
    /// Where each landmark was expected before the image was looked at, in the order of
    /// [`Detection::landmarks`].
    pub landmark_starts: Vec<PointLps>,
}

/// The way through one tree.
#[derive(Debug, Clone, PartialEq)]
pub struct TreePath {
    /// p(+1) by this tree alone.
    pub posterior: f64,
    /// From the root to a leaf.
    pub steps: Vec<PathStep>,
}

/// What one weak classifier on the way said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Vote {
    /// Index of the tree in the classifier.
    pub tree: usize,
    /// Index of the node in the tree.
    pub node: usize,
    /// What it measures.
    pub feature: SteerableFeature,
    /// On which level of the pyramid, 0 the finest.
    pub level: usize,
    /// In which channel of the image, by its place in [`Model::channels`](crate::Model::channels); 0
    /// where there is one.
    pub channel: usize,
    /// Where.
    pub point: PointLps,
    /// Spacing of the level on which it measures, mm.
    pub level_spacing_mm: f64,
    /// What it measured, in the feature's integer units.
    pub response: i32,
    /// Where its vote changes; `None` where it votes by several ranges of the response.
    pub threshold: Option<Threshold>,
    /// Its weight.
    pub alpha: f64,
    /// Whether it speaks for the structure.
    pub speaks_for: bool,
}

impl StructureModel {
    /// Explains a detection that this model made in an image.
    pub(crate) fn explain<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        detection: &Detection,
    ) -> Result<Explanation, DetectError> {
        let classifier = &self.verification.classifier;
        let trace = &detection.trace;
        // The result is a median about it, drawn towards the training mean.
        let verified = trace.converged[trace.chosen];
        let responses = responses(backend, image, classifier, verified)?;
        let mut respond = |feature: u32| responses[feature as usize];
        let PoseClassifier { family: Steerable { grid }, features, classifier } = classifier;
        let (mut trees, mut votes) = (Vec::new(), Vec::new());
        for (t, tree) in classifier.trees.iter().enumerate() {
            let steps = classifier.eval.path(tree, &mut respond);
            for step in &steps {
                votes.extend(tree.weaks_of(&tree.nodes[step.node]).iter().map(|weak| {
                    let feature = features[weak.feature as usize];
                    let (level, channel) = self.working.level_and_channel(feature.level);
                    Vote {
                        tree: t,
                        node: step.node,
                        feature,
                        point: point(grid, &verified, &feature),
                        level,
                        channel,
                        level_spacing_mm: libm::ldexp(self.working.spacing_mm, level as i32),
                        response: responses[weak.feature as usize],
                        threshold: weak.as_threshold(),
                        alpha: f64::from(weak.alpha) / f64::from(1u32 << ALPHA_BITS),
                        speaks_for: weak.vote(responses[weak.feature as usize]),
                    }
                }));
            }
            trees.push(TreePath {
                posterior: classifier.eval.masses(tree, &mut respond).score().posterior(),
                steps,
            });
        }
        // Stable: equal weights stay in the order of the way.
        votes.sort_by(|a, b| b.alpha.total_cmp(&a.alpha));
        let score = classifier.score(&mut respond);
        let landmarks = self.landmarks().iter();
        Ok(Explanation {
            mode_log_odds: self.orientation.log_odds(backend, image, &trace.modes)?,
            verified,
            log_odds: score.log_odds(),
            probability: self.verification.probability(score),
            trees,
            votes,
            landmark_starts: landmarks.map(|l| expected(&detection.pose, l.mean)).collect(),
        })
    }
}

/// Responses of all features of a classifier under a pose.
fn responses<B: Backend>(
    backend: &B,
    image: &B::Image,
    classifier: &PoseClassifier,
    pose: Pose,
) -> Result<Vec<i32>, DetectError> {
    let mut responses = vec![0; classifier.features.len()];
    backend.responses(
        &[image],
        &classifier.family,
        &classifier.features,
        &[PoseSite { image: 0, pose }],
        &mut responses,
    )?;
    Ok(responses)
}

/// Where a feature looks under a pose.
fn point(grid: &BoxGrid, pose: &Pose, feature: &SteerableFeature) -> PointLps {
    let share = grid.place(feature.point);
    pose.to_lps(Vector3::from_fn(|a, _| share[a] * pose.size_mm[a]))
}

impl OrientationStage {
    /// Log-odds of poses by the stage's classifier.
    fn log_odds<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        poses: &[Pose],
    ) -> Result<Vec<f64>, DetectError> {
        let scores = self.classifier.score(backend, image, poses)?;
        Ok(scores.iter().map(|score| score.log_odds()).collect())
    }
}
