//! Errors of detections against the truth: mm, degrees, per cent.

use pbt_volume::Pose;
use serde::{Deserialize, Serialize};

/// How far a found box is from the true one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BoxError {
    /// Distance of the centres, mm.
    pub center_mm: f64,
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
            pose.to_lps(nalgebra::Vector3::new(sign * pose.size_mm[0] / 2.0, 0.0, 0.0))
        };
        Self {
            center_mm: found.center.distance_mm(&truth.center),
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
}

/// Mean, median, 95th percentile and maximum of a list of errors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of errors.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median: the mean of the middle two for an even number.
    pub median: f64,
    /// 95th percentile, linear between neighbours (numpy's default).
    pub p95: f64,
    /// Largest.
    pub max: f64,
}

impl Summary {
    /// `None` for an empty list.
    pub fn new(errors: &[f64]) -> Option<Self> {
        let mut sorted = errors.to_vec();
        sorted.sort_by(f64::total_cmp);
        let max = *sorted.last()?;
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        Some(Self {
            n: sorted.len(),
            mean,
            median: quantile(&sorted, 0.5),
            p95: quantile(&sorted, 0.95),
            max,
        })
    }
}

/// A quantile of values in ascending order, linear between neighbours (numpy's default). There must
/// be a value; `q` is from 0 to 1.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let place = q * (sorted.len() - 1) as f64;
    let low = place.floor() as usize;
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64)
}

/// Share of errors within each limit: the success detection rate.
pub fn success_rates(errors: &[f64], limits: &[f64]) -> Vec<f64> {
    let n = errors.len().max(1) as f64;
    limits.iter().map(|&limit| errors.iter().filter(|&&e| e <= limit).count() as f64 / n).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::Vector3;
    use pbt_volume::{PointLps, rotation_from_vector};

    #[test]
    fn errors_of_a_known_displacement() {
        let truth = Pose {
            center: PointLps::new(0.0, 0.0, 0.0),
            orientation: rotation_from_vector(Vector3::zeros()),
            size_mm: [10.0; 3],
        };
        let found = Pose {
            center: PointLps::new(3.0, 4.0, 0.0),
            orientation: rotation_from_vector(Vector3::new(0.0, 0.0, 0.1)),
            size_mm: [11.0, 10.0, 9.0],
        };
        let error = BoxError::new(&found, &truth);
        assert!((error.center_mm - 5.0).abs() < 1e-12);
        assert!((error.angle_deg - 0.1f64.to_degrees()).abs() < 1e-9);
        assert!((error.size_percent - 20.0 / 3.0).abs() < 1e-9);
        assert!((error.size_mm - 2f64.sqrt()).abs() < 1e-9);
        assert_eq!(BoxError::new(&truth, &truth).corner_mm, 0.0);
    }

    #[test]
    fn summaries_agree_with_numpy() {
        let s = Summary::new(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((s.mean, s.median, s.max), (2.5, 2.5, 4.0));
        assert!((s.p95 - 3.85).abs() < 1e-12);
        assert!(Summary::new(&[]).is_none());
        assert_eq!(
            success_rates(&[0.5, 1.5, 2.5, 9.0], &[1.0, 2.0, 3.0, 4.0]),
            [0.25, 0.5, 0.75, 0.75]
        );
    }
}
