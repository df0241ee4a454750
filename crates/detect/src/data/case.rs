//! A case ready for training.

use pbt_volume::{Pose, Pyramid};
use std::sync::Arc;

/// One annotated case ready for training.
#[derive(Debug, Clone)]
pub(crate) struct TrainingCase {
    /// Working pyramid.
    pub(crate) pyramid: Arc<Pyramid>,
    /// Truth.
    pub(crate) pose: Pose,
    /// Cases of one group are copies of each other, so that what is held out is held out whole;
    /// numbered from 0.
    pub(crate) group: usize,
    /// Not a case as annotated, but made from one.
    pub(crate) copy: bool,
    /// Where structures of the same size and kind lie: the finish learns from them too.
    pub(crate) look_alikes: Vec<Pose>,
}

impl TrainingCase {
    /// The truth, then the look-alikes.
    pub(crate) fn all(&self) -> impl Iterator<Item = Pose> {
        std::iter::once(self.pose).chain(self.look_alikes.iter().copied())
    }
}

/// Number of groups.
pub(crate) fn groups(cases: &[TrainingCase]) -> usize {
    cases.iter().map(|case| case.group + 1).max().unwrap_or(0)
}
