//! The frame in which a structure is described.

use crate::solid::Solid;
use nalgebra::{Point3, UnitQuaternion, Vector3};
use pbt_volume::{PointLps, Pose};

/// A structure's own frame: at rest x is left, y posterior, z superior, as in LPS.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) origin: Point3<f64>,
    pub(crate) orientation: UnitQuaternion<f64>,
}

impl Frame {
    pub(crate) fn to_lps(self, point: Vector3<f64>) -> PointLps {
        PointLps(self.origin + self.orientation * point)
    }

    /// The smallest box in this frame around all the solids.
    pub(crate) fn pose_around(self, solids: &[Solid]) -> Pose {
        let (low, high) = solids
            .iter()
            .map(Solid::bounds)
            .reduce(|a, b| (a.0.inf(&b.0), a.1.sup(&b.1)))
            .unwrap_or_default();
        Pose {
            center: self.to_lps((low + high) / 2.0),
            orientation: self.orientation,
            size_mm: (high - low).into(),
        }
    }

    pub(crate) fn landmarks(self, points: &[(&str, Vector3<f64>)]) -> Vec<(String, PointLps)> {
        points.iter().map(|&(name, point)| (name.to_owned(), self.to_lps(point))).collect()
    }
}
