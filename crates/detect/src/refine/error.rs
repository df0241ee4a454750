//! How far from the truth the finish ends in cases that it did not see.

use crate::DetectError;
use crate::data::case::groups;
use crate::pose::step::{Reach, Step, spread};
use crate::random::Random;
use crate::refine::refinement::Finish;
use crate::stages::input::StageInput;
use nalgebra::{Matrix3, Vector3};
use pbt_tree::Backend;
use pbt_volume::Pose;
use serde::{Deserialize, Serialize};

/// Standard deviations of what the finish leaves, along and about the axes of the box.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FinishError {
    /// Of the centre along each axis, mm.
    pub center_mm: [f64; 3],
    /// Of the rotation vector, radians.
    pub angle: [f64; 3],
}

/// Parts that the cases are divided into.
const FOLDS: usize = 2;

/// Starts a structure and held-out case, with 0.4 of this as standard deviation: what the search
/// leaves, D being the unit of shifts.
const STARTS: usize = 2;
const START: Reach = Reach { angle: 0.15, center_mm: 0.1, log_size: 0.1 };

/// The median of |x| of a normal distribution times this is its standard deviation; it does not see
/// gross errors, which are no errors of the finish.
const MEDIAN_TO_DEVIATION: f64 = 1.4826;

impl FinishError {
    /// Trains the finish without each part of the cases in turn and starts it near the true poses
    /// there, those of look-alikes among them. `None` with a single case.
    pub(crate) fn measure<B: Backend>(
        input: &StageInput<'_, B>,
        train: impl Fn(&StageInput<'_, B>) -> Result<Finish, DetectError>,
    ) -> Result<Option<Self>, DetectError> {
        let &StageInput { backend, cases, images, prior, .. } = input;
        let config = input.config.for_held_out();
        let folds = groups(cases).min(FOLDS);
        if folds < 2 {
            return Ok(None);
        }
        let reach = Reach { center_mm: START.center_mm * prior.scale_mm, ..START };
        let mut steps = Vec::new();
        for fold in 0..folds {
            let fold = input.fold(fold, folds);
            let finish = train(&StageInput { config: &config, ..fold.input(input) })?;
            for n in fold.held_out.into_iter().filter(|&n| !cases[n].copy) {
                let mut random = Random::new(input.seed ^ 0x70, 12, n as u64);
                let truths: Vec<Pose> = cases[n].all().flat_map(|truth| [truth; STARTS]).collect();
                let starts: Vec<Pose> =
                    truths.iter().map(|truth| spread(truth, &reach, &mut random)).collect();
                let ends = finish.apply(backend, images[n], &starts);
                steps
                    .extend(ends.iter().zip(&truths).map(|(end, truth)| Step::between(end, truth)));
            }
        }
        let deviation = |value: &dyn Fn(&Step) -> f64| {
            let mut sizes: Vec<f64> = steps.iter().map(|step| value(step).abs()).collect();
            sizes.sort_by(f64::total_cmp);
            MEDIAN_TO_DEVIATION * sizes[sizes.len() / 2]
        };
        Ok(Some(Self {
            center_mm: std::array::from_fn(|a| deviation(&|step| step.shift_mm[a])),
            angle: std::array::from_fn(|a| deviation(&|step| step.rotation[a])),
        }))
    }

    /// Covariance of the centre in the frame of the box, mm².
    pub(crate) fn center_covariance(&self) -> Matrix3<f64> {
        Matrix3::from_diagonal(&Vector3::from(self.center_mm.map(|s| s * s)))
    }

    /// Covariance of the rotation vector in the frame of the box, radians².
    pub(crate) fn turn_covariance(&self) -> Matrix3<f64> {
        Matrix3::from_diagonal(&Vector3::from(self.angle.map(|s| s * s)))
    }

    /// Of a pose that is right with this probability only: by inverse covariances it weighs as much
    /// less. In cross-validation of the spines means fall by 1 % and the largest error from 5.3 to
    /// 3.9 mm, from ten cases by 1.5 %; the floor does not matter.
    pub(crate) fn doubted(&self, probability: f64) -> Self {
        let more = 1.0 / probability.max(0.001).sqrt();
        Self { center_mm: self.center_mm.map(|s| s * more), angle: self.angle.map(|s| s * more) }
    }

    /// Whether a file's numbers make sense.
    pub(crate) fn is_valid(&self) -> bool {
        self.center_mm.iter().all(|s| (0.0..=1e6).contains(s))
            && self.angle.iter().all(|s| (0.0..=10.0).contains(s))
    }
}
