//! How far the image is to be trusted against the expectation, measured on training cases that the
//! refinement did not see.
//!
//! With a handful of cases or hardly visible borders, a regressor overshoots: the best estimate
//! lies between the expected pose and where the refinement ends. The share is the least-squares one
//! over held-out cases, plus its standard error, so that only what is sure is drawn back. With many
//! cases the share is close to 1 and what is measured on a part of them is too pessimistic, so it
//! is not used there.

use crate::DetectError;
use crate::data::case::{TrainingCase, originals};
use crate::data::folds::Folds;
use crate::pose::modes::middle_of;
use crate::pose::step::Step;
use crate::refine::refinement::RefinementTrainer;
use crate::stages::input::StageInput;
use pbt_tree::Backend;
use pbt_volume::Pose;
use serde::{Deserialize, Serialize};

/// From so many annotated structures on the refinement is trusted as it is.
const MANY_CASES: usize = 40;

/// Structures that were annotated, without copies of cases.
fn annotated(cases: &[TrainingCase]) -> usize {
    let all: usize = cases.iter().map(|case| case.all().count()).sum();
    all * originals(cases) / cases.len().max(1)
}

/// Shares of the way from the expected pose to the found one, and the errors that are left, both
/// from held-out cases.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shrinkage {
    /// Share of the shift, 0 to 1.
    pub shift: f64,
    /// Share of the rotation, 0 to 1.
    pub rotation: f64,
    /// Share of the log ratio of sizes, 0 to 1.
    pub size: f64,
    /// Root mean square distance of the centres that is left, mm.
    pub rms_mm: f64,
    /// Root mean square angle that is left, radians.
    pub rms_angle_rad: f64,
}

impl Shrinkage {
    /// The found pose, drawn towards the expected one.
    pub fn shrink(&self, found: &Pose, expected: &Pose) -> Pose {
        let step = Step::between(expected, found);
        Step {
            rotation: step.rotation * self.rotation,
            shift_mm: step.shift_mm * self.shift,
            log_size: step.log_size.map(|s| s * self.size),
        }
        .apply(expected)
    }

    /// Trains the refinement without each part of the cases in turn and sees where it ends in them.
    /// `None` where any orientation is possible, since then nothing is expected.
    pub(crate) fn measure<B: Backend>(
        input: &StageInput<'_, B>,
        modes: &[Vec<Pose>],
        trainer: &RefinementTrainer<'_, B>,
    ) -> Result<Option<Self>, DetectError> {
        let &StageInput { backend, cases, images, prior, .. } = input;
        if prior.any_orientation || annotated(cases) >= MANY_CASES {
            return Ok(None);
        }
        let expected = |n: usize| prior.expected(cases[n].middle());
        // Leaving out few cases, what is left resembles the whole.
        let folds = Folds::of(cases, 4);
        let mut steps = Vec::with_capacity(cases.len());
        for fold in 0..folds.count() {
            let fold = input.fold(folds, fold);
            let refinement = trainer.train(&fold.input(input))?;
            for n in fold.held_out {
                let ends = refinement.apply(backend, images[n], &modes[n]);
                if let (Some(expected), Some(end)) = (expected(n), middle_of(&ends)) {
                    steps.push((
                        Step::between(&expected, &end),
                        Step::between(&expected, &cases[n].pose),
                    ));
                }
            }
        }
        let share = |inner: &dyn Fn(&Step, &Step) -> f64| {
            let sum = |f: &dyn Fn(&(Step, Step)) -> f64| steps.iter().map(f).sum::<f64>();
            let (cross, own, truth) = (
                sum(&|(f, t)| inner(f, t)),
                sum(&|(f, _)| inner(f, f)),
                sum(&|(_, t)| inner(t, t)),
            );
            if own <= 0.0 {
                return 1.0;
            }
            let best = cross / own;
            // Three components a case, one parameter.
            let left = (truth - 2.0 * best * cross + best * best * own).max(0.0)
                / (3 * steps.len() - 1) as f64;
            (best + (left / own).sqrt()).clamp(0.0, 1.0)
        };
        let shift = share(&|a, b| a.shift_mm.dot(&b.shift_mm));
        let rotation = share(&|a, b| a.rotation.dot(&b.rotation));
        let size = share(&|a, b| (0..3).map(|i| a.log_size[i] * b.log_size[i]).sum());
        let rms = |left: &dyn Fn(&Step, &Step) -> f64| {
            (steps.iter().map(|(f, t)| left(f, t)).sum::<f64>() / steps.len().max(1) as f64).sqrt()
        };
        Ok(Some(Self {
            shift,
            rotation,
            size,
            rms_mm: rms(&|f, t| (t.shift_mm - f.shift_mm * shift).norm_squared()),
            rms_angle_rad: rms(&|f, t| (t.rotation - f.rotation * rotation).norm_squared()),
        }))
    }

    /// Whether a file's numbers make sense.
    pub(crate) fn is_valid(&self) -> bool {
        [self.shift, self.rotation, self.size].iter().all(|s| (0.0..=1.0).contains(s))
            && self.rms_mm.is_finite()
            && self.rms_angle_rad.is_finite()
    }
}
