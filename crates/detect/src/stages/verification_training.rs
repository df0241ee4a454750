//! Training samples of verification: right poses near the truth, and wrong ones, among them wrong
//! results of the refinement.

use crate::DetectError;
use crate::data::folds::Folds;
use crate::pose::shrinkage::Shrinkage;
use crate::pose::step::{Reach, perturbed};
use crate::random::Stream;
use crate::stages::classifier::{Labelled, PoseClassifier};
use crate::stages::input::StageInput;
use crate::stages::sampling::{grid_for, levels_for};
use pbt_features::{BoxGrid, steerable_pool};
use pbt_tree::{Backend, PoseSite, Steerable};
use pbt_volume::{PointLps, Pose};

/// The labelled poses of the training cases.
pub(super) struct VerificationTraining<'a, B: Backend> {
    input: &'a StageInput<'a, B>,
    grid: BoxGrid,
    by_case: Vec<Labelled<PoseSite>>,
}

impl<'a, B: Backend> VerificationTraining<'a, B> {
    /// Poses about the truth, where `refine` ends from the modes that were found and from random
    /// starts, and places far off. `shrinkage` carries the refinement's held-out error.
    pub(super) fn new(
        input: &'a StageInput<'a, B>,
        found: &[Vec<Pose>],
        refine: impl Fn(&B::Image, &[Pose]) -> Result<Vec<Pose>, DetectError>,
        shrinkage: Option<Shrinkage>,
    ) -> Result<Self, DetectError> {
        let &StageInput { cases, images, prior, .. } = input;
        let orientation = &input.config.orientation;
        let d = prior.scale_mm;
        let size = (2.5 * prior.log_size_spread).clamp(0.06, 0.4);
        // Right: the truth jittered by the refinement's held-out error. Wrong: well beyond that.
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
                if !wrong.holds(&case.pose, &pose) && !case.is_other(pose.center) {
                    samples.push(site(pose), false, n);
                }
            }
            by_case.push(samples);
        }
        Ok(Self { input, grid, by_case })
    }

    /// Log-odds and truth of poses of cases that the classifier has not seen.
    pub(super) fn held_out(&self) -> Result<Vec<(f64, bool)>, DetectError> {
        let &StageInput { backend, cases, images, .. } = self.input;
        let folds = Folds::of(cases);
        let mut held_out = Vec::new();
        // Without the only subject nothing would be left to learn from.
        if folds.count() < 2 {
            return Ok(held_out);
        }
        for fold in 0..folds.count() {
            let part = |inside: bool| {
                Labelled::concat(
                    self.by_case
                        .iter()
                        .enumerate()
                        .filter(|(n, _)| folds.holds_out(fold, cases[*n].subject) == inside)
                        .map(|(_, s)| s.clone()),
                )
            };
            let (test, rest) = (part(true), part(false));
            let c = self.train(&rest, 1 + fold)?;
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
        Ok(held_out)
    }

    /// The classifier that learns from all cases.
    pub(super) fn classifier(&self) -> Result<PoseClassifier, DetectError> {
        self.train(&Labelled::concat(self.by_case.iter().cloned()), 0)
    }

    fn train(
        &self,
        samples: &Labelled<PoseSite>,
        index: usize,
    ) -> Result<PoseClassifier, DetectError> {
        let &StageInput { backend, images, working, prior, config, seeds, .. } = self.input;
        let (features, levels) =
            (config.orientation.features, levels_for(prior, working, &[11.5, 23.0]));
        PoseClassifier::train(
            backend,
            images,
            Steerable { grid: self.grid },
            &steerable_pool(&self.grid, features, &levels),
            samples,
            &config.classifier,
            seeds.derive(Stream::VerificationClassifier, index),
        )
    }
}
