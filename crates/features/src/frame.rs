//! A posed box made ready for sampling: fixed-point steps from grid point to grid point on every
//! pyramid level.

use nalgebra::Vector3;
use pbt_volume::{Geometry, PointLps, Pose};
use serde::{Deserialize, Serialize};

/// Fractional bits of positions in a [`PoseFrame`].
pub const FRAME_BITS: i32 = 16;

/// A regular grid of sample points in a box: `points[a]` along axis `a`, from one face of the box,
/// moved out by `extent[a]`, to the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoxGrid {
    /// Points along the box's axes, 1 to 32 each.
    pub points: [u8; 3],
    /// Edge lengths of the grid as multiples of the box's; above 1 it sees the surroundings.
    pub extent: [f64; 3],
}

impl BoxGrid {
    /// Number of points.
    pub fn len(&self) -> usize {
        self.points.iter().map(|&p| usize::from(p)).product()
    }

    /// True when some axis has no points.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where a point lies in the box, as shares of its edges; 0 is the centre, ½ a face.
    pub fn place(&self, point: [u8; 3]) -> [f64; 3] {
        std::array::from_fn(|a| match self.points[a] {
            0 | 1 => 0.0,
            n => (f64::from(point[a]) / f64::from(n - 1) - 0.5) * self.extent[a],
        })
    }

    /// All points, the first axis fastest.
    pub fn iter(&self) -> impl Iterator<Item = [u8; 3]> {
        let [nx, ny, nz] = self.points;
        (0..nz).flat_map(move |k| (0..ny).flat_map(move |j| (0..nx).map(move |i| [i, j, k])))
    }
}

/// Where the points of a [`BoxGrid`] under a pose lie on every level of a case, and the box's axes.
#[derive(Debug, Clone, PartialEq)]
pub struct PoseFrame {
    levels: Vec<LevelFrame>,
    /// Box axes in the working grid's own axes, 14 fractional bits.
    axes: [[i32; 3]; 3],
}

/// Voxel units of one level, [`FRAME_BITS`] fractional bits.
#[derive(Debug, Clone, Copy, PartialEq)]
struct LevelFrame {
    origin: [i32; 3],
    steps: [[i32; 3]; 3],
}

impl PoseFrame {
    /// The frame of a pose on the levels of a working pyramid, whose geometries have orthogonal
    /// axes, the same on every level.
    pub fn new(pose: &Pose, grid: &BoxGrid, levels: &[&Geometry]) -> Self {
        let box_axes = pose.axes();
        let step_mm: [Vector3<f64>; 3] = std::array::from_fn(|a| {
            let intervals = f64::from(grid.points[a].max(2) - 1);
            box_axes.column(a) * (pose.size_mm[a] * grid.extent[a] / intervals)
        });
        let first_mm = (0..3).fold(pose.center.0, |p, a| {
            p - step_mm[a] * (f64::from(grid.points[a].max(1) - 1) / 2.0)
        });
        let mut axes = [[0; 3]; 3];
        let levels = levels
            .iter()
            .map(|geometry| {
                let spacing = geometry.spacing_mm();
                let along =
                    |v: Vector3<f64>, b: usize| geometry.matrix().column(b).dot(&v) / spacing[b];
                axes = std::array::from_fn(|a| {
                    std::array::from_fn(|b| fixed(along(box_axes.column(a).into(), b), AXIS_BITS))
                });
                let origin = geometry.to_index(PointLps(first_mm)).0;
                LevelFrame {
                    origin: std::array::from_fn(|b| fixed(origin[b], FRAME_BITS)),
                    steps: std::array::from_fn(|a| {
                        std::array::from_fn(|b| {
                            fixed(along(step_mm[a], b) / spacing[b], FRAME_BITS)
                        })
                    }),
                }
            })
            .collect();
        Self { levels, axes }
    }

    /// Position of a grid point on a level, voxel units with [`FRAME_BITS`] fractional bits.
    pub fn point(&self, level: usize, point: [u8; 3]) -> [i32; 3] {
        let frame = &self.levels[level];
        std::array::from_fn(|b| {
            (0..3).fold(frame.origin[b], |p, a| {
                p.saturating_add(frame.steps[a][b].saturating_mul(i32::from(point[a])))
            })
        })
    }

    /// Of each level the origin and then the three steps along the box's axes, [`FRAME_BITS`]
    /// fractional bits: what [`PoseFrame::point`] computes with, for backends that keep it on a
    /// device.
    pub fn levels(&self) -> impl Iterator<Item = [[i32; 3]; 4]> {
        self.levels.iter().map(|l| [l.origin, l.steps[0], l.steps[1], l.steps[2]])
    }

    /// The box's axes in the working grid's own axes, 14 fractional bits, for backends that keep
    /// them on a device.
    pub fn axes(&self) -> [[i32; 3]; 3] {
        self.axes
    }

    /// Component of a vector, given along the working grid's axes, along box axis `a`.
    pub fn project(&self, vector: [i32; 3], a: usize) -> i32 {
        // |vector| ≤ √3·2¹⁵ and a unit axis of 14 bits: below 2³⁰.
        (0..3).map(|b| vector[b] * self.axes[a][b]).sum::<i32>() >> AXIS_BITS
    }
}

/// Fractional bits of unit axes.
pub const AXIS_BITS: i32 = 14;

/// Fixed point, rounded half up; far outside it saturates, where samples repeat the border in any
/// case.
fn fixed(value: f64, bits: i32) -> i32 {
    (value * f64::from(1 << bits) + 0.5).floor() as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::rotation_from_vector;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn points_lie_where_the_pose_says(
            v in prop::array::uniform3(-1.5f64..1.5),
            center in prop::array::uniform3(0.0f64..40.0),
            size in prop::array::uniform3(4.0f64..30.0),
        ) {
            let pose = Pose {
                center: PointLps::new(center[0], center[1], center[2]),
                orientation: rotation_from_vector(Vector3::from(v)),
                size_mm: size,
            };
            let grid = BoxGrid { points: [5, 7, 4], extent: [1.2, 1.2, 1.5] };
            let oblique = rotation_from_vector(Vector3::new(0.3, -0.2, 0.9)).to_rotation_matrix().into_inner();
            let geometry = Geometry::new([40, 40, 40], oblique * 0.7, PointLps::new(-3.0, 4.0, 5.0)).unwrap();
            let frame = PoseFrame::new(&pose, &grid, &[&geometry]);
            for p in grid.iter() {
                let in_box = Vector3::from_fn(|a, _| (f64::from(p[a]) / f64::from(grid.points[a] - 1) - 0.5) * size[a] * grid.extent[a]);
                let shares = grid.place(p);
                prop_assert!((0..3).all(|a| (shares[a] * size[a] - in_box[a]).abs() < 1e-9));
                let expected = geometry.to_index(pose.to_lps(in_box)).0;
                let found = frame.point(0, p);
                for a in 0..3 {
                    prop_assert!((f64::from(found[a]) / 65536.0 - expected[a]).abs() < 2e-4);
                }
            }
            let gradient_mm = Vector3::new(0.2, -0.5, 0.7);
            let along_grid: [i32; 3] = std::array::from_fn(|b| (geometry.matrix().column(b).dot(&gradient_mm) / 0.7 * 10_000.0) as i32);
            for a in 0..3 {
                prop_assert!((f64::from(frame.project(along_grid, a)) - 10_000.0 * pose.axes().column(a).dot(&gradient_mm)).abs() < 4.0);
            }
        }
    }
}
