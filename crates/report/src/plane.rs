//! Planes along the axes of a volume: which anatomical plane each is, its pixels, and where boxes
//! and points meet it.

use nalgebra::Vector3;
use pbt_volume::{Geometry, PointLps, Pose, Volume, VoxelIndex};

/// The three views, each as its name and the LPS directions in which its pixels go right and down
/// (radiological convention: the patient's right is on the viewer's left).
const VIEWS: [(&str, [f64; 3], [f64; 3]); 3] = [
    ("axial", [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]),
    ("coronal", [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]),
    ("sagittal", [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]),
];

/// A plane of constant index along one axis of a volume, with the directions of a picture of it.
pub(crate) struct Plane {
    pub(crate) name: &'static str,
    /// The axis of constant index, and that index.
    pub(crate) axis: usize,
    index: f64,
    /// Axes of the volume that go right and down, and whether the picture runs against the index.
    right: (usize, bool),
    down: (usize, bool),
    /// Pixels across and down.
    pub(crate) shape: [usize; 2],
    /// Edge lengths in mm, whole pixels included.
    pub(crate) size_mm: [f64; 2],
    /// Letters of the left, right, top and bottom sides, of the LPS axes that they are nearest to.
    pub(crate) letters: [char; 4],
}

/// The axial, coronal and sagittal planes through a point; planes of an oblique volume bear the
/// name of the nearest. The point is brought into the volume.
pub(crate) fn planes(geometry: &Geometry, through: PointLps) -> [Plane; 3] {
    let nearest = nearest_axes(geometry);
    let at = geometry.to_index(through).0;
    VIEWS.map(|(name, right, down)| {
        let (right, down) = (Vector3::from(right), Vector3::from(down));
        let along = |direction: Vector3<f64>| {
            let axis = nearest[direction.iamax()];
            (axis, geometry.matrix().column(axis).dot(&direction) < 0.0)
        };
        let (right, down) = (along(right), along(down));
        let axis = 3 - right.0 - down.0;
        let spacing = geometry.spacing_mm();
        let shape = [geometry.shape()[right.0], geometry.shape()[down.0]];
        let ([left, right_letter], [top, bottom]) =
            (letters(geometry, right), letters(geometry, down));
        Plane {
            name,
            axis,
            index: at[axis].clamp(0.0, geometry.shape()[axis] as f64 - 1.0),
            right,
            down,
            shape,
            size_mm: [shape[0] as f64 * spacing[right.0], shape[1] as f64 * spacing[down.0]],
            letters: [left, right_letter, top, bottom],
        }
    })
}

/// For each of x, y, z the axis of the volume that goes most along it, each axis once: the best of
/// the six assignments.
fn nearest_axes(geometry: &Geometry) -> [usize; 3] {
    let along = |axis: usize, lps: usize| geometry.matrix().column(axis).normalize()[lps].abs();
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let fit = |order: &[usize; 3]| (0..3).map(|lps| along(order[lps], lps)).sum::<f64>();
    // The first of equals: max_by would take the last.
    orders
        .into_iter()
        .reduce(|best, order| if fit(&order) > fit(&best) { order } else { best })
        .unwrap_or([0, 1, 2])
}

/// Letters at the beginning and the end of a direction of the picture.
fn letters(geometry: &Geometry, (axis, reversed): (usize, bool)) -> [char; 2] {
    let step = geometry.matrix().column(axis);
    let lps = step.iamax();
    let ends = [['R', 'L'], ['A', 'P'], ['I', 'S']][lps];
    if (step[lps] < 0.0) != reversed { [ends[1], ends[0]] } else { ends }
}

impl Plane {
    /// The pixels, row by row, `low` of the window black and `high` white; linear between the two
    /// nearest slices.
    pub(crate) fn pixels(&self, image: &Volume<f32>, (low, high): (f64, f64)) -> Vec<u8> {
        let (first, share) = (self.index.floor() as usize, self.index.fract());
        let second = (first + 1).min(image.shape()[self.axis] - 1);
        let pixel = |at: [usize; 3]| {
            let value = |slice: usize| {
                let mut at = at;
                at[self.axis] = slice;
                f64::from(image.at(at[0], at[1], at[2]))
            };
            // Without the test a NaN of a slice with share 0 would spread.
            let value = if share == 0.0 {
                value(first)
            } else {
                value(first) * (1.0 - share) + value(second) * share
            };
            // The cast takes NaN to 0 and clamps the rest.
            ((value - low) / (high - low) * 255.0).round() as u8
        };
        self.voxels().map(pixel).collect()
    }

    /// The values of the nearest slice, in the order of [`Plane::pixels`].
    pub(crate) fn nearest(&self, labels: &Volume<u16>) -> Vec<u16> {
        self.voxels().map(|[i, j, k]| labels.at(i, j, k)).collect()
    }

    /// The voxel of each pixel in the nearest slice, row by row.
    fn voxels(&self) -> impl Iterator<Item = [usize; 3]> {
        let [width, height] = self.shape;
        (0..height).flat_map(move |y| {
            (0..width).map(move |x| {
                let mut at = [0; 3];
                at[self.axis] = self.index.round() as usize;
                at[self.right.0] = if self.right.1 { width - 1 - x } else { x };
                at[self.down.0] = if self.down.1 { height - 1 - y } else { y };
                at
            })
        })
    }

    /// Where a voxel position falls in the picture, in pixels from its top left corner; pixel
    /// centres are at halves.
    fn in_picture(&self, index: Vector3<f64>) -> [f64; 2] {
        let along = |(axis, reversed): (usize, bool), pixels: usize| {
            let x = index[axis] + 0.5;
            if reversed { pixels as f64 - x } else { x }
        };
        [along(self.right, self.shape[0]), along(self.down, self.shape[1])]
    }

    /// A point in the picture, in pixels, and its distance from the plane in mm measured along the
    /// volume's axis.
    pub(crate) fn project(&self, geometry: &Geometry, point: PointLps) -> ([f64; 2], f64) {
        let index = geometry.to_index(point).0.coords;
        (
            self.in_picture(index),
            (index[self.axis] - self.index).abs() * geometry.spacing_mm()[self.axis],
        )
    }

    /// The convex polygon in which a box meets the plane, in pixels, in order; empty when they do
    /// not meet.
    pub(crate) fn intersection(&self, geometry: &Geometry, pose: &Pose) -> Vec<[f64; 2]> {
        let corners = pose.corners().map(|corner| {
            let VoxelIndex(index) = geometry.to_index(corner);
            index.coords
        });
        let mut points = Vec::new();
        for a in 0..8usize {
            // Edges join corners whose numbers differ in one bit.
            for b in [a | 1, a | 2, a | 4].into_iter().filter(|&b| b != a) {
                let (from, to) =
                    (corners[a][self.axis] - self.index, corners[b][self.axis] - self.index);
                if (from < 0.0) != (to < 0.0) {
                    points.push(
                        self.in_picture(
                            corners[a] + (corners[b] - corners[a]) * (from / (from - to)),
                        ),
                    );
                }
            }
        }
        let n = points.len() as f64;
        let middle = [0, 1].map(|a| points.iter().map(|p: &[f64; 2]| p[a]).sum::<f64>() / n);
        let angle = |p: &[f64; 2]| f64::atan2(p[1] - middle[1], p[0] - middle[0]);
        points.sort_by(|p, q| angle(p).total_cmp(&angle(q)));
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::{Matrix3, UnitQuaternion};
    use proptest::prelude::*;

    fn plain() -> Geometry {
        Geometry::new(
            [4, 5, 6],
            Matrix3::from_diagonal(&Vector3::new(1.0, 2.0, 3.0)),
            PointLps::new(0.0, 0.0, 0.0),
        )
        .unwrap()
    }

    #[test]
    fn views_are_radiological_whatever_the_storage_order() {
        let lps = planes(&plain(), plain().center());
        // k goes left, i goes forward, j goes down.
        let matrix = Matrix3::from_columns(&[-Vector3::y(), -Vector3::z(), Vector3::x()]);
        let turned = Geometry::new([6, 7, 8], matrix, PointLps::new(0.0, 0.0, 0.0)).unwrap();
        for planes in [lps, planes(&turned, turned.center())] {
            assert_eq!(planes.each_ref().map(|p| p.name), ["axial", "coronal", "sagittal"]);
            assert_eq!(planes[0].letters, ['R', 'L', 'A', 'P']);
            assert_eq!(planes[1].letters, ['R', 'L', 'S', 'I']);
            assert_eq!(planes[2].letters, ['A', 'P', 'S', 'I']);
        }
        let axial = &planes(&turned, turned.center())[0];
        assert_eq!(
            (axial.shape, axial.axis, axial.right, axial.down),
            ([8, 6], 1, (2, false), (0, true))
        );
    }

    #[test]
    fn pixels_come_from_the_right_voxels() {
        let image = Volume::from_fn(plain(), |i, j, k| (i + 10 * j + 40 * k) as f32);
        let through = plain().to_lps(VoxelIndex::new(2.0, 3.0, 1.0));
        let [axial, coronal, sagittal] = planes(image.geometry(), through);
        let window = (0.0, 255.0);
        assert_eq!(axial.pixels(&image, window)[4 * 2 + 1], 1 + 20 + 40);
        // The top row of a coronal slice is the most superior one.
        assert_eq!(coronal.pixels(&image, window)[3], 3 + 30 + 5 * 40);
        assert_eq!(sagittal.pixels(&image, window)[5 * 5 + 4], 2 + 40);
        assert_eq!(coronal.size_mm, [4.0, 18.0]);
        let between = planes(image.geometry(), plain().to_lps(VoxelIndex::new(2.0, 3.0, 1.5)));
        assert_eq!(between[0].pixels(&image, window)[0], 60);
        let dark = Volume::filled(plain(), f32::NAN);
        assert!(axial.pixels(&dark, window).iter().all(|&p| p == 0));
    }

    #[test]
    fn a_box_beside_the_plane_does_not_meet_it() {
        let pose = Pose {
            center: PointLps::new(50.0, 50.0, 50.0),
            orientation: UnitQuaternion::identity(),
            size_mm: [4.0; 3],
        };
        for plane in planes(&plain(), plain().center()) {
            assert!(plane.intersection(&plain(), &pose).is_empty());
        }
    }

    /// Whether a point lies in a convex polygon, by the signs of the cross products.
    fn inside(polygon: &[[f64; 2]], p: [f64; 2]) -> bool {
        let crosses: Vec<f64> = (0..polygon.len())
            .map(|n| {
                let (a, b) = (polygon[n], polygon[(n + 1) % polygon.len()]);
                (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])
            })
            .collect();
        !crosses.is_empty()
            && (crosses.iter().all(|&c| c >= 0.0) || crosses.iter().all(|&c| c <= 0.0))
    }

    proptest! {
        /// A voxel of the plane lies in the polygon exactly when it lies in the box.
        #[test]
        fn the_polygon_is_the_cut_through_the_box(
            turn in prop::array::uniform3(-1.5f64..1.5),
            tilt in prop::array::uniform3(-0.3f64..0.3),
            size_mm in prop::array::uniform3(2.0f64..20.0),
            shift in prop::array::uniform3(-4.0f64..4.0),
        ) {
            let tilt = UnitQuaternion::from_scaled_axis(Vector3::from(tilt)).to_rotation_matrix().into_inner();
            let matrix = tilt * Matrix3::from_diagonal(&Vector3::new(-1.0, 1.5, 2.0));
            let geometry = Geometry::new([15, 13, 11], matrix, PointLps::new(5.0, -3.0, 2.0)).unwrap();
            let pose = Pose {
                center: PointLps(geometry.center().0 + Vector3::from(shift)),
                orientation: UnitQuaternion::from_scaled_axis(Vector3::from(turn)),
                size_mm,
            };
            for plane in planes(&geometry, geometry.center()) {
                let polygon = plane.intersection(&geometry, &pose);
                for (x, y) in (0..plane.shape[0]).flat_map(|x| (0..plane.shape[1]).map(move |y| (x, y))) {
                    let mut index = Vector3::zeros();
                    index[plane.axis] = plane.index;
                    index[plane.right.0] = if plane.right.1 { plane.shape[0] - 1 - x } else { x } as f64;
                    index[plane.down.0] = if plane.down.1 { plane.shape[1] - 1 - y } else { y } as f64;
                    let point = geometry.to_lps(VoxelIndex::new(index.x, index.y, index.z));
                    let q = pose.orientation.inverse() * (point.0 - pose.center.0);
                    let depth = (0..3).map(|a| size_mm[a] / 2.0 - q[a].abs()).fold(f64::INFINITY, f64::min);
                    // On the border itself rounding may decide either way.
                    if depth.abs() > 1e-6 {
                        prop_assert_eq!(inside(&polygon, [x as f64 + 0.5, y as f64 + 0.5]), depth > 0.0);
                    }
                    let (at, distance_mm) = plane.project(&geometry, point);
                    prop_assert!((at[0] - x as f64 - 0.5).abs() < 1e-9 && (at[1] - y as f64 - 0.5).abs() < 1e-9 && distance_mm < 1e-9);
                }
            }
        }
    }
}
