//! The verification stage: which of the converged poses is right, and how sure that is.

use crate::DetectError;
use crate::config::VerificationConfig;
use crate::data::folds::Folds;
use crate::pose::error::PoseError;
use crate::pose::modes::median;
use crate::pose::prior::Prior;
use crate::pose::shrinkage::Shrinkage;
use crate::pose::step::{Reach, perturbed};
use crate::random::Stream;
use crate::stages::calibration::Calibration;
use crate::stages::classifier::{Labelled, PoseClassifier};
use crate::stages::input::StageInput;
use crate::stages::sampling::{grid_for, levels_for};
use pbt_features::steerable_pool;
use pbt_tree::{Backend, PoseSite, Score, Steerable, best_indices};
use pbt_volume::{PointLps, Pose};
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
    /// Probability that a pose is right, by the classifier's log-odds.
    pub calibration: Calibration,
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
        let &StageInput { backend, cases, images, working, prior, .. } = input;
        let (config, orientation, classifier) =
            (&input.config.verification, &input.config.orientation, &input.config.classifier);
        let d = prior.scale_mm;
        let size = (2.5 * prior.log_size_spread).clamp(0.06, 0.4);
        // The truth jittered by about the refinement's held-out error; well beyond that a pose is
        // wrong.
        let (left_mm, left_angle) =
            shrinkage.map_or((0.0, 0.0), |s| (s.error.center_mm, s.error.angle_rad));
        let right = Reach {
            angle_rad: left_angle.max(2f64.to_radians()),
            center_mm: left_mm.max(0.025 * d),
            log_size: size * 0.4,
        };
        let wrong = Reach {
            angle_rad: (2.5 * left_angle).clamp(8f64.to_radians(), core::f64::consts::FRAC_PI_2),
            center_mm: (2.5 * left_mm).clamp(0.08 * d, 0.5 * d),
            log_size: f64::INFINITY,
        };
        let wide = if prior.any_orientation {
            60f64.to_radians()
        } else {
            (2.0 * prior.spread_rad).max(15f64.to_radians())
        };
        let each = (6000 / cases.len()).clamp(30, 200);
        let grid = grid_for(prior, orientation.points_across * 1.2, 0.1 * d);
        let mut by_case = Vec::with_capacity(cases.len());
        for (n, case) in cases.iter().enumerate() {
            let mut samples = Labelled::new();
            let mut random = input.seeds.random(Stream::VerificationPoses, n);
            let site = |pose| PoseSite { image: n as u32, pose };
            for _ in 0..each {
                samples.push(site(perturbed(&case.pose, &right, &mut random)), true, n);
            }
            let mut starts = found[n].clone();
            for _ in 0..each / 3 {
                let orientation = if prior.any_orientation {
                    case.pose.orientation * random.rotation_by(wide, core::f64::consts::PI)
                } else {
                    case.pose.orientation * random.rotation_by(0.0, wide)
                };
                let center = PointLps(case.pose.center.0 + random.in_ball(0.4 * d));
                starts.push(Pose { center, orientation, size_mm: prior.mean_size_mm });
            }
            let ends = refine(images[n], &starts)?;
            // Near misses and places far off, which the refinement never reaches in the training
            // cases.
            let near = (0..each).map(|_| {
                perturbed(
                    &case.pose,
                    &Reach { angle_rad: 0.5, center_mm: 0.3 * d, log_size: size },
                    &mut random,
                )
            });
            let near: Vec<Pose> = near.collect();
            let far: Vec<Pose> = (0..each)
                .map(|_| Pose {
                    center: PointLps(case.pose.center.0 + random.in_ball(1.5 * d)),
                    orientation: random.rotation(),
                    ..case.pose
                })
                .collect();
            for pose in ends.into_iter().chain(near).chain(far) {
                if !wrong.holds(&case.pose, &pose) {
                    samples.push(site(pose), false, n);
                }
            }
            by_case.push(samples);
        }
        let pool =
            steerable_pool(&grid, orientation.features, &levels_for(prior, working, &[11.5, 23.0]));
        let train = |samples: &Labelled<PoseSite>, index| {
            let seed = input.seeds.derive(Stream::VerificationClassifier, index);
            PoseClassifier::train(
                backend,
                images,
                Steerable { grid },
                &pool,
                samples,
                classifier,
                seed,
            )
        };
        let folds = Folds::of(cases);
        let mut held_out = Vec::new();
        for fold in 0..folds.count() {
            let part = |inside: bool| {
                Labelled::concat(
                    by_case
                        .iter()
                        .enumerate()
                        .filter(|(n, _)| folds.holds_out(fold, cases[*n].subject) == inside)
                        .map(|(_, s)| s.clone()),
                )
            };
            let (test, rest) = (part(true), part(false));
            let c = train(&rest, 1 + fold)?;
            let mut labels = test.labels.iter();
            for sites in test.sites.chunk_by(|a, b| a.image == b.image) {
                let poses: Vec<Pose> = sites.iter().map(|s| s.pose).collect();
                let scores = c.score(backend, images[sites[0].image as usize], &poses)?;
                held_out.extend(
                    scores
                        .iter()
                        .zip(labels.by_ref())
                        .map(|(score, &label)| (score.log_odds(), label)),
                );
            }
        }
        let classifier = train(&Labelled::concat(by_case), 0)?;
        let VerificationConfig { doubtful_below, absent_below } = *config;
        // From different starts the refinement ends within about its own error; where there is one
        // basin, all starts belong to it.
        let (angle, center) = if prior.any_orientation { (8.0, 0.1) } else { (25.0, 0.3) };
        let same =
            Reach { angle_rad: f64::to_radians(angle), center_mm: center * d, log_size: 0.5 };
        let calibration = Calibration::fit(&held_out);
        Ok(Self {
            spec: VerificationSpec {
                doubtful_below,
                absent_below,
                same,
                shrinkage,
                error,
                calibration,
            },
            classifier,
        })
    }

    /// Probability that a pose of this score is right.
    pub fn probability(&self, score: Score) -> f64 {
        self.spec.calibration.probability(score.log_odds())
    }

    /// The best of the poses, settled; `None` of no poses.
    ///
    /// # Errors
    /// [`DetectError::Device`] when the device fails.
    pub fn best<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        poses: &[Pose],
        prior: &Prior,
    ) -> Result<Option<(Pose, Score)>, DetectError> {
        let scores = self.score(backend, image, poses)?;
        let best = best_indices(&scores, 1).first().copied();
        Ok(best.map(|best| (self.settle(poses, best, prior), scores[best])))
    }

    /// The median of those that converged to about the same place as the chosen one (some did not
    /// quite, and a mean would follow them), drawn towards the training mean as far as held-out
    /// cases say. The score stays that of the chosen one.
    pub(crate) fn settle(&self, poses: &[Pose], chosen: usize, prior: &Prior) -> Pose {
        let same = poses.iter().filter(|p| self.spec.same.holds(&poses[chosen], p));
        let found = median(&poses[chosen], same);
        self.spec.shrinkage.map_or(found, |shrinkage| shrinkage.shrink(&found, prior))
    }

    /// Scores of poses.
    pub(crate) fn score<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        poses: &[Pose],
    ) -> Result<Vec<Score>, DetectError> {
        self.classifier.score(backend, image, poses)
    }
}
