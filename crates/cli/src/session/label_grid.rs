//! A label map on another grid than its image: made on another series, resampled, cut.

use pbt_volume::Geometry;

/// Corners of the two grids nearer than this, in voxels, are the same.
const SAME_VOXELS: f64 = 0.1;

/// A label map that reaches less far than the image by more than this, in voxels, or farther,
/// covers another region.
const REGION_VOXELS: f64 = 1.0;

/// How the grid of a label map differs from the image's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GridDifference {
    /// Another number of voxels over the same region.
    Spacing,
    /// Another region that overlaps.
    Region,
    /// Nothing in common.
    Apart,
}

impl GridDifference {
    /// `None` for grids with the same voxel centres, in whatever order they are stored.
    pub fn between(image: &Geometry, labels: &Geometry) -> Option<Self> {
        let sorted = |geometry: &Geometry| {
            let mut shape = geometry.shape();
            shape.sort_unstable();
            shape
        };
        let corners = labels.corners().map(|corner| image.to_index(labels.to_lps(corner)).0);
        let is_corner = |index: &nalgebra::Point3<f64>| {
            (0..3).all(|a| {
                let last = (image.shape()[a] - 1) as f64;
                index[a].abs() < SAME_VOXELS || (index[a] - last).abs() < SAME_VOXELS
            })
        };
        if sorted(image) == sorted(labels) && corners.iter().all(is_corner) {
            return None;
        }
        let reach = |a: usize| {
            let along = || corners.iter().map(|corner| corner[a]);
            (along().fold(f64::INFINITY, f64::min), along().fold(f64::NEG_INFINITY, f64::max))
        };
        // Half a voxel of each grid belongs to its outer voxels.
        let coarser = |a: usize| {
            let steps = image.matrix().try_inverse().unwrap_or_default() * labels.matrix();
            (0..3).map(|b| steps[(a, b)].abs()).fold(1.0, f64::max)
        };
        let mut kind = Self::Spacing;
        for a in 0..3 {
            let ((low, high), last) = (reach(a), (image.shape()[a] - 1) as f64);
            let half = (1.0 + coarser(a)) / 2.0;
            kind = kind.max(if low > last + half || high < -half {
                Self::Apart
            } else if low.abs() > REGION_VOXELS * coarser(a)
                || (high - last).abs() > REGION_VOXELS * coarser(a)
            {
                Self::Region
            } else {
                Self::Spacing
            });
        }
        Some(kind)
    }

    /// What differs, and what to do about it.
    pub fn told(self) -> (&'static str, &'static str) {
        match self {
            Self::Apart => (
                "it lies beside the image and has nothing in common with it",
                "check that image and label map belong together",
            ),
            Self::Region => (
                "it covers another region than the image",
                "check that image and label map belong together, or make it on the image's grid",
            ),
            Self::Spacing => (
                "it has another grid than the image",
                "it is used as it is; make it on the image's grid, if borders matter",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::{Matrix3, Vector3};
    use pbt_volume::PointLps;

    fn grid(shape: [usize; 3], spacing: [f64; 3], origin: [f64; 3]) -> Geometry {
        let [x, y, z] = origin;
        let matrix = Matrix3::from_diagonal(&Vector3::from(spacing));
        Geometry::new(shape, matrix, PointLps::new(x, y, z)).unwrap()
    }

    #[test]
    fn grids_are_compared_by_where_their_voxels_are() {
        let image = grid([40, 30, 20], [1.0, 1.0, 2.0], [-10.0, 5.0, 0.0]);
        let differs = |labels: &Geometry| GridDifference::between(&image, labels);
        assert_eq!(differs(&image), None);
        // The same voxels, stored from the other side and in another order.
        let turned = Matrix3::new(0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 2.0);
        let turned = Geometry::new([30, 40, 20], turned, PointLps::new(29.0, 5.0, 0.0)).unwrap();
        assert_eq!(differs(&turned), None);
        let half = grid([20, 15, 10], [2.0, 2.0, 4.0], [-9.5, 5.5, 1.0]);
        assert_eq!(differs(&half), Some(GridDifference::Spacing));
        let shifted = grid([40, 30, 20], [1.0, 1.0, 2.0], [-9.5, 5.0, 0.0]);
        assert_eq!(differs(&shifted), Some(GridDifference::Spacing));
        let cut = grid([40, 30, 10], [1.0, 1.0, 2.0], [-10.0, 5.0, 0.0]);
        assert_eq!(differs(&cut), Some(GridDifference::Region));
        let unitless = grid([40, 30, 20], [1.0, 1.0, 1.0], [-10.0, 5.0, 0.0]);
        assert_eq!(differs(&unitless), Some(GridDifference::Region));
        let beside = grid([40, 30, 20], [1.0, 1.0, 2.0], [31.0, 5.0, 0.0]);
        assert_eq!(differs(&beside), Some(GridDifference::Apart));
    }
}
