//! The mean shape of a structure in label maps, as models keep it.

use serde::{Deserialize, Serialize};

/// The mean shape of a structure in the label maps of a training, from which the boxes of further maps
/// follow (`docs/reference/boxes-from-labels.md`). A model keeps it, so that boxes of another data set
/// have the same axes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelShape {
    /// Mean covariance of the voxel centres, by column, LPS, of trace 1.
    pub covariance: [[f64; 3]; 3],
    /// The axes of the boxes, as columns, LPS.
    pub axes: [[f64; 3]; 3],
    /// By axis, the mean of the whole extent over the extent without tails.
    pub reach: [f64; 3],
    /// By axis, the mean way from the centroid to the middle of the whole extent, as a share of the
    /// extent without tails.
    pub shift: [f64; 3],
}
