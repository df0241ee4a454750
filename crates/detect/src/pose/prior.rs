//! What the training poses say before any image is seen: mean size, and how orientations spread.

use crate::config::Orientations;
use nalgebra::UnitQuaternion;
use pbt_volume::{PointLps, Pose, angle_between};
use serde::{Deserialize, Serialize};

/// The prior of one structure. Part of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prior {
    /// Geometric mean of the training edge lengths by axis, mm.
    pub mean_size_mm: [f64; 3],
    /// The structure's mean size D: the geometric mean of `mean_size_mm`, mm.
    pub scale_mm: f64,
    /// Whether the structure may lie in any orientation.
    pub any_orientation: bool,
    /// The orientation with the smallest sum of angles to all others.
    #[serde(with = "crate::pose::quaternion")]
    pub middle: UnitQuaternion<f64>,
    /// Root mean square angle of the training orientations to the middle one, radians.
    pub spread_rad: f64,
    /// Standard deviation of the log edge lengths, the largest of the axes.
    pub log_size_spread: f64,
    /// Mean offset of the structure from the middle of the image, LPS mm: where to look without any
    /// other cue.
    pub center_offset_mm: [f64; 3],
    /// Whether images have one slice, laid flat in z = 0, and the structure turns about z alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flat: bool,
}

/// Some training case is turned by more than this from the middle one: the structure may lie
/// anyhow.
const ANY_ORIENTATION_BEYOND_DEG: f64 = 75.0;

impl Prior {
    /// The prior of at least one training pose; `middles` are the middles of their images.
    pub(crate) fn new(poses: &[Pose], middles: &[PointLps], orientations: Orientations) -> Self {
        let n = poses.len() as f64;
        let mean_log = |a: usize| poses.iter().map(|p| libm::log(p.size_mm[a])).sum::<f64>() / n;
        let mean_size_mm: [f64; 3] = std::array::from_fn(|a| libm::exp(mean_log(a)));
        let deviation = |a: usize| {
            let mean = mean_log(a);
            (poses.iter().map(|p| (libm::log(p.size_mm[a]) - mean).powi(2)).sum::<f64>() / n).sqrt()
        };
        let sum_of_angles = |q: &UnitQuaternion<f64>| {
            poses.iter().map(|p| angle_between(q, &p.orientation)).sum::<f64>()
        };
        let middle = poses
            .iter()
            .map(|p| (sum_of_angles(&p.orientation), p.orientation))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map_or(UnitQuaternion::identity(), |(_, q)| q);
        let angles: Vec<f64> =
            poses.iter().map(|p| angle_between(&middle, &p.orientation)).collect();
        let widest = angles.iter().copied().fold(0.0, f64::max).to_degrees();
        Self {
            mean_size_mm,
            scale_mm: libm::cbrt(mean_size_mm.iter().product()),
            any_orientation: match orientations {
                Orientations::Auto => widest > ANY_ORIENTATION_BEYOND_DEG,
                Orientations::Any => true,
                Orientations::Training => false,
            },
            middle,
            spread_rad: (angles.iter().map(|a| a * a).sum::<f64>() / n).sqrt(),
            log_size_spread: (0..3).map(deviation).fold(0.0, f64::max),
            center_offset_mm: std::array::from_fn(|a| {
                poses.iter().zip(middles).map(|(p, m)| p.center.0[a] - m.0[a]).sum::<f64>() / n
            }),
            flat: false,
        }
    }

    /// The same, of images of one slice where `flat` is set.
    pub(crate) fn of_slices(self, flat: bool) -> Self {
        Self { flat, ..self }
    }

    /// A place in the images: in those of one slice, in its plane, beside which coarse voxels lie.
    pub(crate) fn place(&self, point: PointLps) -> PointLps {
        if self.flat { PointLps::new(point.0.x, point.0.y, 0.0) } else { point }
    }

    /// The pose that is expected before anything is seen, in an image with this middle; `None`
    /// where any orientation is possible.
    pub(crate) fn expected(&self, middle: PointLps) -> Option<Pose> {
        let center = PointLps(middle.0 + nalgebra::Vector3::from(self.center_offset_mm));
        (!self.any_orientation).then_some(Pose {
            center,
            orientation: self.middle,
            size_mm: self.mean_size_mm,
        })
    }
}

#[cfg(test)]
mod tests;
