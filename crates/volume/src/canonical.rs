//! The grid on which voxels are labelled: an image's own axes, the same however it is stored.

use crate::{Geometry, PointLps, VoxelIndex};
use nalgebra::{Matrix3, Vector3};

/// Sums of cosines that differ by less rank as equal; rounding errors must not decide.
const TIE: f64 = 1e-9;

/// A spacing that differs by less than this share from the wanted one is the wanted one: the
/// image's own voxels are kept.
const SAME: f64 = 1e-3;

/// No dimension exceeds this, so that the number of voxels fits an integer.
const MAX_DIMENSION: f64 = (1u32 << 19) as f64;

/// A grid along the image's own axes, in the order and with the directions that bring them closest
/// to +L, +P, +S, and with this spacing along each. It covers the voxels of the image, ends
/// included, to within half a voxel, about the image's middle; along an axis whose spacing is the
/// wanted one it has the image's own voxels.
///
/// The grid can be huge where the spacing is small; look at its [`Geometry::len`] before allocating.
///
/// # Panics
/// When `spacing_mm` is not a positive number from 10⁻⁶ to 10⁶.
pub fn canonical_geometry(image: &Geometry, spacing_mm: f64) -> Geometry {
    assert!(
        (1e-6..=1e6).contains(&spacing_mm),
        "the spacing {spacing_mm} is not from 1e-6 to 1e6 mm"
    );
    let own_mm = image.spacing_mm();
    let order = order(image.matrix());
    let (mut shape, mut matrix) = ([0; 3], Matrix3::zeros());
    let mut from_middle = Vector3::zeros();
    for (t, a) in order.into_iter().enumerate() {
        let direction = image.matrix().column(a) / own_mm[a];
        let sign = if direction[t] < 0.0 { -1.0 } else { 1.0 };
        let count = image.shape()[a] as f64;
        let same = (own_mm[a] / spacing_mm - 1.0).abs() < SAME;
        let step_mm = if same { own_mm[a] } else { spacing_mm };
        let voxels = libm::round(count * own_mm[a] / step_mm).clamp(1.0, MAX_DIMENSION);
        shape[t] = voxels as usize;
        matrix.set_column(t, &(direction * (sign * step_mm)));
        from_middle -= matrix.column(t) * ((voxels - 1.0) / 2.0);
    }
    Geometry::derived(shape, matrix, PointLps(image.center().0 + from_middle))
}

/// For each of L, P and S the axis of the image that runs along it.
fn order(matrix: &Matrix3<f64>) -> [usize; 3] {
    let cosine = |t: usize, a: usize| (matrix[(t, a)] / matrix.column(a).norm()).abs();
    let sum = |order: &[usize; 3]| (0..3).map(|t| cosine(t, order[t])).sum::<f64>();
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    orders.into_iter().fold(orders[0], |best, o| if sum(&o) > sum(&best) + TIE { o } else { best })
}

impl Geometry {
    /// Where the voxels of another grid with parallel axes lie on this one: for each of its axes the
    /// axis of this grid, the place of its first voxel and the step from voxel to voxel, in voxels of
    /// this grid. [`canonical_geometry`] is such a grid.
    pub fn along(&self, other: &Geometry) -> [(usize, f64, f64); 3] {
        let first = self.to_index(other.origin()).0;
        [0, 1, 2].map(|a| {
            let mut one = [0.0; 3];
            one[a] = 1.0;
            let next = self.to_index(other.to_lps(VoxelIndex::new(one[0], one[1], one[2]))).0;
            let step = next - first;
            let t = step.iamax();
            (t, first[t], step[t])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Padding, Volume, resample, rotation_from_vector};

    fn image(shape: [usize; 3], spacing_mm: [f64; 3]) -> Volume<u16> {
        let axes = rotation_from_vector(Vector3::new(0.2, -0.1, 0.3)).to_rotation_matrix();
        let matrix = axes * Matrix3::from_diagonal(&Vector3::from(spacing_mm));
        let geometry = Geometry::new(shape, matrix, PointLps::new(7.0, -30.0, 12.0)).unwrap();
        Volume::from_fn(geometry, |i, j, k| (i + 20 * j + 400 * k) as u16)
    }

    /// The image with axis `t` its axis `order[t]`, some of them turned round.
    fn stored(image: &Volume<u16>, order: [usize; 3], flips: usize) -> Volume<u16> {
        let shape = order.map(|a| image.shape()[a]);
        let flipped = |t: usize| flips >> t & 1 == 1;
        let own = |at: [usize; 3]| {
            let mut index = [0; 3];
            for t in 0..3 {
                index[order[t]] = if flipped(t) { shape[t] - 1 - at[t] } else { at[t] };
            }
            index
        };
        let columns = [0, 1, 2].map(|t| {
            let column = image.geometry().matrix().column(order[t]).into_owned();
            if flipped(t) { -column } else { column }
        });
        let first = own([0; 3]).map(|n| n as f64);
        let origin = image.geometry().to_lps(VoxelIndex::new(first[0], first[1], first[2]));
        let geometry = Geometry::new(shape, Matrix3::from_columns(&columns), origin).unwrap();
        Volume::from_fn(geometry, |i, j, k| {
            let [i, j, k] = own([i, j, k]);
            image.at(i, j, k)
        })
    }

    #[test]
    fn the_way_of_storing_does_not_show() {
        for spacing_mm in [1.0, 1.3] {
            let image = image([12, 9, 5], [1.0, 1.0, 2.5]);
            let grid = canonical_geometry(image.geometry(), spacing_mm);
            let expected = resample(&image, &grid, Padding::Edge);
            for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                for flips in 0..8 {
                    let stored = stored(&image, order, flips);
                    let grid = canonical_geometry(stored.geometry(), spacing_mm);
                    let found = resample(&stored, &grid, Padding::Edge);
                    assert_eq!(found.shape(), expected.shape());
                    assert_eq!(found.data(), expected.data(), "{order:?} {flips}");
                }
            }
        }
    }

    #[test]
    fn an_image_with_the_wanted_spacing_keeps_its_voxels() {
        let image = image([12, 9, 5], [1.0002, 1.0, 0.9996]);
        let grid = canonical_geometry(image.geometry(), 1.0);
        assert_eq!(resample(&image, &grid, Padding::Edge).data(), image.data());
        for (a, (t, first, step)) in grid.along(image.geometry()).into_iter().enumerate() {
            assert!(t == a && first.abs() < 1e-9 && (step - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn along_says_where_voxels_lie() {
        let image = image([12, 9, 5], [1.0, 1.0, 2.5]);
        let turned = stored(&image, [2, 0, 1], 5);
        let grid = canonical_geometry(turned.geometry(), 1.3);
        let along = grid.along(turned.geometry());
        assert_eq!(grid.shape(), [9, 7, 10]);
        for at in [[0usize, 0, 0], [4, 11, 8], [2, 3, 7]] {
            let [i, j, k] = at.map(|n| n as f64);
            let exact = grid.to_index(turned.geometry().to_lps(VoxelIndex::new(i, j, k))).0;
            for (a, &(t, first, step)) in along.iter().enumerate() {
                assert!((exact[t] - (first + step * at[a] as f64)).abs() < 1e-9);
            }
        }
    }
}
