//! A case ready for training.

use crate::data::other_instances::OtherInstances;
use pbt_volume::{PointLps, Pose, Pyramid};
use std::sync::Arc;

/// One annotated case ready for training; of a structure that occurs several times, one instance.
#[derive(Debug, Clone)]
pub(crate) struct TrainingCase {
    /// Working pyramid.
    pub(crate) pyramid: Arc<Pyramid>,
    /// Middle of the image.
    pub(crate) middle: PointLps,
    /// Truth.
    pub(crate) pose: Pose,
    /// Cases of one subject are held out together, copies with what they are copies of; numbered
    /// from 0.
    pub(crate) subject: usize,
    /// The case as annotated that this one is, or is a copy of; numbered from 0.
    pub(crate) origin: usize,
    /// Not a case as annotated, but made from one.
    pub(crate) copy: bool,
    /// Where structures of the same size and kind lie: the refinement learns from them too.
    pub(crate) look_alikes: Vec<Pose>,
    /// Of a structure that occurs several times: the case is about one of its instances.
    pub(crate) others: Option<OtherInstances>,
}

impl TrainingCase {
    /// Whether another instance of the structure lies there, or may lie there.
    pub(crate) fn is_other(&self, center: PointLps) -> bool {
        self.others.as_ref().is_some_and(|others| others.holds(center))
    }

    /// Whether the case is the first that shows its image: the only one, of a structure that occurs
    /// once.
    pub(crate) fn shows_image(&self) -> bool {
        self.others.as_ref().is_none_or(|others| others.first)
    }

    /// The truth, then the look-alikes.
    pub(crate) fn all(&self) -> impl Iterator<Item = Pose> {
        std::iter::once(self.pose).chain(self.look_alikes.iter().copied())
    }
}

/// Number of subjects.
pub(crate) fn subjects(cases: &[TrainingCase]) -> usize {
    cases.iter().map(|case| case.subject + 1).max().unwrap_or(0)
}

/// Number of images without copies.
pub(crate) fn originals(cases: &[TrainingCase]) -> usize {
    cases.iter().map(|case| case.origin + 1).max().unwrap_or(0)
}
