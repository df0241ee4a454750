//! The orientation stage: position candidates × rotations, scored jointly by a steerable
//! classifier.

use crate::DetectError;
use crate::data::case::TrainingCase;
use crate::pose::modes::{ModeRule, modes};
use crate::pose::prior::Prior;
use crate::random::Stream;
use crate::stages::classifier::{Labelled, PoseClassifier};
use crate::stages::input::StageInput;
use crate::stages::position::Candidate;
use crate::stages::sampling::{grid_for, levels_for};
use nalgebra::UnitQuaternion;
use pbt_features::steerable_pool;
use pbt_tree::{Backend, PoseSite, Steerable, best_indices};
use pbt_volume::{PointLps, Pose};
use serde::{Deserialize, Serialize};

/// What the stage keeps and how far apart its modes are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrientationSpec {
    /// Hypotheses that modes are sought in.
    pub keep: usize,
    /// Most modes.
    pub modes: usize,
    /// Modes differ by more than this angle, radians, or
    pub apart_rad: f64,
    /// by more than this distance, mm.
    pub apart_mm: f64,
}

/// The trained stage.
#[derive(Debug, Clone, PartialEq)]
pub struct OrientationStage {
    /// What the stage keeps.
    pub spec: OrientationSpec,
    /// The rotations that are tried.
    pub rotations: Vec<UnitQuaternion<f64>>,
    /// The classifier.
    pub classifier: PoseClassifier,
}

/// Within both limits of positives a hypothesis is one; beyond either limit of negatives it is a
/// negative. Angles in radians.
struct Limits {
    positive_angle_rad: f64,
    negative_angle_rad: f64,
    positive_mm: f64,
    negative_mm: f64,
}

impl Limits {
    fn new(prior: &Prior) -> Self {
        // Any orientation: 25° covers the gaps of 600 rotations, 45° leaves a margin. Otherwise in
        // proportion to the spread.
        let (positive_angle_rad, negative_angle_rad) = if prior.any_orientation {
            (25f64.to_radians(), 45f64.to_radians())
        } else {
            (
                prior.spread_rad.max(5f64.to_radians()),
                (1.8 * prior.spread_rad).max(10f64.to_radians()),
            )
        };
        Self {
            positive_angle_rad,
            negative_angle_rad,
            positive_mm: 0.09 * prior.scale_mm,
            negative_mm: 0.25 * prior.scale_mm,
        }
    }

    fn is_negative(&self, case: &TrainingCase, pose: &Pose) -> bool {
        let wrong = case.pose.angle_to(pose) > self.negative_angle_rad
            || case.pose.center.distance_mm(&pose.center) > self.negative_mm;
        wrong && !case.is_other(pose.center)
    }
}

impl OrientationStage {
    /// Trains the stage on what the position stage found in the training cases.
    pub(crate) fn train<B: Backend>(
        input: &StageInput<'_, B>,
        candidates: &[Vec<Candidate>],
    ) -> Result<Self, DetectError> {
        let &StageInput { backend, cases, images, working, prior, .. } = input;
        let (config, classifier) = (&input.config.orientation, &input.config.classifier);
        let poses: Vec<Pose> = cases.iter().map(|c| c.pose).collect();
        let rotations = prior.rotations(&poses, config);
        let apart_rad = if prior.any_orientation {
            35f64.to_radians()
        } else {
            prior.spread_rad.max(10f64.to_radians())
        };
        let spec = OrientationSpec {
            keep: config.keep,
            modes: config.modes,
            apart_rad,
            apart_mm: 0.25 * prior.scale_mm,
        };
        let levels = levels_for(prior, working, &[11.5, 23.0]);
        let grid = grid_for(prior, config.points_across, 0.1 * prior.scale_mm);
        let pool = steerable_pool(&grid, config.features, &levels);
        let limits = Limits::new(prior);
        let mut samples = Labelled::concat(
            (0..cases.len()).map(|n| draw(n, input, &candidates[n], &limits, &rotations)),
        );
        let train = |samples: &Labelled<PoseSite>, index: usize| {
            let classifier = PoseClassifier::train(
                backend,
                images,
                Steerable { grid },
                &pool,
                samples,
                classifier,
                input.seeds.derive(Stream::OrientationClassifier, index),
            )?;
            Ok::<_, DetectError>(Self {
                spec: spec.clone(),
                rotations: rotations.clone(),
                classifier,
            })
        };
        let mut stage = train(&samples, 0)?;
        for repetition in 0..config.bootstrap {
            for (n, case) in cases.iter().enumerate() {
                let hypotheses = stage.hypotheses(&candidates[n], prior);
                let scores = stage.classifier.score(backend, images[n], &hypotheses)?;
                let wrong = best_indices(&scores, config.keep)
                    .into_iter()
                    .filter(|&h| limits.is_negative(case, &hypotheses[h]));
                for h in wrong.take((6000 / cases.len()).clamp(10, 200)) {
                    samples.push(PoseSite { image: n as u32, pose: hypotheses[h] }, false, n);
                }
            }
            stage = train(&samples, 1 + repetition)?;
        }
        Ok(stage)
    }

    /// Every candidate with every rotation, at the mean size.
    fn hypotheses(&self, candidates: &[Candidate], prior: &Prior) -> Vec<Pose> {
        candidates
            .iter()
            .flat_map(|c| {
                self.rotations.iter().map(|&orientation| Pose {
                    center: prior.place(c.point),
                    orientation,
                    size_mm: prior.mean_size_mm,
                })
            })
            .collect()
    }

    /// The modes of an image, and the pose that the prior expects there.
    ///
    /// # Errors
    /// [`DetectError::Device`] when the device fails.
    pub fn detect<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        candidates: &[Candidate],
        prior: &Prior,
        middle: PointLps,
    ) -> Result<Vec<Pose>, DetectError> {
        let hypotheses = self.hypotheses(candidates, prior);
        let scores = self.classifier.score(backend, image, &hypotheses)?;
        let OrientationSpec { keep, modes: most, apart_rad, apart_mm } = self.spec;
        let mut found =
            modes(&hypotheses, &scores, &ModeRule { apart_rad, apart_mm, keep, modes: most });
        found.extend(prior.expected(middle));
        Ok(found)
    }
}

impl OrientationStage {
    /// For each candidate the rotation that looks best there, as a pose: of a structure that occurs
    /// several times.
    ///
    /// # Errors
    /// [`DetectError::Device`] when the device fails.
    pub(crate) fn detect_each<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        candidates: &[Candidate],
        prior: &Prior,
    ) -> Result<Vec<Pose>, DetectError> {
        let hypotheses = self.hypotheses(candidates, prior);
        let scores = self.classifier.score(backend, image, &hypotheses)?;
        let rotations = self.rotations.len();
        let each = hypotheses.chunks(rotations).zip(scores.chunks(rotations));
        Ok(each
            .filter_map(|(poses, scores)| Some(poses[*best_indices(scores, 1).first()?]))
            .collect())
    }
}

/// |ln| of the sizes of positives relative to the mean size.
const SIZE_JITTER: f64 = 0.1;

/// Positives round the truth; negatives turned wrongly at the truth and at the candidates, and put
/// wrongly.
fn draw<B: Backend>(
    n: usize,
    input: &StageInput<'_, B>,
    candidates: &[Candidate],
    limits: &Limits,
    rotations: &[UnitQuaternion<f64>],
) -> Labelled<PoseSite> {
    let (case, prior) = (&input.cases[n], input.prior);
    let truth = &case.pose;
    let mut random = input.seeds.random(Stream::OrientationHypotheses, n);
    let mut samples = Labelled::new();
    let mut push = |pose: Pose, label| samples.push(PoseSite { image: n as u32, pose }, label, n);
    let positives = (6000 / input.cases.len()).clamp(20, 200);
    for _ in 0..positives {
        let angle = random.between(0.0, limits.positive_angle_rad);
        let axis = random.axis();
        push(
            Pose {
                center: PointLps(truth.center.0 + random.in_ball(limits.positive_mm)),
                orientation: truth.orientation * pbt_volume::rotation_from_vector(axis * angle),
                // The stage looks with the mean size whatever the structure's own, so smaller and
                // larger structures than were trained on must look right too.
                size_mm: {
                    let size = libm::exp(random.between(-SIZE_JITTER, SIZE_JITTER));
                    prior.mean_size_mm.map(|s| s * size)
                },
            },
            true,
        );
    }
    for n in 0..6 * positives {
        let center = match candidates.len() {
            0 => truth.center,
            len if n % 4 != 3 => prior.place(candidates[random.below(len)].point),
            _ => PointLps(truth.center.0 + random.in_ball(2.0 * limits.negative_mm)),
        };
        let orientation = if prior.any_orientation {
            match n % 4 {
                0 | 3 => random.rotation(),
                1 => {
                    truth.orientation
                        * random.rotation_by(limits.negative_angle_rad, 80f64.to_radians())
                }
                _ => {
                    truth.orientation
                        * random.rotation_by(150f64.to_radians(), core::f64::consts::PI)
                }
            }
        } else {
            match n % 2 {
                0 => rotations[random.below(rotations.len())],
                _ => {
                    truth.orientation
                        * random
                            .rotation_by(limits.negative_angle_rad, 2.0 * limits.negative_angle_rad)
                }
            }
        };
        let pose = Pose { center, orientation, size_mm: prior.mean_size_mm };
        if limits.is_negative(case, &pose) {
            push(pose, false);
        }
    }
    samples
}
