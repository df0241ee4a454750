//! Position, orientation and size of a structure: the 9-DoF box.

use crate::{Geometry, Plane, PointLps};
use nalgebra::{Matrix3, Rotation3, UnitQuaternion, Vector3};

/// The shortest edge of a box that means something, mm: a hundredth of a micrometre.
pub const SMALLEST_EDGE_MM: f64 = 1e-5;

/// The longest one, mm: a hundred metres, or as many pixels of a microscope's image without units.
pub const LARGEST_EDGE_MM: f64 = 1e5;

/// An oriented box in the patient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pose {
    /// Centre of the box.
    pub center: PointLps,
    /// Rotation from box axes to LPS: the columns of its matrix are the box's axes.
    pub orientation: UnitQuaternion<f64>,
    /// Full edge lengths along the box's axes, mm.
    pub size_mm: [f64; 3],
}

impl Pose {
    /// A pose from the box's axes as columns; they are brought to the nearest rotation. `None` when
    /// the matrix is not close to a rotation (mirrored, skewed by more than 0.05, or not finite).
    pub fn from_axes(center: PointLps, axes: &Matrix3<f64>, size_mm: [f64; 3]) -> Option<Self> {
        let skew = (axes.transpose() * axes - Matrix3::identity()).abs();
        // No NaN is below 0.05 either.
        if !skew.iter().all(|&s| s < 0.05) || axes.determinant() < 0.0 {
            return None;
        }
        // One Newton step of the polar decomposition per pass; the input is nearly orthonormal, so
        // five reach f64 precision.
        let mut matrix = *axes;
        for _ in 0..5 {
            matrix = (matrix + matrix.try_inverse()?.transpose()) * 0.5;
        }
        let orientation =
            UnitQuaternion::from_rotation_matrix(&Rotation3::from_matrix_unchecked(matrix));
        Some(Self { center, orientation: positive(orientation), size_mm })
    }

    /// The box's axes as columns.
    pub fn axes(&self) -> Matrix3<f64> {
        self.orientation.to_rotation_matrix().into_inner()
    }

    /// Angle in radians of the rotation between two orientations, 0 to π.
    pub fn angle_to(&self, other: &Self) -> f64 {
        angle_between(&self.orientation, &other.orientation)
    }

    /// LPS position of a point given in the box's frame, mm from the centre along the box's axes.
    pub fn to_lps(&self, in_box_mm: Vector3<f64>) -> PointLps {
        PointLps(self.center.0 + self.orientation * in_box_mm)
    }

    /// Whether a point lies in the box, faces included.
    pub fn contains(&self, point: PointLps) -> bool {
        let in_box_mm = self.orientation.inverse() * (point.0 - self.center.0);
        (0..3).all(|a| in_box_mm[a].abs() <= self.size_mm[a] / 2.0)
    }

    /// Share of the box's volume that lies inside an image, 0 to 1; of its area, in an image of one slice.
    pub fn visible_share(&self, image: &Geometry) -> f64 {
        let Some(plane) = Plane::of(image) else {
            return self.share_inside(|point| !image.is_outside(point));
        };
        let foot = |point| plane.flat_point(point);
        plane.flat_pose(self).share_inside(|point| !plane.geometry().is_outside(foot(point)))
    }

    /// Share of the box's volume that lies inside something, 0 to 1: of 4,096 points spread evenly
    /// over the box, those that do.
    pub fn share_inside(&self, inside: impl Fn(PointLps) -> bool) -> f64 {
        const ALONG: usize = 16;
        let mm = |a: usize, n: usize| self.size_mm[a] * ((n as f64 + 0.5) / ALONG as f64 - 0.5);
        let point = |n: usize| {
            let at = [n % ALONG, n / ALONG % ALONG, n / (ALONG * ALONG)];
            self.to_lps(Vector3::from_fn(|a, _| mm(a, at[a])))
        };
        let all = ALONG * ALONG * ALONG;
        (0..all).filter(|&n| inside(point(n))).count() as f64 / all as f64
    }

    /// The geometric mean of the edge lengths, mm: the unit D of lengths about a box.
    pub fn mean_size_mm(&self) -> f64 {
        libm::cbrt(self.size_mm.iter().product())
    }

    /// The eight corners; corner `n` has the sign of axis `a` from bit `a` of `n`.
    pub fn corners(&self) -> [PointLps; 8] {
        std::array::from_fn(|n| {
            let half = |a: usize| self.size_mm[a] / 2.0 * if n >> a & 1 == 1 { 1.0 } else { -1.0 };
            self.to_lps(Vector3::new(half(0), half(1), half(2)))
        })
    }
}

/// Angle in radians of the rotation from `a` to `b`, 0 to π, the same for a quaternion and its
/// negative.
pub fn angle_between(a: &UnitQuaternion<f64>, b: &UnitQuaternion<f64>) -> f64 {
    // 2·atan2(|v|, |w|) stays accurate near 0 and π, where 2·acos(w) does not.
    let relative = a.inverse() * b;
    2.0 * libm::atan2(relative.imag().norm(), relative.w.abs())
}

/// The same rotation with `w ≥ 0`.
pub fn positive(q: UnitQuaternion<f64>) -> UnitQuaternion<f64> {
    if q.w < 0.0 { UnitQuaternion::new_unchecked(-q.into_inner()) } else { q }
}

/// The rotation about `vector` by its length in radians (the exponential map).
pub fn rotation_from_vector(vector: Vector3<f64>) -> UnitQuaternion<f64> {
    let angle = vector.norm();
    if angle < 1e-12 {
        return UnitQuaternion::identity();
    }
    let (s, c) = libm::sincos(angle / 2.0);
    let v = vector * (s / angle);
    UnitQuaternion::new_normalize(nalgebra::Quaternion::new(c, v.x, v.y, v.z))
}

/// The vector along the axis of a rotation, its length the angle in radians, 0 to π (the
/// logarithm).
pub fn rotation_to_vector(rotation: &UnitQuaternion<f64>) -> Vector3<f64> {
    let q = positive(*rotation);
    let sine = q.imag().norm();
    if sine < 1e-12 {
        return Vector3::zeros();
    }
    q.imag() * (2.0 * libm::atan2(sine, q.w) / sine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_visible_share_is_what_lies_within_the_faces() {
        let image = Geometry::new(
            [20, 30, 40],
            Matrix3::from_diagonal(&Vector3::new(1.0, 0.5, 2.0)),
            PointLps::new(0.0, 0.0, 0.0),
        )
        .unwrap();
        let at = |x: f64, turned: f64| Pose {
            center: PointLps::new(x, 7.0, 40.0),
            orientation: rotation_from_vector(Vector3::new(0.0, turned, 0.0)),
            size_mm: [8.0, 4.0, 8.0],
        };
        // The image begins at -0.5 mm, half a voxel before its first voxel's centre.
        for (x, turned, share) in [
            (10.0, 0.3, 1.0),
            (-0.5, 0.0, 0.5),
            (-2.5, 0.0, 0.25),
            (-0.5, 0.4, 0.5),
            (-9.0, 0.4, 0.0),
        ] {
            let found = at(x, turned).visible_share(&image);
            assert!((found - share).abs() < 0.01, "{x} {turned}: {found}, not {share}");
        }
    }

    proptest! {
        #[test]
        fn vector_and_rotation_are_inverse(v in prop::array::uniform3(-1.8f64..1.8)) {
            let v = Vector3::from(v);
            prop_assume!(v.norm() < 3.1);
            let q = rotation_from_vector(v);
            prop_assert!((rotation_to_vector(&q) - v).norm() < 1e-10);
            prop_assert!((angle_between(&UnitQuaternion::identity(), &q) - v.norm()).abs() < 1e-10);
            // nalgebra's own conversion is the outside oracle.
            prop_assert!((q.into_inner() - UnitQuaternion::from_scaled_axis(v).into_inner()).norm() < 1e-10);
        }

        #[test]
        fn axes_round_trip(v in prop::array::uniform3(-1.8f64..1.8)) {
            let pose = Pose { center: PointLps::new(1.0, 2.0, 3.0), orientation: rotation_from_vector(Vector3::from(v)), size_mm: [1.0, 2.0, 3.0] };
            let again = Pose::from_axes(pose.center, &pose.axes(), pose.size_mm).unwrap();
            prop_assert!(pose.angle_to(&again) < 1e-9);
        }
    }

    #[test]
    fn mirrored_axes_are_refused() {
        let center = PointLps::new(0.0, 0.0, 0.0);
        assert!(
            Pose::from_axes(
                center,
                &Matrix3::from_diagonal(&Vector3::new(1.0, 1.0, -1.0)),
                [1.0; 3]
            )
            .is_none()
        );
        assert!(Pose::from_axes(center, &Matrix3::from_element(f64::NAN), [1.0; 3]).is_none());
    }
}
