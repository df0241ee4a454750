//! Where a structure is looked for once another one is found: the search regions of the detection network
//! (Sofka et al. 2010).

use crate::network::arc::Arc;
use crate::pose::prior::Prior;
use nalgebra::{Matrix3, Vector3};
use pbt_volume::{Geometry, Pose};
use serde::{Deserialize, Serialize};

/// A structure that is searched for in the whole image, before others. Part of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    /// Index of the structure.
    pub structure: usize,
    /// From it to others, of which enough cases show both.
    pub arcs: Vec<Arc>,
}

/// A region reaches so many standard deviations of the relative position, along each axis of the image,
const DEVIATIONS: f64 = 4.0;

/// and beyond that this far, in D of the structure: where the anchor is found is not exact, and the cases
/// of a training may be alike.
const MARGIN: f64 = 0.5;

/// What may be searched for first, the structure that says most about the others first, by the poses of
/// each structure by case and the entropy of where others lie in its frame.
pub(crate) fn anchors(
    poses: &[Vec<Option<Pose>>],
    priors: &[&Prior],
    may_be: impl Fn(usize) -> bool,
) -> Vec<Anchor> {
    let arc = |a: usize, b: usize| {
        let both = poses[a].iter().zip(&poses[b]);
        let both = both.filter_map(|(a, b)| Some((a.as_ref()?, b.as_ref()?)));
        Arc::train([a, b], both, priors[a].scale_mm).filter(|_| a != b)
    };
    let anchor = |structure: usize| {
        let known = (0..poses.len()).filter_map(|other| arc(structure, other));
        let (arcs, entropies): (Vec<Arc>, Vec<f64>) = known.unzip();
        (Anchor { structure, arcs }, entropies.iter().sum::<f64>())
    };
    let mut all: Vec<(Anchor, f64)> = (0..poses.len()).filter(|&a| may_be(a)).map(anchor).collect();
    all.sort_by(|(a, x), (b, y)| b.arcs.len().cmp(&a.arcs.len()).then(x.total_cmp(y)));
    all.into_iter().map(|(anchor, _)| anchor).filter(|anchor| !anchor.arcs.is_empty()).collect()
}

impl Anchor {
    /// The part of a grid where structure `to` of the mean size `scale_mm` may lie if the anchor lies `at`
    /// this pose. `None` where nothing is known, or that is outside the grid.
    pub(crate) fn region(
        &self,
        to: usize,
        at: &Pose,
        (grid, scale_mm): (&Geometry, f64),
    ) -> Option<Region> {
        let arc = self.arcs.iter().find(|arc| arc.to == to)?;
        let middle = grid.to_index(arc.forth(at, at.size_mm).center).0;
        let precision = Matrix3::from_fn(|r, c| arc.shift_mm.precision[r][c]);
        let to_index = grid.matrix().try_inverse()? * at.orientation.to_rotation_matrix();
        let covariance = to_index * precision.try_inverse()? * to_index.transpose();
        let spacing_mm = grid.spacing_mm();
        let reach = Vector3::from_fn(|a, _| {
            DEVIATIONS * libm::sqrt(covariance[(a, a)].max(0.0)) + MARGIN * scale_mm / spacing_mm[a]
        });
        let last = |a: usize| grid.shape()[a] as f64;
        let low = std::array::from_fn(|a| libm::floor(middle[a] - reach[a]).clamp(0.0, last(a)));
        let high =
            std::array::from_fn(|a| libm::ceil(middle[a] + reach[a] + 1.0).clamp(0.0, last(a)));
        let region = Region { low: low.map(|v| v as i32), high: high.map(|v| v as i32) };
        (region.len() > 0).then_some(region)
    }

    /// Whether a file's numbers make sense for so many structures.
    pub(crate) fn is_valid(&self, structures: usize) -> bool {
        let fits = |arc: &Arc| arc.from == self.structure && arc.to < structures && arc.is_valid();
        self.structure < structures && self.arcs.iter().all(fits)
    }
}

/// A block of voxels of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Region {
    /// The first voxel along each axis,
    pub(crate) low: [i32; 3],
    /// and the one after the last.
    pub(crate) high: [i32; 3],
}

impl Region {
    /// Number of voxels.
    pub(crate) fn len(&self) -> usize {
        (0..3).map(|a| (self.high[a] - self.low[a]).max(0) as usize).product()
    }

    /// Whether the voxel at this index is inside.
    pub(crate) fn holds(&self, index: [f64; 3]) -> bool {
        let (low, high) = (self.low.map(f64::from), self.high.map(f64::from));
        (0..3).all(|a| (low[a]..high[a]).contains(&index[a]))
    }

    /// Every `step`-th voxel along each axis, i fastest.
    pub(crate) fn voxels(&self, step: usize) -> Vec<[i32; 3]> {
        let axis = |a: usize| (self.low[a]..self.high[a]).step_by(step);
        let mut voxels = Vec::with_capacity((0..3).map(|a| axis(a).len()).product());
        for k in axis(2) {
            for j in axis(1) {
                voxels.extend(axis(0).map(|i| [i, j, k]));
            }
        }
        voxels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::test_random;
    use nalgebra::UnitQuaternion;
    use pbt_volume::{PointLps, VoxelIndex};

    fn pose(center: PointLps, orientation: UnitQuaternion<f64>) -> Pose {
        Pose { center, orientation, size_mm: [20.0, 30.0, 40.0] }
    }

    /// Twelve cases of two structures, turned this way and that.
    fn anchor() -> Anchor {
        let mut random = test_random(3);
        let pairs: Vec<[Pose; 2]> = (0..12)
            .map(|_| {
                let turn = UnitQuaternion::from_euler_angles(random.normal(), 0.3, random.normal());
                let center = PointLps::new(random.normal() * 30.0, 4.0, -7.0);
                let shift = Vector3::new(40.0 + random.normal() * 3.0, random.normal(), 10.0);
                let other = PointLps(center.0 + turn * shift);
                [pose(center, turn), pose(other, turn)]
            })
            .collect();
        let (arc, _) = Arc::train([0, 1], pairs.iter().map(|[a, b]| (a, b)), 28.8).unwrap();
        Anchor { structure: 0, arcs: vec![arc] }
    }

    #[test]
    fn a_region_lies_about_the_expected_place_in_any_grid() {
        let anchor = anchor();
        assert!(anchor.is_valid(2) && !anchor.is_valid(1));
        let turn = UnitQuaternion::from_euler_angles(0.4, -0.2, 1.1);
        let at = pose(PointLps::new(3.0, -5.0, 8.0), turn);
        let place = PointLps(at.center.0 + turn * Vector3::new(40.0, 0.0, 10.0));
        for spacing_mm in [1.0, 2.5] {
            let shape = [(200.0 / spacing_mm) as usize; 3];
            let matrix = UnitQuaternion::from_euler_angles(0.0, 0.5, 0.0).to_rotation_matrix();
            let matrix = matrix.into_inner() * spacing_mm;
            let half = Vector3::repeat((shape[0] - 1) as f64 / 2.0);
            let origin = PointLps(PointLps::new(0.0, 0.0, 0.0).0 - matrix * half);
            let grid = Geometry::new(shape, matrix, origin).unwrap();
            let region = anchor.region(1, &at, (&grid, 28.8)).unwrap();
            let VoxelIndex(index) = grid.to_index(place);
            for a in 0..3 {
                let (low, high) = (f64::from(region.low[a]), f64::from(region.high[a]));
                // Half of D on either side, and up to four times 3 mm with what twelve cases add.
                let (least, most) = (14.4 / spacing_mm, 40.0 / spacing_mm);
                assert!(index[a] - low >= least && index[a] - low <= most, "{region:?} {index}");
                assert!(high - index[a] >= least && high - index[a] <= most, "{region:?} {index}");
            }
            assert_eq!(region.voxels(1).len(), region.len());
            let halves = (0..3).map(|a| ((region.high[a] - region.low[a]) as usize).div_ceil(2));
            assert_eq!(region.voxels(2).len(), halves.product::<usize>());
        }
    }

    #[test]
    fn there_is_none_outside_the_image_or_of_what_was_not_learned() {
        let anchor = anchor();
        let grid = Geometry::isotropic([50; 3], 2.0).unwrap();
        let far = pose(PointLps::new(900.0, 0.0, 0.0), UnitQuaternion::identity());
        assert_eq!(anchor.region(1, &far, (&grid, 28.8)), None);
        let near = pose(grid.center(), UnitQuaternion::identity());
        assert!(anchor.region(1, &near, (&grid, 28.8)).is_some());
        assert_eq!(anchor.region(2, &near, (&grid, 28.8)), None);
    }
}
