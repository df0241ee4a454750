//! How far a pose may be from the truth.

use nalgebra::{Matrix3, Vector3};
use serde::{Deserialize, Serialize};

/// Standard deviations of the error of a pose, along and about the axes of its box.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoseError {
    /// Of the centre along each axis, mm: for people, since neighbours have no say in places.
    pub center_mm: [f64; 3],
    /// Of the rotation vector, radians.
    pub angle_rad: [f64; 3],
}

impl PoseError {
    /// Covariance of the rotation vector in the frame of the box, radians².
    pub(crate) fn turn_covariance(&self) -> Matrix3<f64> {
        Matrix3::from_diagonal(&Vector3::from(self.angle_rad.map(|s| s * s)))
    }

    /// Of a pose that is right with this probability only: by inverse covariances it weighs as much
    /// less.
    pub(crate) fn doubted(&self, probability: f64) -> Self {
        let more = 1.0 / probability.max(0.001).sqrt();
        Self { angle_rad: self.angle_rad.map(|s| s * more), ..*self }
    }

    /// Whether a file's numbers make sense.
    pub(crate) fn is_valid(&self) -> bool {
        self.center_mm.iter().all(|s| (0.0..=1e6).contains(s))
            && self.angle_rad.iter().all(|s| (0.0..=10.0).contains(s))
    }
}
