//! The shape that one structure has in the label maps of a data set, and the box that it gives to
//! each of them. `docs/reference/boxes-from-labels.md` states the rule and shows what it gives on
//! real masks.
//!
//! The axes of a box must mean the same in every case. The principal axes of a single mask do not:
//! where two of them are about equally long they change places from case to case. So all masks are
//! turned onto their common mean shape first (generalised Procrustes analysis, Gower 1975, of second
//! moments in place of points), only as far as their shape asks for it, and the mean shape's axes
//! serve all of them.

use crate::label_runs::LabelRuns;
use crate::principal_axes::{across, axes, nearest_rotation};
use nalgebra::{Matrix3, Vector3};
use pbt_volume::{LabelShape, PointLps, Pose, Volume};

/// How strongly masks keep to the patient's axes, against covariances of trace 1. Where it is right,
/// two structures of one head turn alike: `docs/experiments/boxes-from-labels.md`.
const KEEP: f64 = 0.1;

/// Most rounds of the alignment; some fifty are enough.
const ROUNDS: usize = 200;

/// A turn that changes by less than this, radians, is final.
const SETTLED_RAD: f64 = 1e-9;

/// The edges of a box reach from this share of the voxels to one minus it along each axis, and beyond
/// by as much as in the mean of all cases: so the last slice somebody drew does not change them.
const TAIL: f64 = 0.02;

/// The mean shape of a structure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MeanShape {
    /// Mean of the covariances of the masks, of trace 1, after they were turned.
    covariance: Matrix3<f64>,
    /// The axes of the boxes, as columns, in a mask that is not turned.
    axes: Matrix3<f64>,
    /// By axis, the mean of the whole extent over the extent without tails.
    reach: Vector3<f64>,
    /// By axis, the mean way from the centroid to the middle of the whole extent, as a share of the
    /// extent without tails.
    shift: Vector3<f64>,
}

/// Where a mask lies along the axes of its box, mm.
struct Extents {
    /// Whole extent: from the first voxel centre to the last and one voxel.
    whole: Vector3<f64>,
    middle_of_whole: Vector3<f64>,
    /// The extent without tails.
    bulk: Vector3<f64>,
    centroid: Vector3<f64>,
}

impl MeanShape {
    /// The mean shape of at least one mask.
    pub(crate) fn new(masks: &[LabelRuns]) -> Self {
        let covariances: Vec<Matrix3<f64>> = masks.iter().map(unit_covariance).collect();
        let mut turns = vec![Matrix3::identity(); masks.len()];
        let turned_mean = |turns: &[Matrix3<f64>]| {
            let turned = turns.iter().zip(&covariances).map(|(r, c)| r * c * r.transpose());
            turned.sum::<Matrix3<f64>>() / masks.len() as f64
        };
        for _ in 0..ROUNDS {
            let mean = turned_mean(&turns);
            let next: Vec<Matrix3<f64>> =
                turns.iter().zip(&covariances).map(|(r, c)| next_turn(r, c, &mean)).collect();
            let change = next.iter().zip(&turns).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max);
            turns = next;
            if change < SETTLED_RAD {
                break;
            }
        }
        let covariance = turned_mean(&turns);
        let mut shape = Self {
            covariance,
            axes: axes(&covariance),
            reach: Vector3::repeat(1.0),
            shift: Vector3::zeros(),
        };
        let extents: Vec<Extents> =
            masks.iter().map(|mask| Extents::new(mask, &shape.axes_in(mask))).collect();
        let mean = |of: &dyn Fn(&Extents) -> Vector3<f64>| {
            extents.iter().map(of).sum::<Vector3<f64>>() / masks.len() as f64
        };
        shape.reach = mean(&|e| e.whole.component_div(&e.bulk));
        shape.shift = mean(&|e| (e.middle_of_whole - e.centroid).component_div(&e.bulk));
        shape
    }

    /// The box of a mask.
    pub(crate) fn pose(&self, mask: &LabelRuns) -> Option<Pose> {
        let axes = self.axes_in(mask);
        let extents = Extents::new(mask, &axes);
        let size_mm = extents.bulk.component_mul(&self.reach);
        let middle = extents.centroid + extents.bulk.component_mul(&self.shift);
        let center = PointLps((mask.origin() + axes * middle).into());
        Pose::from_axes(center, &axes, size_mm.into())
    }

    /// The mean shape of the mirror images, across the patient's sagittal plane: the first axis of its
    /// boxes still points roughly left.
    pub(crate) fn mirrored(&self) -> Self {
        let f = across();
        Self {
            covariance: f * self.covariance * f,
            axes: f * self.axes * f,
            reach: self.reach,
            shift: f * self.shift,
        }
    }

    /// The axes of the box of a mask, as columns.
    fn axes_in(&self, mask: &LabelRuns) -> Matrix3<f64> {
        let covariance = unit_covariance(mask);
        let mut turn = Matrix3::identity();
        for _ in 0..ROUNDS {
            let next = next_turn(&turn, &covariance, &self.covariance);
            let change = (next - turn).norm();
            turn = next;
            if change < SETTLED_RAD {
                break;
            }
        }
        turn.transpose() * self.axes
    }
}

impl From<&LabelShape> for MeanShape {
    fn from(shape: &LabelShape) -> Self {
        Self {
            covariance: shape.covariance.into(),
            axes: shape.axes.into(),
            reach: shape.reach.into(),
            shift: shape.shift.into(),
        }
    }
}

impl From<&MeanShape> for LabelShape {
    fn from(shape: &MeanShape) -> Self {
        Self {
            covariance: shape.covariance.into(),
            axes: shape.axes.into(),
            reach: shape.reach.into(),
            shift: shape.shift.into(),
        }
    }
}

impl Extents {
    fn new(mask: &LabelRuns, axes: &Matrix3<f64>) -> Self {
        let spacing = mask.mean_spacing_mm();
        let ends = mask.along(axes).map(|mut values| {
            let tail = (TAIL * values.len() as f64) as usize;
            let last = values.len() - 1;
            let mut nth = |n: usize| *values.select_nth_unstable_by(n, f64::total_cmp).1;
            [nth(0), nth(tail), nth(last - tail), nth(last)]
        });
        let size = |a: usize, b: usize| Vector3::from(ends.map(|e| e[b] - e[a] + spacing));
        Self {
            whole: size(0, 3),
            middle_of_whole: ends.map(|e| (e[0] + e[3]) / 2.0).into(),
            bulk: size(1, 2),
            centroid: axes.transpose() * mask.centroid(),
        }
    }
}

/// The box of the voxels whose value is `inside`, from this label map alone; `None` when there are
/// none.
pub fn box_from_labels(labels: &Volume<u16>, inside: impl Fn(u16) -> bool) -> Option<Pose> {
    let mask = LabelRuns::new(labels, inside)?;
    MeanShape::new(std::slice::from_ref(&mask)).pose(&mask)
}

/// The covariance of the voxel centres, scaled to trace 1; that of a ball where there is but one
/// voxel.
pub(crate) fn unit_covariance(mask: &LabelRuns) -> Matrix3<f64> {
    let covariance = mask.covariance();
    let trace = covariance.trace();
    if trace > 0.0 { covariance / trace } else { Matrix3::identity() / 3.0 }
}

/// A rotation R with a larger tr(R C Rᵀ M) + `KEEP` tr(R) than the last one has, C being the
/// covariance of a mask and M the mean one. The first term is largest where the principal axes agree
/// and flat where they are tied; the second holds on to the patient's axes. The first is convex in
/// R, so it lies above its tangent, and what is best for the tangent is better for both.
fn next_turn(last: &Matrix3<f64>, covariance: &Matrix3<f64>, mean: &Matrix3<f64>) -> Matrix3<f64> {
    nearest_rotation(
        &(covariance * last.transpose() * mean * 2.0 + Matrix3::identity() * KEEP).transpose(),
    )
    .unwrap_or(*last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::UnitQuaternion;
    use pbt_volume::{Geometry, VoxelIndex, angle_between, rotation_from_vector};
    use proptest::prelude::*;

    /// Voxels within an ellipsoid given by pose, full axes as sizes.
    fn ellipsoid(pose: &Pose, geometry: &Geometry) -> Volume<u16> {
        let inverse = pose.orientation.inverse();
        Volume::from_fn(geometry.clone(), |i, j, k| {
            let point = geometry.to_lps(VoxelIndex::new(i as f64, j as f64, k as f64));
            let local = inverse * (point.0 - pose.center.0);
            let radius: f64 = (0..3).map(|a| (2.0 * local[a] / pose.size_mm[a]).powi(2)).sum();
            if radius <= 1.0 { 4 } else { 0 }
        })
    }

    fn grid() -> Geometry {
        // Oblique, anisotropic and mirrored: the box lives in the world, not in the grid.
        let rotation =
            rotation_from_vector(Vector3::new(0.2, -0.4, 0.1)).to_rotation_matrix().into_inner();
        let matrix = rotation * Matrix3::from_diagonal(&Vector3::new(1.0, -0.8, 1.2));
        Geometry::new([70, 80, 60], matrix, PointLps::new(-20.0, 40.0, -40.0)).unwrap()
    }

    #[test]
    fn no_voxels_no_box_and_one_voxel_a_small_one() {
        let mut labels = Volume::filled(grid(), 0u16);
        assert!(box_from_labels(&labels, |v| v != 0).is_none());
        let at = labels.offset(5, 6, 7);
        labels.data_mut()[at] = 1;
        let pose = box_from_labels(&labels, |v| v != 0).unwrap();
        assert!(pose.center.distance_mm(&grid().to_lps(VoxelIndex::new(5.0, 6.0, 7.0))) < 1e-9);
        assert!(pose.size_mm.iter().all(|s| (s - 1.0).abs() < 1e-9));
        assert_eq!(pose.angle_to(&Pose { orientation: UnitQuaternion::identity(), ..pose }), 0.0);
    }

    #[test]
    fn nearly_round_outlines_do_not_turn() {
        let center = grid().center();
        // Two axes within the tie: only the tilt of the long one shows, whatever the short ones do.
        let tilt = rotation_from_vector(Vector3::new(0.3, 0.0, 0.0));
        let spin = rotation_from_vector(Vector3::new(0.0, 0.0, 0.7));
        let labels = ellipsoid(
            &Pose { center, orientation: tilt * spin, size_mm: [20.0, 22.0, 34.0] },
            &grid(),
        );
        let pose = box_from_labels(&labels, |v| v == 4).unwrap();
        assert!(
            angle_between(&pose.orientation, &tilt) < 0.02,
            "{}",
            angle_between(&pose.orientation, &tilt)
        );
        let labels =
            ellipsoid(&Pose { center, orientation: tilt, size_mm: [25.0, 24.0, 27.0] }, &grid());
        assert!(box_from_labels(&labels, |v| v == 4).unwrap().orientation.angle() < 1e-12);
    }

    /// Fourteen ellipsoids whose second and third axes are nearly equal, so that the principal axes
    /// of single ones change places, turned by up to 0.3 rad about the first.
    #[test]
    fn axes_mean_the_same_in_every_case() {
        let poses: Vec<Pose> = (0..14)
            .map(|n| {
                let turn = (f64::from(n) - 6.5) / 22.0;
                Pose {
                    center: grid().center(),
                    orientation: rotation_from_vector(Vector3::new(0.0, turn, turn)),
                    size_mm: [40.0, 22.0 + f64::from(n % 3), 23.5 - f64::from(n % 2)],
                }
            })
            .collect();
        let masks: Vec<LabelRuns> = poses
            .iter()
            .map(|p| LabelRuns::new(&ellipsoid(p, &grid()), |v| v == 4).unwrap())
            .collect();
        let shape = MeanShape::new(&masks);
        for (mask, truth) in masks.iter().zip(&poses) {
            let pose = shape.pose(mask).unwrap();
            // The long axis follows the shape by most of its turn; nothing turns about it.
            let angle = angle_between(&pose.orientation, &truth.orientation);
            assert!(angle < 0.4 * truth.orientation.angle() + 0.02, "{angle} {truth:?}");
            for a in 0..3 {
                assert!((pose.size_mm[a] - truth.size_mm[a]).abs() < 3.0, "{pose:?} {truth:?}");
            }
            assert!(pose.center.distance_mm(&truth.center) < 0.6);
        }
    }

    /// One slice more at an end, as somebody else would have drawn it.
    #[test]
    fn a_last_slice_does_not_move_the_box() {
        let geometry = Geometry::isotropic([40, 40, 90], 1.0).unwrap();
        let cylinder = |first: usize, radius: f64| {
            let labels = Volume::from_fn(geometry.clone(), |i, j, k| {
                let r = (i as f64 - 20.0).hypot(j as f64 - 20.0);
                u16::from((first..80).contains(&k) && r < if k < 20 { 2.0 } else { radius })
            });
            LabelRuns::new(&labels, |v| v == 1).unwrap()
        };
        let masks: Vec<LabelRuns> =
            (0..5).map(|n| cylinder(20, 9.0 + f64::from(n) / 2.0)).collect();
        let shape = MeanShape::new(&masks);
        let [usual, longer] = [20, 15].map(|first| shape.pose(&cylinder(first, 10.0)).unwrap());
        assert!(usual.center.distance_mm(&longer.center) < 0.3, "{usual:?} {longer:?}");
        assert!((usual.size_mm[2] - 60.0).abs() < 1.0 && (longer.size_mm[2] - 60.0).abs() < 1.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn finds_the_box_of_an_ellipsoid(v in prop::array::uniform3(-0.35f64..0.35), shift in prop::array::uniform3(-4.0f64..4.0)) {
            let center = PointLps(grid().center().0 + Vector3::from(shift));
            let truth = Pose { center, orientation: rotation_from_vector(Vector3::from(v)), size_mm: [36.0, 13.0, 23.0] };
            let pose = box_from_labels(&ellipsoid(&truth, &grid()), |v| v == 4).unwrap();
            prop_assert!(pose.center.distance_mm(&truth.center) < 0.5);
            prop_assert!(pose.angle_to(&truth) < 0.03, "{}", pose.angle_to(&truth));
            for a in 0..3 {
                prop_assert!((pose.size_mm[a] - truth.size_mm[a]).abs() < 1.6, "{:?}", pose.size_mm);
            }
        }
    }
}
