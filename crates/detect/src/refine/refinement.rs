//! What brings modes to the structure: regression or classification.

use crate::refine::classification::Rounds;
use crate::refine::regression::Cascade;
use pbt_tree::Backend;
use pbt_volume::Pose;

/// The trained finish.
#[derive(Debug, Clone, PartialEq)]
pub enum Finish {
    /// A cascade of ridge regressors.
    Regression(Cascade),
    /// Rounds of boosted classifiers.
    Classification(Rounds),
}

impl Finish {
    /// Each pose brought to where the finish leads it.
    pub fn apply<B: Backend>(&self, backend: &B, image: &B::Image, poses: &[Pose]) -> Vec<Pose> {
        match self {
            Self::Regression(cascade) => cascade.apply(backend, image, poses),
            Self::Classification(rounds) => rounds.apply(backend, image, poses),
        }
    }
}
