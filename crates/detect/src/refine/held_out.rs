//! Where refinements end in cases that they have not seen.
//!
//! A refinement fits its training cases far better than others. So it is trained again without each
//! part of the cases in turn, and where it ends in the part left out says what detection will offer.

use crate::DetectError;
use crate::data::case::subjects;
use crate::data::folds::Folds;
use crate::metrics::BoxError;
use crate::pose::error::PoseError;
use crate::pose::modes::median;
use crate::pose::step::{Reach, Step, spread};
use crate::random::Random;
use crate::refine::refinement::RefinementTrainer;
use crate::stages::input::StageInput;
use crate::stages::verification::VerificationStage;
use pbt_tree::Backend;
use pbt_volume::Pose;

/// Starts a structure and held-out case, with 0.4 of this as standard deviation: what the search
/// leaves, D being the unit of shifts.
const STARTS: usize = 2;
const START: Reach = Reach { angle_rad: 0.15, center_mm: 0.1, log_size: 0.1 };

/// The median of |x| of a normal distribution times this is its standard deviation; it does not see
/// gross errors, which are no errors of the refinement.
const MEDIAN_TO_DEVIATION: f64 = 1.4826;

/// How far from the truth refinements end that start near it, look-alikes among them. `None` with a
/// single subject.
pub(crate) fn pose_error<B: Backend>(
    input: &StageInput<'_, B>,
    trainer: &RefinementTrainer<'_, B>,
) -> Result<Option<PoseError>, DetectError> {
    let &StageInput { backend, cases, images, prior, .. } = input;
    let config = input.config.for_held_out();
    let folds = Folds::of(cases, 2);
    if folds.count() < 2 {
        return Ok(None);
    }
    let reach = Reach { center_mm: START.center_mm * prior.scale_mm, ..START };
    let mut steps = Vec::new();
    for fold in 0..folds.count() {
        let fold = input.fold(folds, fold);
        let refinement = trainer.train(&StageInput { config: &config, ..fold.input(input) })?;
        for n in fold.held_out.into_iter().filter(|&n| !cases[n].copy) {
            let mut random = Random::new(input.seed ^ 0x70, 12, n as u64);
            let truths: Vec<Pose> = cases[n].all().flat_map(|truth| [truth; STARTS]).collect();
            let starts: Vec<Pose> =
                truths.iter().map(|truth| spread(truth, &reach, &mut random)).collect();
            let ends = refinement.apply(backend, images[n], &starts);
            steps.extend(ends.iter().zip(&truths).map(|(end, truth)| Step::between(end, truth)));
        }
    }
    let deviation = |value: &dyn Fn(&Step) -> f64| {
        let mut sizes: Vec<f64> = steps.iter().map(|step| value(step).abs()).collect();
        sizes.sort_by(f64::total_cmp);
        MEDIAN_TO_DEVIATION * sizes[sizes.len() / 2]
    };
    Ok(Some(PoseError {
        center_mm: std::array::from_fn(|a| deviation(&|step| step.shift_mm[a])),
        angle_rad: std::array::from_fn(|a| deviation(&|step| step.rotation[a])),
    }))
}

/// Where detection would put the box of each training case if it did not know the case.
pub(crate) fn frames<B: Backend>(
    input: &StageInput<'_, B>,
    trainer: &RefinementTrainer<'_, B>,
    verification: &VerificationStage,
    modes: &[Vec<Pose>],
) -> Result<Vec<Pose>, DetectError> {
    let &StageInput { backend, cases, images, prior, .. } = input;
    let config = input.config.for_held_out();
    // Leaving out few cases, what is left resembles the whole; with many cases half of them do.
    let folds = Folds::of(cases, if subjects(cases) < 40 { 3 } else { 2 });
    let mut frames: Vec<Pose> = cases.iter().map(|c| c.pose).collect();
    for fold in 0..folds.count() {
        let fold = input.fold(folds, fold);
        let refinement = trainer.train(&StageInput { config: &config, ..fold.input(input) })?;
        for n in fold.held_out {
            let ends = refinement.apply(backend, images[n], &modes[n]);
            // Verification picks the right one; here the truth stands in for it.
            let distance = |p: &Pose| BoxError::new(p, &cases[n].pose).corner_mm;
            let Some(best) = ends.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))) else {
                continue;
            };
            let found = median(best, ends.iter().filter(|p| verification.spec.same.holds(best, p)));
            frames[n] = match (verification.spec.shrinkage, prior.expected(cases[n].middle())) {
                (Some(shrinkage), Some(expected)) => shrinkage.shrink(&found, &expected),
                _ => found,
            };
        }
    }
    Ok(frames)
}
