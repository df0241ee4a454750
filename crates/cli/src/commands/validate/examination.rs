//! All that was found out about a path.

use super::absence::StructureAbsence;
use super::finding::Finding;
use super::images::ImageFacts;
use super::spread::StructureSpread;
use super::suspect::Suspect;

/// What one look at a path gives.
#[derive(Default)]
pub(super) struct Examination {
    pub(super) kind: &'static str,
    pub(super) findings: Vec<Finding>,
    pub(super) images: Vec<ImageFacts>,
    /// Of a data set: by structure, how its boxes spread.
    pub(super) spreads: Vec<StructureSpread>,
    /// Of a data set: boxes that training cases are said not to have.
    pub(super) absences: Vec<StructureAbsence>,
    /// Of a data set: how odd its boxes are, the oddest first, including those that are in order.
    pub(super) suspects: Vec<Suspect>,
    /// Whether it is a data set with cases to learn from.
    pub(super) has_training: bool,
}
