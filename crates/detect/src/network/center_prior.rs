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

    /// The prior in an image that is so much shorter along the axes, mm, than those of the training, of which
    /// nobody knows what was left out. That length as standard deviation: with a third of it (a part drawn
    /// evenly from an image of the training) eleven more of 256 cropped spines are at a wrong level.
    pub(super) fn in_part(&self, shorter_mm: [f64; 3]) -> Self {
        Self(self.0.widened(shorter_mm.map(|mm| mm * mm)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_image_says_less_about_places_along_its_axis() {
        let precision = [[0.01, 0.0, 0.0], [0.0, 0.01, 0.0], [0.0, 0.0, 0.01]];
        let prior = CenterPrior(Gaussian { mean: [0.0, 0.0, 50.0], precision });
        let at = |x: f64, z: f64| Pose {
            center: PointLps::new(x, 0.0, z),
            orientation: nalgebra::UnitQuaternion::identity(),
            size_mm: [30.0; 3],
        };
        let middle = PointLps::new(0.0, 0.0, 0.0);
        let part = prior.in_part([0.0, 0.0, 120.0]);
        assert!((part.log_density(&at(0.0, 90.0), middle) + 0.5 * 1600.0 / 14500.0).abs() < 1e-9);
        assert_eq!(prior.log_density(&at(0.0, 90.0), middle), OUT_OF_PLACE);
        assert!((part.log_density(&at(10.0, 50.0), middle) + 0.5).abs() < 1e-9);
    }
}
