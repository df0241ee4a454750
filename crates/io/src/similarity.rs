//! The rotation, one scale and shift that bring points onto others (Umeyama 1991, section 3), without
//! reflections.

use crate::principal_axes::nearest_rotation;
use nalgebra::{Matrix3, Vector3};
use pbt_volume::rotation_from_vector;

/// What turns points where they leave the rotation open, as a share of what they say: nothing is
/// turned without need.
const HOLD: f64 = 1e-9;

/// What brings a point m to x = scale · rotation · m + shift.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Similarity {
    /// A proper rotation; in a plane about z.
    pub rotation: Matrix3<f64>,
    /// Above 0.
    pub scale: f64,
    /// In the unit of the points that are reached.
    pub shift: Vector3<f64>,
}

impl Similarity {
    /// The least-squares fit of points to as many others. In a `flat` set all of them lie in the plane
    /// z = 0 and turn about z alone. `None` where no positive scale fits.
    pub fn between(from: &[Vector3<f64>], to: &[Vector3<f64>], flat: bool) -> Option<Self> {
        let (middle, to_middle) = (mean(from), mean(to));
        let covariance: Matrix3<f64> =
            from.iter().zip(to).map(|(m, x)| (x - to_middle) * (m - middle).transpose()).sum();
        let variance: f64 = from.iter().map(|m| (m - middle).norm_squared()).sum();
        let held = covariance + Matrix3::identity() * (HOLD * covariance.norm());
        let rotation = nearest_turn(&held, flat)?;
        let scale = (rotation.transpose() * covariance).trace() / variance;
        (scale > 0.0).then(|| Self {
            rotation,
            scale,
            shift: to_middle - rotation * middle * scale,
        })
    }

    /// Where a point is brought.
    pub fn apply(&self, point: &Vector3<f64>) -> Vector3<f64> {
        self.rotation * point * self.scale + self.shift
    }

    /// The point that is brought there.
    pub fn undo(&self, point: &Vector3<f64>) -> Vector3<f64> {
        self.rotation.transpose() * (point - self.shift) / self.scale
    }
}

/// The rotation R with the largest tr(R Bᵀ), or in a plane that of all about z.
pub(crate) fn nearest_turn(b: &Matrix3<f64>, flat: bool) -> Option<Matrix3<f64>> {
    if !flat {
        return nearest_rotation(b);
    }
    let angle = libm::atan2(b[(1, 0)] - b[(0, 1)], b[(0, 0)] + b[(1, 1)]);
    let turn = rotation_from_vector(Vector3::new(0.0, 0.0, angle));
    Some(turn.to_rotation_matrix().into_inner())
}

pub(crate) fn mean(points: &[Vector3<f64>]) -> Vector3<f64> {
    points.iter().sum::<Vector3<f64>>() / points.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::Random;
    use proptest::prelude::*;

    const SHAPE: [[f64; 3]; 6] = [
        [6.0, 20.0, 1.0],
        [-6.0, 20.0, 1.0],
        [9.0, -14.0, 3.0],
        [-9.0, -14.0, 3.0],
        [4.0, 0.0, -5.0],
        [-4.0, 0.0, -5.0],
    ];

    fn vectors(seed: u64, reach: f64) -> Vec<Vector3<f64>> {
        let mut random = Random::from_seed(seed);
        (0..6).map(|_| Vector3::from_fn(|_, _| random.between(-reach, reach))).collect()
    }

    #[test]
    fn what_is_brought_there_comes_back() {
        let turn = rotation_from_vector(Vector3::new(0.3, -0.2, 2.0));
        let there = |point: &Vector3<f64>| turn * point * 2.5 + Vector3::new(4.0, 5.0, 6.0);
        let shape = SHAPE.map(Vector3::from);
        let similarity = Similarity::between(&shape, &shape.map(|p| there(&p)), false).unwrap();
        for point in &shape {
            assert!((similarity.apply(point) - there(point)).norm() < 1e-6);
            assert!((similarity.undo(&there(point)) - point).norm() < 1e-6);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// Kabsch's rotation is the best: no small turn away from it fits better.
        #[test]
        fn fits_are_the_best(seed in 0u64..1000, turn in prop::array::uniform3(-1.5f64..1.5)) {
            let noise = vectors(seed, 2.0);
            let shape = SHAPE.map(Vector3::from);
            let turn = rotation_from_vector(Vector3::from(turn));
            let points: Vec<Vector3<f64>> =
                shape.iter().zip(&noise).map(|(p, n)| turn * (p + n)).collect();
            let best = Similarity::between(&shape, &points, false).unwrap();
            let cost = |rotation: &Matrix3<f64>, scale: f64, shift: Vector3<f64>| -> f64 {
                shape.iter().zip(&points).map(|(m, x)| {
                    (x - rotation * m * scale - shift).norm_squared()
                }).sum()
            };
            let least = cost(&best.rotation, best.scale, best.shift);
            for step in vectors(seed + 1, 0.01) {
                let other = rotation_from_vector(step).to_rotation_matrix().into_inner() * best.rotation;
                prop_assert!(cost(&other, best.scale, best.shift) > least - 1e-6);
                prop_assert!(cost(&best.rotation, best.scale * (1.0 + step.x), best.shift) > least - 1e-9);
                prop_assert!(cost(&best.rotation, best.scale, best.shift + step) > least - 1e-9);
            }
        }
    }
}
