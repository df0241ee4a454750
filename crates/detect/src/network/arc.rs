//! Gaussian priors of the relative pose of two structures (Sofka et al. 2010, section 3.1).

use crate::network::gaussian::Gaussian;
use crate::pose::step::Step;
use nalgebra::{UnitQuaternion, Vector3};
use pbt_volume::{PointLps, Pose, positive, rotation_from_vector, rotation_to_vector};
use serde::{Deserialize, Serialize};

/// What the pose of one structure says about another's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arc {
    /// Index of the structure in whose frame the other lies.
    pub from: usize,
    /// Index of the other structure.
    pub to: usize,
    /// Where the centre of `to` lies in the frame of `from`, mm.
    pub shift_mm: Gaussian,
    /// The orientation of `to` in the frame of `from`.
    #[serde(with = "crate::pose::quaternion")]
    pub rotation: UnitQuaternion<f64>,
    /// How orientations of `to` vary about that one: rotation vectors in the frame of `to`.
    pub turn_rad: Gaussian,
}

/// Least standard deviation of a relative orientation, radians.
const TURN_FLOOR: f64 = 0.06;

/// Least standard deviation of a relative position, in D.
const FLOOR: f64 = 0.06;

impl Arc {
    /// Learns from pairs of poses that belong together; `scale_mm` is the mean size of the first. Also
    /// the entropy of the relative position. `None` of too few.
    pub(super) fn train<'a>(
        [from, to]: [usize; 2],
        pairs: impl Iterator<Item = (&'a Pose, &'a Pose)>,
        scale_mm: f64,
    ) -> Option<(Self, f64)> {
        let steps: Vec<Step> = pairs.map(|(a, b)| Step::between(a, b)).collect();
        let shifts: Vec<Vector3<f64>> = steps.iter().map(|s| s.shift_mm).collect();
        let (shift_mm, entropy) = Gaussian::fit(&shifts, FLOOR * scale_mm)?;
        let turns: Vec<Vector3<f64>> = steps.iter().map(|s| s.rotation).collect();
        let rotation =
            rotation_from_vector(turns.iter().sum::<Vector3<f64>>() / turns.len() as f64);
        let about = |turn: &Vector3<f64>| {
            rotation_to_vector(&(rotation.inverse() * rotation_from_vector(*turn)))
        };
        let (turn_rad, _) =
            Gaussian::fit(&turns.iter().map(about).collect::<Vec<_>>(), TURN_FLOOR)?;
        Some((Self { from, to, shift_mm, rotation, turn_rad }, entropy))
    }

    /// Whether a file's numbers make sense.
    pub(super) fn is_valid(&self) -> bool {
        self.shift_mm.is_valid() && self.turn_rad.is_valid()
    }

    /// The position's alone.
    pub(crate) fn log_density(&self, from: &Pose, to: &Pose) -> f64 {
        self.shift_mm.log_density(&Step::between(from, to).shift_mm)
    }

    /// The position's and the orientation's.
    pub(super) fn log_density_of_poses(&self, from: &Pose, to: &Pose) -> f64 {
        let step = Step::between(from, to);
        let turn =
            rotation_to_vector(&(self.rotation.inverse() * rotation_from_vector(step.rotation)));
        self.shift_mm.log_density(&step.shift_mm) + self.turn_rad.log_density(&turn)
    }

    /// Where `to` is expected of a pose of `from`.
    pub(crate) fn forth(&self, from: &Pose, size_mm: [f64; 3]) -> Pose {
        Pose {
            center: PointLps(from.center.0 + from.orientation * Vector3::from(self.shift_mm.mean)),
            orientation: positive(from.orientation * self.rotation),
            size_mm,
        }
    }

    /// Where `from` is expected of a pose of `to`.
    pub(crate) fn back(&self, to: &Pose, size_mm: [f64; 3]) -> Pose {
        let orientation = to.orientation * self.rotation.inverse();
        Pose {
            center: PointLps(to.center.0 - orientation * Vector3::from(self.shift_mm.mean)),
            orientation: positive(orientation),
            size_mm,
        }
    }
}
