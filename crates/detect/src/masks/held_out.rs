//! Boxes and landmarks of training cases as models find them that have not seen the case.

use crate::detect::detection::Detection;
use pbt_volume::{PointLps, Pose, Status};

/// Where a structure was found in a case that was held out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeldOutPose {
    /// Place of the structure in the model.
    pub(crate) structure: usize,
    /// The case.
    pub(crate) case: usize,
    /// The box.
    pub(crate) pose: Pose,
    /// Share of the box inside the image.
    pub(crate) visible: f64,
    /// It is said not to be there, so that no labels are looked for.
    pub(crate) absent: bool,
    /// Its labels contradict it.
    pub(crate) contradicted: bool,
    /// What its labels say of its place, where they are looked for; see [`label_evidence`].
    ///
    /// [`label_evidence`]: crate::certainty::evidence::label_evidence
    pub(crate) labels: f64,
    /// Its landmarks, in the model's order.
    pub(crate) landmarks: Vec<PointLps>,
}

impl HeldOutPose {
    /// As a structure was found in a case, without labels.
    pub(crate) fn new((structure, case): (usize, usize), detection: &Detection) -> Self {
        Self {
            structure,
            case,
            pose: detection.pose,
            visible: detection.visible,
            absent: detection.status == Status::Absent,
            contradicted: false,
            labels: 0.0,
            landmarks: detection.landmarks.iter().map(|l| l.point).collect(),
        }
    }
}
