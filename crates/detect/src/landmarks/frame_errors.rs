//! Frames as wrong as detection makes them: what landmark regressors learn from.

use crate::data::case::TrainingCase;
use crate::pose::step::Step;
use nalgebra::Vector3;
use pbt_volume::Pose;
use pbt_volume::Random;

/// Errors of frames as detection makes them: those that were measured, and their root mean squares
/// by component.
pub(super) struct FrameErrors {
    steps: Vec<Step>,
    rms: Step,
}

impl FrameErrors {
    pub(super) fn new(cases: &[TrainingCase], frames: &[Pose]) -> Self {
        let mut steps: Vec<Step> = cases
            .iter()
            .zip(frames)
            .map(|(case, frame)| Step::between(&case.pose, frame))
            .collect();
        // A box that was missed altogether is no frame; where detection misses it, landmarks are
        // lost anyway.
        let mut sizes: Vec<f64> = steps.iter().map(|s| s.shift_mm.norm()).collect();
        sizes.sort_by(f64::total_cmp);
        let (most_mm, most_angle) = (6.0 * sizes[sizes.len() / 2], 0.8);
        for step in &mut steps {
            if step.shift_mm.norm() > most_mm || step.rotation.norm() > most_angle {
                *step = Step {
                    rotation: Vector3::zeros(),
                    shift_mm: Vector3::zeros(),
                    log_size: [0.0; 3],
                };
            }
        }
        let rms = |f: &dyn Fn(&Step) -> f64| {
            (steps.iter().map(|s| f(s) * f(s)).sum::<f64>() / steps.len() as f64).sqrt()
        };
        let rms = Step {
            rotation: Vector3::from_fn(|a, _| rms(&|s| s.rotation[a])),
            shift_mm: Vector3::from_fn(|a, _| rms(&|s| s.shift_mm[a])),
            log_size: std::array::from_fn(|a| rms(&|s| s.log_size[a])),
        };
        Self { steps, rms }
    }

    /// A frame of a case: its own held-out one, moved at random by a share of the usual error.
    pub(super) fn draw(&self, n: usize, truth: &Pose, jitter: f64, random: &mut Random) -> Pose {
        let own = &self.steps[n];
        let mut vector =
            |rms: Vector3<f64>| Vector3::from_fn(|a, _| jitter * rms[a] * random.normal());
        Step {
            rotation: own.rotation + vector(self.rms.rotation),
            shift_mm: own.shift_mm + vector(self.rms.shift_mm),
            log_size: (Vector3::from(own.log_size) + vector(Vector3::from(self.rms.log_size)))
                .into(),
        }
        .apply(truth)
    }
}
