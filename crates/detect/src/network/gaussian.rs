//! Normal distributions of vectors.

use nalgebra::{Matrix3, Vector3};
use serde::{Deserialize, Serialize};

/// A normal distribution of a vector: of a position, mm, or of a rotation vector, radians.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gaussian {
    /// Mean.
    pub mean: [f64; 3],
    /// Inverse covariance, row-major.
    pub precision: [[f64; 3]; 3],
}

impl Gaussian {
    /// Fits the points; the covariance of few points is too small by about n/(n − 4), and never
    /// below `floor`².
    pub(super) fn fit(points: &[Vector3<f64>], floor: f64) -> Option<(Self, f64)> {
        let n = points.len() as f64;
        if points.len() < FEWEST {
            return None;
        }
        let mean = points.iter().sum::<Vector3<f64>>() / n;
        let scatter =
            points.iter().map(|p| (p - mean) * (p - mean).transpose()).sum::<Matrix3<f64>>();
        let covariance = scatter / (n - 4.0) + Matrix3::identity() * (floor * floor);
        let precision = covariance.try_inverse()?;
        let entropy = 0.5 * libm::log(covariance.determinant());
        let row = |r: usize| [precision[(r, 0)], precision[(r, 1)], precision[(r, 2)]];
        Some((Self { mean: mean.into(), precision: [row(0), row(1), row(2)] }, entropy))
    }

    /// The distribution of a sum with independent normal numbers of these variances.
    pub(super) fn widened(&self, variances: [f64; 3]) -> Self {
        let precision = Matrix3::from_fn(|r, c| self.precision[r][c]);
        let wider = precision
            .try_inverse()
            .and_then(|covariance| {
                (covariance + Matrix3::from_diagonal(&variances.into())).try_inverse()
            })
            .unwrap_or(precision);
        let row = |r: usize| std::array::from_fn(|c| wider[(r, c)]);
        Self { mean: self.mean, precision: std::array::from_fn(row) }
    }

    /// Log density relative to the mean's, not below [`FARTHEST`]: beyond, one position says
    /// nothing about the other.
    pub(super) fn log_density(&self, point: &Vector3<f64>) -> f64 {
        let d = point - Vector3::from(self.mean);
        let p = &self.precision;
        let squared: f64 =
            (0..3).map(|r| d[r] * (p[r][0] * d.x + p[r][1] * d.y + p[r][2] * d.z)).sum();
        (-0.5 * squared).max(FARTHEST)
    }

    /// Log of the density at the mean, mm⁻³.
    pub(super) fn log_peak(&self) -> f64 {
        let p = Matrix3::from_fn(|r, c| self.precision[r][c]);
        0.5 * libm::log(p.determinant().max(1e-30)) - 1.5 * libm::log(core::f64::consts::TAU)
    }

    /// Finite numbers that are no larger than [`MOST`], and a covariance that is one: symmetric,
    /// positive definite.
    pub(crate) fn is_valid(&self) -> bool {
        let precision = Matrix3::from_fn(|r, c| self.precision[r][c]);
        let small =
            self.mean.iter().chain(self.precision.iter().flatten()).all(|v| v.abs() <= MOST);
        let scale = (0..3).map(|a| precision[(a, a)]).fold(0.0, f64::max);
        let symmetric = (precision - precision.transpose()).abs().max() <= 1e-6 * scale;
        let minors = [
            precision[(0, 0)],
            precision.fixed_view::<2, 2>(0, 0).determinant(),
            precision.determinant(),
        ];
        small && symmetric && minors.iter().all(|&minor| minor > 0.0)
    }
}

/// No position, mm, and no precision is beyond this.
const MOST: f64 = 1e9;

/// Fewest points that a distribution is learned from.
const FEWEST: usize = 6;

/// A log density of 4½ standard deviations.
const FARTHEST: f64 = -10.0;
