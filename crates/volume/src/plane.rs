//! Images of one slice, laid flat: what is found in them moves in their plane and turns in it alone.

use crate::{Geometry, PointLps, Pose, RealVolume, working_geometry};
use nalgebra::{Matrix3, Rotation3, UnitQuaternion, Vector3};

/// The plane of an image of one slice: where it lies in the patient. Its own coordinates have z = 0
/// in the plane, and x and y along the working axes that lie in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Plane {
    /// The plane's axes as columns, the third one across it.
    axes: Matrix3<f64>,
    /// Where the plane lies along its third axis, mm.
    offset_mm: f64,
    /// The grid in the plane's own coordinates.
    flat: Geometry,
}

impl Plane {
    /// The plane of an image with exactly one axis of a single voxel; `None` of all others.
    pub fn of(image: &Geometry) -> Option<Self> {
        let thin = (0..3).filter(|&a| image.shape()[a] == 1).collect::<Vec<usize>>();
        let &[thin] = &thin[..] else { return None };
        let [one, other] = [(thin + 1) % 3, (thin + 2) % 3].map(|a| image.matrix().column(a));
        let normal = one.cross(&other);
        let across = normal / normal.norm().sqrt();
        // The thickness says nothing of the plane: the grid goes straight across it.
        let mut matrix = *image.matrix();
        matrix.set_column(thin, &across);
        let straight = Geometry::new(image.shape(), matrix, image.origin()).ok()?;
        let working = *working_geometry(&straight, 1.0, 0).matrix();
        let along = |t: usize| working.column(t).dot(&across).abs();
        let last = (1..3).fold(0, |best, t| if along(t) > along(best) { t } else { best });
        // A cyclic order stays right-handed.
        let axes =
            Matrix3::from_columns(&[1, 2, 3].map(|n| working.column((last + n) % 3).into_owned()));
        let mut matrix = axes.transpose() * matrix;
        let mut origin = axes.transpose() * image.origin().0.coords;
        let offset_mm = std::mem::take(&mut origin.z);
        for a in 0..3 {
            let kept = if a == thin {
                [0.0, 0.0, matrix[(2, a)]]
            } else {
                [matrix[(0, a)], matrix[(1, a)], 0.0]
            };
            matrix.set_column(a, &Vector3::from(kept));
        }
        let flat = Geometry::new(image.shape(), matrix, PointLps(origin.into())).ok()?;
        Some(Self { axes, offset_mm, flat })
    }

    /// The image's grid in the plane's own coordinates.
    pub fn geometry(&self) -> &Geometry {
        &self.flat
    }

    /// The image in the plane's own coordinates.
    pub fn laid_flat(&self, image: &RealVolume) -> RealVolume {
        image.clone().on(self.flat.clone())
    }

    /// The foot of a point, in the plane's own coordinates.
    pub fn flat_point(&self, point: PointLps) -> PointLps {
        let flat = self.axes.transpose() * point.0.coords;
        PointLps::new(flat.x, flat.y, 0.0)
    }

    /// Where a point in the plane's own coordinates lies in the patient.
    pub fn point_to_lps(&self, flat: PointLps) -> PointLps {
        let shift = Vector3::new(0.0, 0.0, self.offset_mm);
        PointLps((self.axes * (flat.0.coords + shift)).into())
    }

    /// A box in the plane's own coordinates, turned about the normal alone. Its first two edges are those
    /// that lie in the plane; how thick it was drawn says nothing, so that the third is their geometric
    /// mean, which leaves the mean size that of the two.
    pub fn flat_pose(&self, pose: &Pose) -> Pose {
        let axes = self.axes.transpose() * pose.axes();
        let upright = |a: usize| axes[(2, a)].abs();
        let across = (1..3).fold(0, |best, a| if upright(a) > upright(best) { a } else { best });
        // A cyclic order stays right-handed; of a box that shows its back the second axis is turned.
        let [one, other] = [(across + 1) % 3, (across + 2) % 3];
        let angle = libm::atan2(axes[(1, one)], axes[(0, one)]);
        let [a, b] = [pose.size_mm[one], pose.size_mm[other]];
        Pose {
            center: self.flat_point(pose.center),
            orientation: crate::rotation_from_vector(Vector3::new(0.0, 0.0, angle)),
            size_mm: [a, b, (a * b).sqrt()],
        }
    }

    /// A box in the patient brought into the plane: [`Plane::flat_pose`].
    pub fn brought_into(&self, pose: &Pose) -> Pose {
        self.pose_to_lps(&self.flat_pose(pose))
    }

    /// How thick the slice is taken to be, mm: as its pixels are wide.
    pub fn thickness_mm(&self) -> f64 {
        (0..3).map(|a| self.flat.matrix()[(2, a)].abs()).fold(0.0, f64::max)
    }

    /// A pose in the plane's own coordinates as it lies in the patient.
    pub fn pose_to_lps(&self, flat: &Pose) -> Pose {
        let turn =
            UnitQuaternion::from_rotation_matrix(&Rotation3::from_matrix_unchecked(self.axes));
        Pose {
            center: self.point_to_lps(flat.center),
            orientation: crate::positive(turn * flat.orientation),
            ..*flat
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{VoxelIndex, rotation_from_vector};
    use proptest::prelude::*;

    #[test]
    fn a_picture_is_flat_as_it_is() {
        let picture = Geometry::isotropic([64, 48, 1], 1.0).unwrap();
        let plane = Plane::of(&picture).unwrap();
        assert_eq!(plane.geometry(), &picture);
        let point = PointLps::new(3.25, 40.0, 0.0);
        assert_eq!(plane.flat_point(point), point);
        assert_eq!(plane.point_to_lps(point), point);
        for shape in [[4, 4, 4], [1, 1, 9], [1, 1, 1]] {
            assert!(Plane::of(&Geometry::isotropic(shape, 1.0).unwrap()).is_none());
        }
    }

    proptest! {
        /// Any slice, stored in any order of axes: voxels stay where they are.
        #[test]
        fn voxels_stay_in_place(
            turn in prop::array::uniform3(-1.8f64..1.8),
            thin in 0usize..3,
            spacing in prop::array::uniform3(0.3f64..4.0),
            flip in any::<[bool; 3]>(),
            origin in prop::array::uniform3(-90.0f64..90.0),
        ) {
            let turn = rotation_from_vector(Vector3::from(turn)).to_rotation_matrix().into_inner();
            let signed = |a: usize| if flip[a] { -spacing[a] } else { spacing[a] };
            let matrix = turn * Matrix3::from_diagonal(&Vector3::from_fn(|a, _| signed(a)));
            let mut shape = [7, 9, 8];
            shape[thin] = 1;
            let image = Geometry::new(shape, matrix, PointLps::new(origin[0], origin[1], origin[2])).unwrap();
            let plane = Plane::of(&image).unwrap();
            for corner in image.corners() {
                let (lps, flat) = (image.to_lps(corner), plane.geometry().to_lps(corner));
                prop_assert!(flat.0.z == 0.0);
                prop_assert!(plane.flat_point(lps).distance_mm(&flat) < 1e-9);
                prop_assert!(plane.point_to_lps(flat).distance_mm(&lps) < 1e-9);
            }
            // A box turned in the plane: its corners move with it.
            let pose = Pose {
                center: plane.geometry().to_lps(VoxelIndex::new(1.0, 2.0, 3.0)),
                orientation: rotation_from_vector(Vector3::new(0.0, 0.0, 0.7)),
                size_mm: [3.0, 2.0, 1.0],
            };
            let pose = Pose { center: PointLps::new(pose.center.0.x, pose.center.0.y, 0.0), ..pose };
            for (flat, lps) in pose.corners().iter().zip(plane.pose_to_lps(&pose).corners()) {
                prop_assert!(plane.point_to_lps(*flat).distance_mm(&lps) < 1e-9);
            }
            // Brought into the plane it stays where it is, however its axes are named and wherever its back is.
            let drawn = plane.pose_to_lps(&pose);
            let axes = drawn.axes();
            let [x, y, z] = [0, 1, 2].map(|a| axes.column(a).into_owned());
            let [sx, sy, sz] = drawn.size_mm;
            for (named, size_mm) in [
                ([x, y, z], [sx, sy, sz]),
                ([z, x, y], [sz, sx, sy]),
                ([x, -y, -z], [sx, sy, sz]),
            ] {
                let named = Pose::from_axes(drawn.center, &Matrix3::from_columns(&named), size_mm).unwrap();
                let flat = plane.flat_pose(&named);
                prop_assert!(flat.center.distance_mm(&pose.center) < 1e-9);
                prop_assert!(flat.angle_to(&pose) < 1e-9);
                prop_assert!(flat.size_mm[..2] == [sx, sy] && (flat.mean_size_mm() - (sx * sy).sqrt()).abs() < 1e-9);
                prop_assert!(plane.brought_into(&drawn).angle_to(&drawn) < 1e-9);
            }
            prop_assert!((plane.thickness_mm() - plane.geometry().spacing_mm()[thin]).abs() < 1e-9);
        }
    }
}
