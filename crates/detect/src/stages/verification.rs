//! The verification stage: which of the converged poses is right, and how sure that is.

use crate::DetectError;
use crate::certainty::evidence::{BELIEVED, DETECTOR};
use crate::config::VerificationConfig;
use crate::pose::error::PoseError;
use crate::pose::modes::median;
use crate::pose::prior::Prior;
use crate::pose::shrinkage::Shrinkage;
use crate::pose::step::Reach;
use crate::stages::classifier::PoseClassifier;
use crate::stages::contents::Contents;
use crate::stages::input::StageInput;
use crate::stages::orientation::OrientationStage;
use crate::stages::platt_scaling::Calibration;
use crate::stages::verification_training::VerificationTraining;
use pbt_tree::{Backend, Score, best_indices};
use pbt_volume::Pose;
use serde::{Deserialize, Serialize};

/// Where a probability becomes a status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerificationSpec {
    /// `doubtful` below.
    pub doubtful_below: f64,
    /// `absent` below.
    pub absent_below: f64,
    /// Poses within this of each other are one detection.
    pub same: Reach,
    /// How far orientation and size are drawn towards the training mean; absent where any
    /// orientation is possible, and with many training cases.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub shrinkage: Option<Shrinkage>,
    /// What the refinement leaves; absent in a model of one structure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<PoseError>,
    /// Probability that a pose is right, by this classifier's log-odds; it is also asked about the means
    /// that are scores, which lie nearer to 0.
    pub calibration: Calibration,
    /// What the box shows in the training images; absent where they are too few.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub contents: Option<Contents>,
}

/// The trained stage.
#[derive(Debug, Clone, PartialEq)]
pub struct VerificationStage {
    /// Where a probability becomes a status.
    pub spec: VerificationSpec,
    /// The classifier.
    pub classifier: PoseClassifier,
}

impl VerificationStage {
    /// Trains on where the refinement ends: from the modes found in the training cases and from
    /// random starts.
    pub(crate) fn train<B: Backend>(
        input: &StageInput<'_, B>,
        found: &[Vec<Pose>],
        refine: impl Fn(&B::Image, &[Pose]) -> Result<Vec<Pose>, DetectError>,
        shrinkage: Option<Shrinkage>,
        error: Option<PoseError>,
    ) -> Result<Self, DetectError> {
        let training = VerificationTraining::new(input, found, refine, shrinkage)?;
        let VerificationConfig { doubtful_below, absent_below } = input.config.verification;
        // From different starts the refinement ends within about its own error; where there is one
        // basin, all starts belong to it.
        let (angle, center) = if input.prior.any_orientation { (8.0, 0.1) } else { (25.0, 0.3) };
        let same = Reach {
            angle_rad: f64::to_radians(angle),
            center_mm: center * input.prior.scale_mm,
            log_size: 0.5,
        };
        let calibration = Calibration::fit(&training.held_out()?);
        let classifier = training.classifier()?;
        Ok(Self {
            spec: VerificationSpec {
                doubtful_below,
                absent_below,
                same,
                shrinkage,
                error,
                calibration,
                contents: Contents::train(input)?,
            },
            classifier,
        })
    }

    /// The same with what another training has settled; only the classifier is trained.
    pub(crate) fn train_as<B: Backend>(
        input: &StageInput<'_, B>,
        found: &[Vec<Pose>],
        refine: impl Fn(&B::Image, &[Pose]) -> Result<Vec<Pose>, DetectError>,
        settled: &VerificationSpec,
    ) -> Result<Self, DetectError> {
        let training = VerificationTraining::new(input, found, refine, settled.shrinkage)?;
        let classifier = training.classifier()?;
        Ok(Self { spec: settled.clone(), classifier })
    }

    /// Probability that a pose of this score is right.
    pub fn probability(&self, score: Score) -> f64 {
        self.spec.calibration.probability(score.log_odds())
    }

    /// The best of the poses, settled; `None` of no poses.
    ///
    /// # Errors
    /// [`DetectError::Device`] when the device fails.
    pub(crate) fn best<B: Backend>(
        &self,
        orientation: &OrientationStage,
        backend: &B,
        image: &B::Image,
        poses: &[Pose],
        prior: &Prior,
    ) -> Result<Option<(Pose, Score)>, DetectError> {
        let scores = self.score(orientation, (backend, image), poses, prior)?;
        let best = best_indices(&scores, 1).first().copied();
        Ok(best
            .map(|best| (self.settle(poses, |n| scores[n].log_odds(), best, prior), scores[best])))
    }

    /// The median of those that converged to about the same place as the chosen one (some did not
    /// quite, and a mean would follow them), each with the weight that its score gives it, drawn towards
    /// the training mean as far as held-out cases say. The score stays that of the chosen one.
    pub(crate) fn settle(
        &self,
        poses: &[Pose],
        log_odds: impl Fn(usize) -> f64,
        chosen: usize,
        prior: &Prior,
    ) -> Pose {
        let is_same = |&n: &usize| self.spec.same.holds(&poses[chosen], &poses[n]);
        let same: Vec<usize> = (0..poses.len()).filter(is_same).collect();
        let best = same.iter().map(|&n| log_odds(n)).fold(f64::NEG_INFINITY, f64::max);
        let weight = |n: usize| libm::exp(BELIEVED[DETECTOR] * (log_odds(n) - best));
        let found = median(&poses[chosen], same.iter().map(|&n| (&poses[n], weight(n))));
        self.spec.shrinkage.map_or(found, |shrinkage| shrinkage.shrink(&found, prior))
    }

    /// Scores of poses: what this classifier and that of the orientation say of them. Each learned from
    /// other mistakes, so that together they are right more often; but from the same cases, so that
    /// their log-odds are averaged, not added. Where any orientation is possible this one speaks alone: the
    /// other then learned to accept 25°, and likes poses that have not converged (of ten held-out skulls
    /// one would be 8° off).
    pub(crate) fn score<B: Backend>(
        &self,
        orientation: &OrientationStage,
        (backend, image): (&B, &B::Image),
        poses: &[Pose],
        prior: &Prior,
    ) -> Result<Vec<Score>, DetectError> {
        let own = self.classifier.score(backend, image, poses)?;
        if prior.any_orientation {
            return Ok(own);
        }
        let other = orientation.classifier.score(backend, image, poses)?;
        Ok(own.into_iter().zip(other).map(|(own, other)| own.mean(other)).collect())
    }
}
