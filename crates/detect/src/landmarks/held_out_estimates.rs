//! Where landmark regressors end in cases that they have not seen.

use crate::DetectError;
use crate::config::landmarks::LandmarksConfig;
use crate::data::case::TrainingCase;
use crate::data::folds::Folds;
use crate::landmarks::annotated::AnnotatedLandmark;
use crate::landmarks::stage::{LandmarkStage, step_between};
use crate::stages::input::StageInput;
use nalgebra::Vector3;
use pbt_tree::Backend;
use pbt_volume::{PointLps, Pose};

/// The errors of cases that are no copies.
pub(super) fn independent(
    cases: &[TrainingCase],
    landmarks: &[AnnotatedLandmark],
    errors: &[Vec<Option<Estimates>>],
) -> Vec<Vec<Estimates>> {
    let of = |((_, points), errors): (&AnnotatedLandmark, &Vec<Option<Estimates>>)| {
        points
            .iter()
            .zip(errors)
            .filter(|((case, _), _)| !cases[*case].copy)
            .filter_map(|(_, estimates)| estimates.clone())
            .collect()
    };
    landmarks.iter().zip(errors).map(of).collect()
}

pub(super) fn stacked(weights: &[f64], estimates: &Estimates) -> Vector3<f64> {
    weights.iter().zip(estimates).map(|(&weight, step)| step * weight).sum()
}

/// The way from the truth to a landmark's mean position and to where each regressor puts it, in the
/// frame of the box, in D.
pub(super) type Estimates = Vec<Vector3<f64>>;

/// By landmark and annotation, where regressors that did not see the case put the landmark; none
/// where no other case has it.
pub(super) fn held_out_errors<B: Backend>(
    input: &StageInput<'_, B>,
    config: &LandmarksConfig,
    landmarks: &[AnnotatedLandmark],
    frames: &[Pose],
) -> Result<Vec<Vec<Option<Estimates>>>, DetectError> {
    let &StageInput { backend, cases, images, .. } = input;
    let folds = Folds::of(cases);
    let mut errors: Vec<Vec<Option<Estimates>>> =
        landmarks.iter().map(|(_, points)| vec![None; points.len()]).collect();
    // Without the only subject nothing would be left to learn from.
    if folds.count() < 2 {
        return Ok(errors);
    }
    for fold in 0..folds.count() {
        let fold = input.fold(folds, fold);
        let own: Vec<Pose> = fold.inside.iter().map(|&n| frames[n]).collect();
        let part = |(name, points): &AnnotatedLandmark| -> AnnotatedLandmark {
            let index = |&(case, point): &(usize, PointLps)| {
                Some((fold.inside.binary_search(&case).ok()?, point))
            };
            (name.clone(), points.iter().filter_map(index).collect())
        };
        let (numbers, known): (Vec<usize>, Vec<AnnotatedLandmark>) = landmarks
            .iter()
            .map(part)
            .enumerate()
            .filter(|(_, (_, points))| !points.is_empty())
            .unzip();
        let stage = LandmarkStage::fit(&fold.input(input), config, &known, &known, &own)?;
        for &n in &fold.held_out {
            let estimates = stage.estimates(backend, images[n], &frames[n])?;
            for (i, &l) in numbers.iter().enumerate() {
                if let Some(index) = landmarks[l].1.iter().position(|(case, _)| *case == n) {
                    let truth = landmarks[l].1[index].1;
                    errors[l][index] = Some(
                        estimates
                            .iter()
                            .map(|points| step_between(&frames[n], truth, points[i]))
                            .collect(),
                    );
                }
            }
        }
    }
    Ok(errors)
}
