//! Where the refinement ends in cases that it has not seen.
//!
//! A refinement fits its training cases far better than others. So it is trained again without each
//! part of the cases in turn, and where it ends in the part left out says what detection will
//! offer: how far orientation and size overshoot, what neighbours may expect of a pose, and in
//! which frames landmarks will be sought.

use crate::DetectError;
use crate::data::case::TrainingCase;
use crate::data::folds::Folds;
use crate::pose::error::PoseError;
use crate::pose::shrinkage::{Shrinkage, end_at, upper_median};
use crate::pose::step::{Reach, Step, perturbed_normally};
use crate::random::Stream;
use crate::refine::refinement::RefinementTrainer;
use crate::stages::input::StageInput;
use crate::stages::verification::VerificationStage;
use nalgebra::Vector3;
use pbt_evaluate::BoxError;
use pbt_tree::Backend;
use pbt_volume::Pose;
use std::cell::OnceCell;

/// Number of starts per structure and held-out case.
const STARTS: usize = 2;

/// Reach of the starts, of which 0.4 is their standard deviation: what the search leaves, D being the
/// unit of shifts.
const START: Reach = Reach { angle_rad: 0.15, center_mm: 0.1, log_size: 0.1 };

/// The median of |x| of a normal distribution times this is its standard deviation; it does not see
/// gross errors, which are no errors of the refinement.
const MEDIAN_TO_DEVIATION: f64 = 1.4826;

/// Where refinements end that have not seen the case.
pub(crate) struct HeldOutPass {
    /// By case, where its modes end.
    ends: Vec<Vec<Pose>>,
    /// Of starts near the truth, look-alikes among them: from where they end to the truth.
    left: Vec<Step>,
}

/// [`HeldOutPass`], measured when it is first asked for: not every structure needs it.
pub(crate) struct HeldOutOnce<'a, B: Backend> {
    pub(crate) input: &'a StageInput<'a, B>,
    trainer: &'a RefinementTrainer<'a, B>,
    /// By case, what the orientation stage found.
    pub(crate) modes: &'a [Vec<Pose>],
    measured: OnceCell<Option<HeldOutPass>>,
}

impl<'a, B: Backend> HeldOutOnce<'a, B> {
    pub(crate) fn new(
        input: &'a StageInput<'a, B>,
        trainer: &'a RefinementTrainer<'a, B>,
        modes: &'a [Vec<Pose>],
    ) -> Self {
        Self { input, trainer, modes, measured: OnceCell::new() }
    }

    /// `None` with a single subject.
    pub(crate) fn get(&self) -> Result<Option<&HeldOutPass>, DetectError> {
        if let Some(measured) = self.measured.get() {
            return Ok(measured.as_ref());
        }
        let measured = HeldOutPass::measure(self.input, self.trainer, self.modes)?;
        Ok(self.measured.get_or_init(|| measured).as_ref())
    }
}

impl HeldOutPass {
    /// Trains the refinement without each part of the cases and applies it there. `None` with a
    /// single subject.
    fn measure<B: Backend>(
        input: &StageInput<'_, B>,
        trainer: &RefinementTrainer<'_, B>,
        modes: &[Vec<Pose>],
    ) -> Result<Option<Self>, DetectError> {
        let &StageInput { backend, cases, images, prior, .. } = input;
        let folds = Folds::of(cases);
        if folds.count() < 2 {
            return Ok(None);
        }
        let config = input.config.for_held_out();
        let reach = Reach { center_mm: START.center_mm * prior.scale_mm, ..START };
        let mut ends = vec![Vec::new(); cases.len()];
        let mut left = Vec::new();
        for fold in 0..folds.count() {
            let fold = input.fold(folds, fold);
            let refinement = trainer.train(&StageInput { config: &config, ..fold.input(input) })?;
            for n in fold.held_out {
                ends[n] = refinement.apply(backend, images[n], &modes[n])?;
                if cases[n].copy {
                    continue;
                }
                let mut random = input.seeds.random(Stream::HeldOutStarts, n);
                let truths: Vec<Pose> = cases[n].all().flat_map(|truth| [truth; STARTS]).collect();
                let starts: Vec<Pose> = truths
                    .iter()
                    .map(|truth| perturbed_normally(truth, &reach, &mut random))
                    .collect();
                let near = refinement.apply(backend, images[n], &starts)?;
                left.extend(near.iter().zip(&truths).map(|(end, truth)| Step::between(end, truth)));
            }
        }
        Ok(Some(Self { ends, left }))
    }

    /// Whether shrinkage is measured: not where any orientation is possible, since then there is no
    /// mean.
    pub(crate) fn tells_shrinkage<B: Backend>(input: &StageInput<'_, B>) -> bool {
        !input.prior.any_orientation
    }

    /// How far orientation and size overshoot. `None` where it is not
    /// measured.
    pub(crate) fn shrinkage<B: Backend>(&self, input: &StageInput<'_, B>) -> Option<Shrinkage> {
        let &StageInput { cases, prior, .. } = input;
        if !Self::tells_shrinkage(input) {
            return None;
        }
        let pair = |(case, ends): (&TrainingCase, &Vec<Pose>)| {
            Some((end_at(&case.pose, ends, prior.scale_mm)?, case.pose))
        };
        let pairs: Vec<(Pose, Pose)> = cases.iter().zip(&self.ends).filter_map(pair).collect();
        Some(Shrinkage::fit(&pairs, prior, &input.config.shrinkage))
    }

    /// Standard deviations of the errors about the structure. Drawn towards the mean, orientations are on the
    /// whole no farther off than true ones vary: a ring that refinement turns at will is turned back.
    pub(crate) fn pose_error<B: Backend>(&self, input: &StageInput<'_, B>) -> PoseError {
        let found = deviations(&self.left);
        if !Self::tells_shrinkage(input) {
            return found;
        }
        let mean = |truth: &Pose| Pose { orientation: input.prior.middle, ..*truth };
        let of_mean = |case: &TrainingCase| Step::between(&mean(&case.pose), &case.pose);
        let vary = deviations(&input.cases.iter().map(of_mean).collect::<Vec<_>>());
        let length = |error: &PoseError| Vector3::from(error.angle_rad).norm();
        let left = (length(&vary) / length(&found)).min(1.0);
        PoseError { angle_rad: found.angle_rad.map(|angle| left * angle), ..found }
    }

    /// Where detection would put the box of each training case if it did not know the case.
    pub(crate) fn frames<B: Backend>(
        &self,
        input: &StageInput<'_, B>,
        verification: &VerificationStage,
    ) -> Vec<Pose> {
        let frame = |(case, ends): (&TrainingCase, &Vec<Pose>)| {
            // Verification picks the right one; here the truth stands in for it, and all ends weigh as much.
            let distance = |pose: &Pose| BoxError::new(pose, &case.pose).corner_mm;
            (0..ends.len())
                .min_by(|&a, &b| distance(&ends[a]).total_cmp(&distance(&ends[b])))
                .map_or(case.pose, |best| verification.settle(ends, |_| 0.0, best, input.prior))
        };
        input.cases.iter().zip(&self.ends).map(frame).collect()
    }
}

/// Of steps that are left to the truth.
fn deviations(left: &[Step]) -> PoseError {
    let deviation = |value: &dyn Fn(&Step) -> f64| {
        MEDIAN_TO_DEVIATION * upper_median(left.iter().map(|step| value(step).abs()))
    };
    PoseError {
        center_mm: std::array::from_fn(|a| deviation(&|step| step.shift_mm[a])),
        angle_rad: std::array::from_fn(|a| deviation(&|step| step.rotation[a])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_stands_for_a_deviation() {
        let step = |x: f64| Step {
            rotation: nalgebra::Vector3::new(x, 0.0, 0.0),
            shift_mm: nalgebra::Vector3::new(0.0, 2.0 * x, 0.0),
            log_size: [0.0; 3],
        };
        // One gross error among errors of one size.
        let left: Vec<Step> = (0..9).map(|n| step(if n == 8 { 50.0 } else { 1.0 })).collect();
        let error = deviations(&left);
        assert!((error.angle_rad[0] - MEDIAN_TO_DEVIATION).abs() < 1e-12);
        assert!((error.center_mm[1] - 2.0 * MEDIAN_TO_DEVIATION).abs() < 1e-12);
        assert_eq!(error.center_mm[0], 0.0);
    }
}
