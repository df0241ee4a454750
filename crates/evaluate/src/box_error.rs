//! Errors of a found box against the true one: mm, degrees, per cent.

use nalgebra::Vector3;
use pbt_volume::Pose;
use serde::{Deserialize, Serialize};

/// How far a found box is from the true one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BoxError {
    /// Distance of the centres, mm.
    pub center_mm: f64,
    /// The part of it along the longest edge of the true box, mm.
    #[serde(default)]
    pub along_mm: f64,
    /// The part of it across that edge, mm.
    #[serde(default)]
    pub across_mm: f64,
    /// Angle of the rotation between the orientations, degrees.
    pub angle_deg: f64,
    /// Mean over the axes of |found − true| / true, per cent.
    pub size_percent: f64,
    /// Euclidean distance of the size vectors, mm (Sofka 2014).
    pub size_mm: f64,
    /// Largest distance of corresponding corners, mm.
    pub corner_mm: f64,
    /// Largest distance of the end-points of the first axis, mm: the line error of Sofka 2014.
    pub line_mm: f64,
}

impl BoxError {
    /// Compares a found box with the true one.
    pub fn new(found: &Pose, truth: &Pose) -> Self {
        let ratio = |a: usize| (found.size_mm[a] - truth.size_mm[a]).abs() / truth.size_mm[a];
        let difference = |a: usize| (found.size_mm[a] - truth.size_mm[a]).powi(2);
        let corners =
            found.corners().into_iter().zip(truth.corners()).map(|(f, t)| f.distance_mm(&t));
        let end = |pose: &Pose, sign: f64| {
            pose.to_lps(Vector3::new(sign * pose.size_mm[0] / 2.0, 0.0, 0.0))
        };
        let shift = truth.orientation.inverse() * (found.center.0 - truth.center.0);
        let longest = Vector3::from(truth.size_mm).imax();
        let along_mm = shift[longest].abs();
        Self {
            center_mm: found.center.distance_mm(&truth.center),
            along_mm,
            across_mm: (shift.norm_squared() - along_mm * along_mm).max(0.0).sqrt(),
            angle_deg: found.angle_to(truth).to_degrees(),
            size_percent: 100.0 * (0..3).map(ratio).sum::<f64>() / 3.0,
            size_mm: (0..3).map(difference).sum::<f64>().sqrt(),
            corner_mm: corners.fold(0.0, f64::max),
            line_mm: [-1.0, 1.0]
                .map(|s| end(found, s).distance_mm(&end(truth, s)))
                .into_iter()
                .fold(0.0, f64::max),
        }
    }

    /// What is held against a tolerance, mm: the distance of the centres, or the part of it across
    /// the longest edge of a box with loose ends.
    pub fn off_mm(&self, loose_ends: bool) -> f64 {
        if loose_ends { self.across_mm } else { self.center_mm }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::{PointLps, rotation_from_vector};

    #[test]
    fn errors_of_a_known_displacement() {
        let truth = Pose {
            center: PointLps::new(0.0, 0.0, 0.0),
            orientation: rotation_from_vector(Vector3::zeros()),
            size_mm: [10.0, 10.5, 10.0],
        };
        let found = Pose {
            center: PointLps::new(3.0, 4.0, 0.0),
            orientation: rotation_from_vector(Vector3::new(0.0, 0.0, 0.1)),
            size_mm: [11.0, 10.5, 9.0],
        };
        let error = BoxError::new(&found, &truth);
        assert!((error.center_mm - 5.0).abs() < 1e-12);
        assert!((error.along_mm - 4.0).abs() < 1e-12 && (error.across_mm - 3.0).abs() < 1e-12);
        assert_eq!((error.off_mm(false), error.off_mm(true)), (error.center_mm, error.across_mm));
        assert!((error.angle_deg - 0.1f64.to_degrees()).abs() < 1e-9);
        assert!((error.size_percent - 20.0 / 3.0).abs() < 1e-9);
        assert!((error.size_mm - 2f64.sqrt()).abs() < 1e-9);
        assert_eq!(BoxError::new(&truth, &truth).corner_mm, 0.0);
    }
}
