//! A phantom: image, box and landmarks.

use pbt_volume::{PointLps, Pose, Volume};

/// A made volume and the truth about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Phantom {
    /// The image.
    pub image: Volume<f32>,
    /// The smallest box, in the structure's own frame, that encloses the structure. Upright, the
    /// box's axes are the LPS axes.
    pub pose: Pose,
    /// Points on the structure, in an order that depends on the modality only.
    pub landmarks: Vec<(String, PointLps)>,
}
