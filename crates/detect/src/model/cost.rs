//! What a detection with a model can cost at most, beside the search for positions, which depends on
//! the image.

use crate::DetectError;
use crate::model::{Model, StructureModel};
use crate::refine::refinement::Refinement;
use crate::refine::regressor::OUTPUTS;
use pbt_tree::Classifier;

/// Most weak classifiers that are asked and weights that are multiplied: some minutes on one core. The
/// default settings need a thousandth of it.
const MOST_STEPS: f64 = 1e11;

/// Most weak classifiers of a classifier, which the search for positions asks at every voxel.
const MOST_WEAKS: usize = 1_000_000;

/// Whether a detection ends in reasonable time.
pub(super) fn check_cost(model: &Model) -> Result<(), DetectError> {
    let steps: f64 = model.structures.iter().map(steps).sum();
    let widest = model
        .structures
        .iter()
        .map(|structure| weaks(&structure.position.classifier.classifier))
        .max();
    if steps <= MOST_STEPS && widest <= Some(MOST_WEAKS) {
        return Ok(());
    }
    Err(DetectError::model(
        "structures",
        "a detection would take hours (train with fewer rotations, candidates, modes or hypotheses)",
    ))
}

/// What the stages of a structure take at most: a soft tree asks all its weak classifiers.
fn steps(structure: &StructureModel) -> f64 {
    let StructureModel { position, orientation, refinement, verification, .. } = structure;
    let poses = (position.spec.keep as f64) * orientation.rotations.len() as f64;
    let modes = match position.spec.most_instances {
        None => orientation.spec.modes,
        Some(_) => position.spec.keep,
    } as f64;
    let refining: f64 = match refinement {
        Refinement::Regression(cascade) => {
            let all = cascade.regressors.iter();
            all.map(|r| (r.spec.repeats * r.spec.patch.len() * OUTPUTS) as f64).sum()
        }
        Refinement::Classification(passes) => {
            let all = passes.passes.iter();
            let drawn = |spec: &crate::PassSpec| (spec.repeats * spec.hypotheses) as f64;
            all.map(|pass| drawn(&pass.spec) * weaks(&pass.classifier.classifier) as f64).sum()
        }
    };
    let judging =
        weaks(&verification.classifier.classifier) + weaks(&orientation.classifier.classifier);
    poses * weaks(&orientation.classifier.classifier) as f64 + modes * (refining + judging as f64)
}

fn weaks(classifier: &Classifier) -> usize {
    classifier.trees.iter().map(|tree| tree.weaks.len()).sum()
}
