//! Poses beside the truth: what classifiers and regressors learn from.

use nalgebra::Vector3;
use pbt_volume::Random;
use pbt_volume::{PointLps, Pose, positive, rotation_from_vector, rotation_to_vector};
use serde::{Deserialize, Serialize};

/// How far a pose may be from another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reach {
    /// Rotation angle, radians.
    pub angle_rad: f64,
    /// Distance of the centres, mm.
    pub center_mm: f64,
    /// |ln| of the ratio of edge lengths.
    pub log_size: f64,
}

impl Reach {
    /// All three multiplied.
    pub fn scaled(&self, by: f64) -> Self {
        Self {
            angle_rad: self.angle_rad * by,
            center_mm: self.center_mm * by,
            log_size: self.log_size * by,
        }
    }

    /// Whether two poses are within reach of each other.
    pub fn holds(&self, a: &Pose, b: &Pose) -> bool {
        a.center.distance_mm(&b.center) <= self.center_mm
            && a.angle_to(b) <= self.angle_rad
            && (0..3).all(|i| libm::log(a.size_mm[i] / b.size_mm[i]).abs() <= self.log_size)
    }
}

/// The step from one pose to another in the frame of the first: rotation vector (radians), shift
/// (mm), log ratio of the edge lengths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Rotation vector in the first pose's frame.
    pub rotation: Vector3<f64>,
    /// Shift of the centre in the first pose's frame, mm.
    pub shift_mm: Vector3<f64>,
    /// ln (second size / first size) by axis.
    pub log_size: [f64; 3],
}

impl Step {
    /// The step that leads from `from` to `to`.
    pub fn between(from: &Pose, to: &Pose) -> Self {
        Self {
            rotation: rotation_to_vector(&(from.orientation.inverse() * to.orientation)),
            shift_mm: from.orientation.inverse() * (to.center.0 - from.center.0),
            log_size: std::array::from_fn(|a| libm::log(to.size_mm[a] / from.size_mm[a])),
        }
    }

    /// Where the step leads.
    pub fn apply(&self, from: &Pose) -> Pose {
        Pose {
            center: PointLps(from.center.0 + from.orientation * self.shift_mm),
            orientation: positive(from.orientation * rotation_from_vector(self.rotation)),
            size_mm: std::array::from_fn(|a| from.size_mm[a] * libm::exp(self.log_size[a])),
        }
    }

    /// The step shortened, where need be, to stay within a reach: the trust region of whatever
    /// proposed it.
    pub fn limited(&self, reach: &Reach) -> Self {
        let shorten =
            |v: Vector3<f64>, most: f64| if v.norm() > most { v * (most / v.norm()) } else { v };
        Self {
            rotation: shorten(self.rotation, reach.angle_rad),
            shift_mm: shorten(self.shift_mm, reach.center_mm),
            log_size: self.log_size.map(|s| s.clamp(-reach.log_size, reach.log_size)),
        }
    }
}

/// A pose uniformly within reach of `truth`: rotation by a random axis and angle, shift in a ball,
/// a common change of size and a smaller one by axis.
pub(crate) fn perturbed(truth: &Pose, reach: &Reach, random: &mut Random) -> Pose {
    let rotation = {
        let angle = random.between(0.0, reach.angle_rad);
        random.axis() * angle
    };
    let shift_mm = random.in_ball(reach.center_mm);
    let common = random.between(-0.7, 0.7);
    let log_size = std::array::from_fn(|_| reach.log_size * (common + random.between(-0.3, 0.3)));
    let log_size = random.growing(log_size);
    Step { rotation, shift_mm, log_size }.apply(truth)
}

/// A pose about `truth`, normally distributed: each component of the rotation vector, of the shift
/// and of the log sizes has 0.4 of the reach as its standard deviation. Errors that a search leaves
/// look so, and a linear regressor is best where it sees most samples.
pub(crate) fn perturbed_normally(truth: &Pose, reach: &Reach, random: &mut Random) -> Pose {
    let mut three = |reach: f64| Vector3::from_fn(|_, _| 0.4 * reach * random.normal());
    let (rotation, shift_mm, log_size) =
        (three(reach.angle_rad), three(reach.center_mm), three(reach.log_size));
    let log_size = random.growing(log_size.into());
    Step { rotation: random.turning(rotation), shift_mm: random.moving(shift_mm), log_size }
        .apply(truth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::test_random;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn steps_lead_where_they_should(seed in 0u64..1000) {
            let mut random = test_random(seed);
            let reach = Reach { angle_rad: 1.0, center_mm: 5.0, log_size: 0.2 };
            let truth = Pose {
                center: PointLps::new(1.0, 2.0, 3.0),
                orientation: random.rotation(),
                size_mm: [10.0, 20.0, 30.0],
            };
            let start = perturbed(&truth, &reach, &mut random);
            prop_assert!(reach.holds(&truth, &start));
            let end = Step::between(&start, &truth).apply(&start);
            prop_assert!(end.center.distance_mm(&truth.center) < 1e-9 && end.angle_to(&truth) < 1e-7);
            prop_assert!((0..3).all(|a| (end.size_mm[a] - truth.size_mm[a]).abs() < 1e-9));
            let tiny = reach.scaled(0.1);
            let limited = Step::between(&start, &truth).limited(&tiny).apply(&start);
            prop_assert!(tiny.scaled(1.000_001).holds(&start, &limited));
        }
    }
}
