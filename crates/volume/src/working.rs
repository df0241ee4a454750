//! The grid on which detection works: isotropic, right-handed, and the same however the image is
//! stored.

use crate::{Geometry, PointLps};
use nalgebra::{Matrix3, Vector3};

/// A dimension of a working grid never exceeds this, so that the number of voxels fits an integer,
/// and the caller can refuse it.
const MAX_DIMENSION: f64 = (1u32 << 19) as f64;

/// Axes rank as equally good when their sums of cosines differ by less; rounding errors must not
/// decide.
const TIE: f64 = 1e-9;

/// Fraction of a voxel by which the outermost voxel centres may stick out, so that rounding errors
/// add no plane.
const SLACK: f64 = 1e-6;

/// The isotropic grid over an image: its axes are the right-handed orthonormal ones nearest to the
/// image's own (the polar decomposition of the axis directions), ordered and directed so that they
/// are as close as possible to +L, +P, +S. It is centred on the image, and as large as it takes to
/// cover all of its voxel centres. The 48 ways to store the voxels of an image give one and the
/// same grid, up to rounding errors.
///
/// The grid can be huge where the spacing is small; look at its [`Geometry::len`] before allocating
/// (no dimension exceeds 2¹⁹).
///
/// # Panics
/// When `spacing_mm` is not a positive number from 10⁻⁶ to 10⁶.
pub fn working_geometry(image: &Geometry, spacing_mm: f64) -> Geometry {
    assert!(
        (1e-6..=1e6).contains(&spacing_mm),
        "the working spacing {spacing_mm} is not from 1e-6 to 1e6 mm"
    );
    let axes = nearest_rotation(ordered(image.matrix()));
    let shape = [0, 1, 2].map(|t| {
        let extent_mm: f64 = (0..3)
            .map(|a| {
                axes.column(t).dot(&image.matrix().column(a)).abs() * (image.shape()[a] - 1) as f64
            })
            .sum();
        libm::ceil((extent_mm / spacing_mm - SLACK).clamp(0.0, MAX_DIMENSION - 1.0)) as usize + 1
    });
    let matrix = axes * spacing_mm;
    let half = Vector3::from(shape.map(|n| (n - 1) as f64 / 2.0));
    let origin = PointLps(image.center().0 - matrix * half);
    Geometry::derived(shape, matrix, origin)
}

/// The directions of the columns in the order and with the signs that bring them closest to L, P,
/// S.
fn ordered(matrix: &Matrix3<f64>) -> Matrix3<f64> {
    let candidates =
        [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]].map(|order| {
            Matrix3::from_columns(&[0, 1, 2].map(|t| {
                let direction = matrix.column(order[t]).normalize();
                if direction[t] < 0.0 { -direction } else { direction }
            }))
        });
    // Halfway between two orders the entries decide, for these do not depend on how the image is
    // stored.
    let better = |a: &Matrix3<f64>, b: &Matrix3<f64>| {
        std::iter::once(a.trace() - b.trace())
            .chain(a.iter().zip(b.iter()).map(|(a, b)| a - b))
            .find(|d| d.abs() > TIE)
            .is_some_and(|d| d > 0.0)
    };
    let best =
        candidates.into_iter().reduce(|best, next| if better(&next, &best) { next } else { best });
    best.expect("there are six candidates")
}

/// The rotation nearest to a matrix in the Frobenius norm, by Newton's iteration for the polar
/// decomposition (Higham 1986). Strongly sheared axes can be left-handed even in the best order;
/// then the last one is turned round.
fn nearest_rotation(mut matrix: Matrix3<f64>) -> Matrix3<f64> {
    if matrix.determinant() < 0.0 {
        let last = -matrix.column(2);
        matrix.set_column(2, &last);
    }
    // Convergence is quadratic near the end; far from it the error halves, and a geometry's
    // conditioning bounds how far that is.
    for _ in 0..32 {
        let inverse = matrix.try_inverse().expect("a geometry's axes are independent");
        let next = (matrix + inverse.transpose()) * 0.5;
        if (next - matrix).abs().max() < 1e-15 {
            break;
        }
        matrix = next;
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VoxelIndex;
    use proptest::prelude::*;

    /// Any affine with axes at least about 30 degrees apart.
    fn images() -> impl Strategy<Value = Geometry> {
        let parts = (
            prop::array::uniform9(-1.0f64..1.0),
            prop::array::uniform3(0.2f64..5.0),
            prop::array::uniform3(1usize..40),
        );
        parts.prop_filter_map("axes too close", |(entries, spacing_mm, shape)| {
            let mut matrix = Matrix3::from_row_slice(&entries);
            for (a, s) in spacing_mm.into_iter().enumerate() {
                let column = matrix.column(a).try_normalize(1e-3)? * s;
                matrix.set_column(a, &column);
            }
            (matrix.determinant().abs() > 0.3 * spacing_mm.iter().product::<f64>())
                .then(|| Geometry::new(shape, matrix, PointLps::new(10.0, -20.0, 30.0)).unwrap())
        })
    }

    proptest! {
        #[test]
        fn covers_the_image_and_is_centred(image in images(), spacing_mm in 0.1f64..6.0) {
            let grid = working_geometry(&image, spacing_mm);
            let axes = grid.matrix() / spacing_mm;
            prop_assert!((axes.transpose() * axes - Matrix3::identity()).abs().max() < 1e-13);
            prop_assert!(axes.determinant() > 0.0);
            prop_assert!(grid.center().distance_mm(&image.center()) < 1e-9);
            for n in 0..8usize {
                let at = [0, 1, 2].map(|a| if n >> a & 1 == 1 { (image.shape()[a] - 1) as f64 } else { 0.0 });
                prop_assert!(grid.voxels_outside(image.to_lps(VoxelIndex::new(at[0], at[1], at[2]))) < 2e-6);
            }
            // And no larger than that: without its last plane it would not cover.
            let corners = (0..8usize).map(|n| {
                let at = [0, 1, 2].map(|a| if n >> a & 1 == 1 { (image.shape()[a] - 1) as f64 } else { 0.0 });
                grid.to_index(image.to_lps(VoxelIndex::new(at[0], at[1], at[2]))).0
            });
            let corners: Vec<_> = corners.collect();
            for t in 0..3 {
                let reach = corners.iter().map(|c| c[t]).fold(f64::MIN, f64::max) - corners.iter().map(|c| c[t]).fold(f64::MAX, f64::min);
                prop_assert!(grid.shape()[t] as f64 - 1.0 < reach + 1.0);
            }
        }

        #[test]
        fn is_the_nearest_rotation(image in images()) {
            let axes = *working_geometry(&image, 1.0).matrix();
            let directions = ordered(image.matrix());
            prop_assume!(directions.determinant() > 0.0);
            // The singular value decomposition is the outside oracle for the polar factor.
            let svd = directions.svd(true, true);
            prop_assert!((svd.u.unwrap() * svd.v_t.unwrap() - axes).abs().max() < 1e-9);
        }
    }

    #[test]
    fn halfway_between_two_orders_the_storage_does_not_decide() {
        let (s, z) = (0.5f64.sqrt(), 0.0);
        let [a, b, c] = [Vector3::new(s, s, z), Vector3::new(-s, s, z), Vector3::z()];
        let stored = [[a, b, c], [b, a, c], [-a, b, c], [c, -b, a], [-b, -c, -a]];
        let grids = stored.map(|axes| {
            working_geometry(
                &Geometry::new([5; 3], Matrix3::from_columns(&axes), PointLps::new(0.0, 0.0, 0.0))
                    .unwrap(),
                1.0,
            )
        });
        assert!(grids.iter().all(|grid| (grid.matrix() - grids[0].matrix()).abs().max() < 1e-12));
    }

    #[test]
    fn an_absurd_extent_can_be_looked_at() {
        let grid = working_geometry(&Geometry::isotropic([1000, 1000, 1000], 1e9).unwrap(), 1e-6);
        assert_eq!(grid.len(), 1 << 57);
    }
}
