//! Centre prior: where the centre of a structure lies from the middle of the image.

use crate::network::gaussian::Gaussian;
use crate::pose::prior::Prior;
use nalgebra::Vector3;
use pbt_volume::{PointLps, Pose};
use serde::{Deserialize, Serialize};

/// A place that is less likely than this, as a log density of 2.8 standard deviations, says that
/// the image is planned otherwise (cropped, say), and no more.
pub(super) const OUT_OF_PLACE: f64 = -4.0;

/// Least standard deviation, in D.
const FLOOR: f64 = 0.06;

/// The offset of a structure's centre from the middle of the image, LPS mm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CenterPrior(pub Gaussian);

impl CenterPrior {
    /// Log density of a place against that of the mean's.
    pub(crate) fn log_density(&self, pose: &Pose, middle: PointLps) -> f64 {
        self.0.log_density(&(pose.center.0 - middle.0)).max(OUT_OF_PLACE)
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.0.is_valid()
    }
}

/// The priors by structure, from `poses[structure][case]` and the middles of the cases' images; none
/// where they are not wanted, where a structure may lie anyhow, and where cases are too few.
pub(super) fn center_priors(
    poses: &[Vec<Option<Pose>>],
    middles: &[PointLps],
    priors: &[&Prior],
    wanted: bool,
) -> Vec<Option<CenterPrior>> {
    let of_structure = |(poses, prior): (&Vec<Option<Pose>>, &&Prior)| {
        if !wanted || prior.any_orientation {
            return None;
        }
        let offsets: Vec<Vector3<f64>> = poses
            .iter()
            .zip(middles)
            .filter_map(|(pose, middle)| Some(pose.as_ref()?.center.0 - middle.0))
            .collect();
        Gaussian::fit(&offsets, FLOOR * prior.scale_mm).map(|(place, _)| CenterPrior(place))
    };
    poses.iter().zip(priors).map(of_structure).collect()
}
