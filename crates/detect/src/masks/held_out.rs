//! Boxes and landmarks of training cases as models find them that have not seen the case.

use pbt_volume::{PointLps, Pose};

/// Where a structure was found in a case that was held out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeldOutPose {
    /// Place of the structure in the model.
    pub(crate) structure: usize,
    /// The case.
    pub(crate) case: usize,
    /// The box.
    pub(crate) pose: Pose,
    /// Its landmarks, in the model's order.
    pub(crate) landmarks: Vec<PointLps>,
}
