//! What every stage after the first is trained on.

use crate::case::{TrainingCase, WorkingSpec};
use crate::config::TrainConfig;
use crate::prior::Prior;
use pbt_tree::Backend;

/// Training cases, uploaded, with what their poses say and how to train.
pub(crate) struct StageInput<'a, B: Backend> {
    pub(crate) backend: &'a B,
    pub(crate) cases: &'a [TrainingCase],
    /// One for each case.
    pub(crate) images: &'a [&'a B::Image],
    /// How the images were prepared.
    pub(crate) working: &'a WorkingSpec,
    pub(crate) prior: &'a Prior,
    pub(crate) config: &'a TrainConfig,
    /// The structure's seed; each stage adds its own number.
    pub(crate) seed: u64,
}
