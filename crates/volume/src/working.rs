//! The grid on which detection works: right-handed, isotropic except across slices that are thick, and
//! the same however the image is stored.

use crate::{Geometry, PointLps, VoxelIndex};
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

/// A grid begins at a multiple of this many voxels from its anchor, so that the voxels of its first
/// three halvings, too, do not depend on where it begins.
const BLOCK: f64 = 8.0;

/// An anchor that lies this near to the middle between two voxels, in voxels, is decided by
/// direction: affines are rounded.
const HALFWAY: f64 = 1e-3;

/// A thick slice is divided into about so many steps at least: with one, structures are placed worse, and with
/// two, vertebrae are more often taken for their neighbours without doubt
/// (docs/experiments/thick-slices.md).
const STEPS: f64 = 3.0;

/// Slices count as so many times as thick as the spacing, as a power of two, although they are thinner by
/// this part of a doubling (5 %): spacings are rounded, and often differ a little from image to image.
const NEARLY: f64 = 0.07;

/// The grid over an image: its axes are the right-handed orthonormal ones nearest to the
/// image's own (the polar decomposition of the axis directions), ordered and directed so that they
/// are as close as possible to +L, +P, +S. It is as large as it takes to cover all of the image's
/// voxel centres.
///
/// Its voxels are cubes with edges of `spacing_mm`, unless the image's are much longer along one axis than
/// along another: where slices have about 6, 12, 24 … times this thickness, steps across them are
/// 2, 4, 8 … times as long, at most 2 to the power `thickest` times. More would only interpolate the same.
/// Along the axis where the image is finest, steps are `spacing_mm` always.
///
/// One of its voxels, or of those that would follow beyond its ends, is the anchor: the place
/// nearest to the world's origin where the image, or its continuation, has a voxel. So an image
/// that is cropped or padded keeps its working voxels, and the 48 ways to store the voxels of an
/// image give one and the same grid, up to rounding errors.
///
/// The grid can be huge where the spacing is small; look at its [`Geometry::len`] before allocating
/// (no dimension exceeds 2¹⁹).
///
/// # Panics
/// When `spacing_mm` is not a positive number from 10⁻⁶ to 10⁶.
pub fn working_geometry(image: &Geometry, spacing_mm: f64, thickest: usize) -> Geometry {
    assert!(
        (1e-6..=1e6).contains(&spacing_mm),
        "the working spacing {spacing_mm} is not from 1e-6 to 1e6 mm"
    );
    let axes = nearest_rotation(ordered(image.matrix()));
    let anchor = axes.transpose() * anchor(image, &axes).0.coords;
    let center = axes.transpose() * image.center().0.coords;
    let times = [0, 1, 2].map(|t| {
        let slice_mm = spacing_along(image, axes.column(t).into())?;
        Some(libm::floor(libm::log2(slice_mm / spacing_mm / STEPS) + NEARLY).max(0.0))
    });
    let least = times.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let times = times
        .map(|times| libm::exp2(times.map_or(0.0, |times| (times - least).min(thickest as f64))));
    let steps_mm = times.map(|times| times * spacing_mm);
    let ends = [0, 1, 2].map(|t| {
        let extent_mm: f64 = (0..3)
            .map(|a| {
                axes.column(t).dot(&image.matrix().column(a)).abs() * (image.shape()[a] - 1) as f64
            })
            .sum();
        let voxel = |mm: f64| (center[t] + mm - anchor[t]) / steps_mm[t];
        // As many voxels as have the length of a block of cubes.
        let block = (BLOCK / times[t]).max(1.0);
        let first = libm::floor((voxel(-extent_mm / 2.0) + SLACK) / block) * block;
        let count =
            libm::ceil(voxel(extent_mm / 2.0) - SLACK - first).clamp(0.0, MAX_DIMENSION - 1.0);
        (first, count as usize + 1)
    });
    let steps_mm = Vector3::from(steps_mm);
    let first = anchor + Vector3::from(ends.map(|(first, _)| first)).component_mul(&steps_mm);
    Geometry::derived(
        ends.map(|(_, count)| count),
        axes * Matrix3::from_diagonal(&steps_mm),
        PointLps((axes * first).into()),
    )
}

/// Distance in mm between neighbouring voxels along the axis of the image that is nearest to a direction;
/// none where there is one voxel, whose thickness tells nothing.
fn spacing_along(image: &Geometry, direction: Vector3<f64>) -> Option<f64> {
    let cosine = |a: usize| direction.dot(&image.matrix().column(a).normalize()).abs();
    let nearest = (1..3).fold(0, |best, a| if cosine(a) > cosine(best) { a } else { best });
    (image.shape()[nearest] > 1).then(|| image.spacing_mm()[nearest])
}

/// Where the image, continued beyond its ends, has the voxel that is nearest to the world's origin.
fn anchor(image: &Geometry, axes: &Matrix3<f64>) -> PointLps {
    let origin = image.to_index(PointLps::new(0.0, 0.0, 0.0)).0;
    let mut index = [0.0; 3];
    for (a, index) in index.iter_mut().enumerate() {
        let below = libm::floor(origin[a]);
        // Halfway between two voxels the storage must not decide.
        let step = axes.transpose() * image.matrix().column(a);
        let towards_first = step[step.iamax()] < 0.0;
        let over = origin[a] - below - 0.5;
        let above = if over.abs() < HALFWAY { !towards_first } else { over > 0.0 };
        *index = if above { below + 1.0 } else { below };
    }
    image.to_lps(VoxelIndex::new(index[0], index[1], index[2]))
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
        fn covers_the_image_and_little_more(image in images(), spacing_mm in 0.1f64..6.0, thickest in 0usize..4) {
            let grid = working_geometry(&image, spacing_mm, thickest);
            let thick = grid.spacing_mm().map(|mm| mm / spacing_mm);
            prop_assert!(thick.iter().all(|times| (times.log2() - times.log2().round()).abs() < 1e-9));
            prop_assert!(thick.iter().all(|times| (0.999..(1 << thickest) as f64 + 0.001).contains(times)));
            // However coarse the image is, it is searched on the grid that the model knows.
            prop_assert!(thick.iter().any(|times| (times - 1.0).abs() < 1e-9));
            let axes = grid.matrix() * Matrix3::from_diagonal(&Vector3::from(grid.spacing_mm().map(|mm| 1.0 / mm)));
            prop_assert!((axes.transpose() * axes - Matrix3::identity()).abs().max() < 1e-13);
            prop_assert!(axes.determinant() > 0.0);
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
                prop_assert!(grid.shape()[t] as f64 - 1.0 < reach + 1.0 + BLOCK);
            }
        }

        /// All voxels of the grid over a part are voxels of the grid over the whole, on the coarser
        /// levels, too.
        #[test]
        fn a_part_has_the_voxels_of_the_whole(image in images(), spacing_mm in 0.1f64..6.0, thickest in 0usize..4, cut in prop::array::uniform6(0usize..12)) {
            let shape = image.shape();
            // An axis of one voxel says nothing of its spacing.
            prop_assume!((0..3).all(|a| cut[a] + cut[a + 3] + 1 < shape[a]));
            let part = image.part([cut[0], cut[1], cut[2]], [0, 1, 2].map(|a| shape[a] - cut[a] - cut[a + 3]));
            let [whole, part] = [image, part].map(|image| working_geometry(&image, spacing_mm, thickest));
            prop_assert!((whole.matrix() - part.matrix()).abs().max() < 1e-12);
            let first = whole.to_index(part.origin()).0;
            for a in 0..3 {
                let block = (BLOCK * spacing_mm / whole.spacing_mm()[a]).max(1.0);
                let blocks = first[a] / block;
                prop_assert!((blocks - blocks.round()).abs() < 1e-6, "{first}");
                prop_assert!(first[a] > -1e-6 && first[a] + part.shape()[a] as f64 <= whole.shape()[a] as f64 + 1e-6);
            }
        }

        #[test]
        fn is_the_nearest_rotation(image in images()) {
            let axes = *working_geometry(&image, 1.0, 0).matrix();
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
                0,
            )
        });
        assert!(grids.iter().all(|grid| (grid.matrix() - grids[0].matrix()).abs().max() < 1e-12));
    }

    /// Slices of 0.7 × 0.7 × 5 mm are divided into three steps or more, and one voxel says nothing of its
    /// thickness.
    #[test]
    fn thick_slices_take_few_steps() {
        let image = |shape, mm: [f64; 3]| {
            let matrix = Matrix3::from_diagonal(&Vector3::from(mm));
            Geometry::new(shape, matrix, PointLps::new(1.0, 2.0, 3.0)).unwrap()
        };
        let spacing =
            |image: Geometry, thickest| working_geometry(&image, 0.7, thickest).spacing_mm();
        let close = |found: [f64; 3], expected: [f64; 3]| {
            (0..3).all(|a| (found[a] - expected[a]).abs() < 1e-12)
        };
        for (mm, thickest, expected) in [
            ([0.7, 0.7, 5.0], 4, [0.7, 0.7, 1.4]),
            ([0.7, 0.7, 8.4], 4, [0.7, 0.7, 2.8]),
            ([0.7, 0.7, 8.4], 1, [0.7, 0.7, 1.4]),
            ([0.7, 0.7, 8.4], 0, [0.7, 0.7, 0.7]),
            ([0.3, 4.1, 0.7], 4, [0.7, 1.4, 0.7]),
            ([5.0, 5.0, 5.0], 4, [0.7, 0.7, 0.7]),
            ([5.0, 5.0, 20.0], 4, [0.7, 0.7, 2.8]),
            ([0.3, 3.9, 0.7], 4, [0.7, 0.7, 0.7]),
        ] {
            let found = spacing(image([9, 9, 9], mm), thickest);
            assert!(close(found, expected), "{mm:?}: {found:?}");
        }
        assert!(close(spacing(image([9, 9, 1], [0.7, 0.7, 5.0]), 4), [0.7; 3]));
        assert!(close(spacing(image([9, 9, 1], [5.0, 5.0, 0.7]), 4), [0.7; 3]));
    }

    #[test]
    fn an_absurd_extent_can_be_looked_at() {
        let grid =
            working_geometry(&Geometry::isotropic([1000, 1000, 1000], 1e9).unwrap(), 1e-6, 0);
        assert_eq!(grid.len(), 1 << 57);
    }
}
