//! The orientation stage: position candidates × rotations, scored jointly by a steerable
//! classifier.

use crate::DetectError;
use crate::case::WorkingSpec;
use crate::classifier::{Labelled, PoseClassifier};
use crate::cover::Random;
use crate::modes::{ModeRule, modes};
use crate::position::Candidate;
use crate::prior::{Prior, level_for};
use crate::stage_input::StageInput;
use nalgebra::UnitQuaternion;
use pbt_features::{BoxGrid, steerable_pool};
use pbt_tree::{Backend, PoseSite, Steerable, best_indices};
use pbt_volume::{PointLps, Pose};
use serde::{Deserialize, Serialize};

/// What the stage keeps and how far its modes are apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrientationSpec {
    /// Hypotheses that modes are sought in.
    pub keep: usize,
    /// Most modes.
    pub modes: usize,
    /// Modes differ by more than this angle, radians, or
    pub apart: f64,
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

/// Within these a hypothesis is a positive, beyond the others a negative. Angles in radians.
struct Limits {
    positive_angle: f64,
    negative_angle: f64,
    positive_mm: f64,
    negative_mm: f64,
}

impl Limits {
    fn new(prior: &Prior) -> Self {
        // Any orientation: 25° covers the gaps of 600 rotations, 45° leaves a margin. Otherwise in
        // proportion to the spread.
        let (positive_angle, negative_angle) = if prior.any_orientation {
            (25f64.to_radians(), 45f64.to_radians())
        } else {
            (prior.spread.max(5f64.to_radians()), (1.8 * prior.spread).max(10f64.to_radians()))
        };
        Self {
            positive_angle,
            negative_angle,
            positive_mm: 0.09 * prior.scale_mm,
            negative_mm: 0.25 * prior.scale_mm,
        }
    }

    fn is_negative(&self, truth: &Pose, pose: &Pose) -> bool {
        truth.angle_to(pose) > self.negative_angle
            || truth.center.distance_mm(&pose.center) > self.negative_mm
    }
}

/// Points along each axis in proportion to the edge lengths, about `across` along D; the grid
/// reaches `margin_mm` beyond the box.
pub(crate) fn grid_for(prior: &Prior, across: f64, margin_mm: f64) -> BoxGrid {
    let longer = prior.mean_size_mm.map(|s| s + 2.0 * margin_mm);
    let scale = libm::cbrt(longer.iter().product());
    BoxGrid {
        // The power below 1 keeps thin directions sampled.
        points: longer
            .map(|s| libm::round(across * libm::pow(s / scale, 0.7)).clamp(3.0, 32.0) as u8),
        extent: std::array::from_fn(|a| longer[a] / prior.mean_size_mm[a]),
    }
}

impl OrientationStage {
    /// Trains the stage on what the position stage found in the training cases.
    pub(crate) fn train<B: Backend>(
        input: &StageInput<'_, B>,
        candidates: &[Vec<Candidate>],
    ) -> Result<Self, DetectError> {
        let &StageInput { backend, cases, images, working, prior, .. } = input;
        let (config, classifier, seed) =
            (&input.config.orientation, &input.config.classifier, input.seed ^ 0x20);
        let poses: Vec<Pose> = cases.iter().map(|c| c.pose).collect();
        let rotations = prior.rotations(&poses, config);
        let apart = if prior.any_orientation {
            35f64.to_radians()
        } else {
            prior.spread.max(10f64.to_radians())
        };
        let spec = OrientationSpec {
            keep: config.keep,
            modes: config.modes,
            apart,
            apart_mm: 0.25 * prior.scale_mm,
        };
        let levels = levels_for(prior, working, &[11.5, 23.0]);
        let grid = grid_for(prior, config.points_across, 0.1 * prior.scale_mm);
        let pool = steerable_pool(&grid, config.features, &levels);
        let limits = Limits::new(prior);
        let mut samples = Labelled::concat(
            (0..cases.len()).map(|n| draw(n, input, &candidates[n], &limits, &rotations, seed)),
        );
        let train = |samples: &Labelled<PoseSite>, round: u64| {
            let classifier = PoseClassifier::train(
                backend,
                images,
                Steerable { grid },
                &pool,
                samples,
                classifier,
                seed.wrapping_add(round),
            )?;
            Ok::<_, DetectError>(Self {
                spec: spec.clone(),
                rotations: rotations.clone(),
                classifier,
            })
        };
        let mut stage = train(&samples, 0)?;
        for round in 0..config.bootstrap {
            for (n, case) in cases.iter().enumerate() {
                let hypotheses = stage.hypotheses(&candidates[n], prior);
                let scores = stage.classifier.score(backend, images[n], &hypotheses);
                let wrong = best_indices(&scores, config.keep)
                    .into_iter()
                    .filter(|&h| limits.is_negative(&case.pose, &hypotheses[h]));
                for h in wrong.take((6000 / cases.len()).clamp(10, 200)) {
                    samples.push(PoseSite { image: n as u32, pose: hypotheses[h] }, false, n);
                }
            }
            stage = train(&samples, 1 + round as u64)?;
        }
        Ok(stage)
    }

    /// Every candidate with every rotation, at the mean size.
    fn hypotheses(&self, candidates: &[Candidate], prior: &Prior) -> Vec<Pose> {
        candidates
            .iter()
            .flat_map(|c| {
                self.rotations.iter().map(|&orientation| Pose {
                    center: c.point,
                    orientation,
                    size_mm: prior.mean_size_mm,
                })
            })
            .collect()
    }

    /// The modes of an image, and the pose that the prior expects there.
    pub fn detect<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        candidates: &[Candidate],
        prior: &Prior,
        middle: PointLps,
    ) -> Vec<Pose> {
        let hypotheses = self.hypotheses(candidates, prior);
        let scores = self.classifier.score(backend, image, &hypotheses);
        let OrientationSpec { keep, modes: most, apart, apart_mm } = self.spec;
        let mut found =
            modes(&hypotheses, &scores, &ModeRule { apart, apart_mm, keep, modes: most });
        found.extend(prior.expected(middle));
        found
    }
}

/// Distinct pyramid levels on which the structure has about so many voxels across.
pub(crate) fn levels_for(prior: &Prior, working: &WorkingSpec, voxels_across: &[f64]) -> Vec<u8> {
    let level = |&across: &f64| {
        level_for(prior.scale_mm, working.spacing_mm, across).min(working.levels - 1) as u8
    };
    let mut levels: Vec<u8> = voxels_across.iter().map(level).collect();
    levels.sort_unstable_by(|a, b| b.cmp(a));
    levels.dedup();
    levels
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
    seed: u64,
) -> Labelled<PoseSite> {
    let (truth, prior) = (&input.cases[n].pose, input.prior);
    let mut random = Random::new(seed, 3, n as u64);
    let mut samples = Labelled::new();
    let mut push = |pose: Pose, label| samples.push(PoseSite { image: n as u32, pose }, label, n);
    let positives = (6000 / input.cases.len()).clamp(20, 200);
    for _ in 0..positives {
        let angle = random.between(0.0, limits.positive_angle);
        let axis = random.direction();
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
            len if n % 4 != 3 => candidates[random.below(len)].point,
            _ => PointLps(truth.center.0 + random.in_ball(2.0 * limits.negative_mm)),
        };
        let orientation = if prior.any_orientation {
            match n % 4 {
                0 | 3 => random.rotation(),
                1 => {
                    truth.orientation
                        * random.rotation_by(limits.negative_angle, 80f64.to_radians())
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
                        * random.rotation_by(limits.negative_angle, 2.0 * limits.negative_angle)
                }
            }
        };
        let pose = Pose { center, orientation, size_mm: prior.mean_size_mm };
        if limits.is_negative(truth, &pose) {
            push(pose, false);
        }
    }
    samples
}
