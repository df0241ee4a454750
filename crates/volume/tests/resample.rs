//! Resampling against brute force in floating point, and its invariances.

use nalgebra::{Matrix3, Vector3};
use pbt_volume::{
    Geometry, Padding, PointLps, Volume, VoxelIndex, resample, rotation_from_vector,
    working_geometry,
};
use proptest::prelude::*;

fn noise(geometry: Geometry) -> Volume<u16> {
    let mut state = 7u32;
    Volume::from_fn(geometry, |_, _, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 20) as u16
    })
}

fn rotation(v: [f64; 3]) -> Matrix3<f64> {
    rotation_from_vector(Vector3::from(v)).to_rotation_matrix().into_inner()
}

/// The 48 orders and directions in which the same voxels can be stored.
fn storages(v: &Volume<u16>) -> Vec<Volume<u16>> {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let stored = |order: [usize; 3], flips: usize| {
        let shape = order.map(|a| v.shape()[a]);
        // Where voxel (i, j, k) of the stored volume lies in `v`.
        let source = |at: [usize; 3]| {
            let mut index = [0; 3];
            for t in 0..3 {
                index[order[t]] = if flips >> t & 1 == 1 { shape[t] - 1 - at[t] } else { at[t] };
            }
            index
        };
        let place = |at: [usize; 3]| {
            let [i, j, k] = source(at).map(|n| n as f64);
            v.geometry().to_lps(VoxelIndex::new(i, j, k))
        };
        let columns = [0, 1, 2].map(|t| {
            v.geometry().matrix().column(order[t]) * if flips >> t & 1 == 1 { -1.0 } else { 1.0 }
        });
        let geometry =
            Geometry::new(shape, Matrix3::from_columns(&columns), place([0; 3])).unwrap();
        Volume::from_fn(geometry, |i, j, k| {
            let [i, j, k] = source([i, j, k]);
            v.at(i, j, k)
        })
    };
    orders
        .into_iter()
        .flat_map(|order| (0..8).map(move |flips| (order, flips)))
        .map(|(order, flips)| stored(order, flips))
        .collect()
}

#[test]
fn permuted_and_flipped_voxels_come_back_exactly() {
    for axes in [Matrix3::identity(), rotation([0.4, -0.9, 1.3])] {
        let matrix = axes * Matrix3::from_diagonal(&Vector3::new(0.7, 1.1, 3.0));
        let v =
            noise(Geometry::new([7, 6, 5], matrix, PointLps::new(-120.0, 33.0, 410.0)).unwrap());
        for stored in storages(&v) {
            for padding in [Padding::Zero, Padding::Edge] {
                assert_eq!(resample(&stored, v.geometry(), padding), v);
                assert_eq!(resample(&v, stored.geometry(), padding), stored);
            }
        }
    }
}

#[test]
fn all_48_storages_give_one_working_volume() {
    for (axes, spacing_mm, thickest) in [
        ([0.0; 3], 1.9, 0),
        ([0.3, -0.2, 0.5], 1.9, 0),
        ([0.3, -0.2, 0.5], 0.4, 0),
        ([0.3, -0.2, 0.5], 0.4, 3),
        ([2.0, 0.1, -0.4], 1.0, 0),
        ([2.0, 0.1, -0.4], 1.0, 1),
    ] {
        let matrix = rotation(axes) * Matrix3::from_diagonal(&Vector3::new(0.7, 0.7, 2.5));
        let v =
            noise(Geometry::new([14, 11, 6], matrix, PointLps::new(-120.0, 33.0, 410.0)).unwrap());
        let grid = working_geometry(v.geometry(), spacing_mm, thickest);
        let expected = resample(&v, &grid, Padding::Edge);
        for stored in storages(&v) {
            let same = working_geometry(stored.geometry(), spacing_mm, thickest);
            assert_eq!(same.shape(), grid.shape());
            assert!((same.affine() - grid.affine()).abs().max() < 1e-9);
            assert_eq!(resample(&stored, &same, Padding::Edge).data(), expected.data());
        }
    }
}

/// The triangle filter along parallel axes, all three at once and in floating point.
fn filtered(v: &Volume<u16>, at: Vector3<f64>, reach: Vector3<f64>, padding: Padding) -> f64 {
    let weights = [0, 1, 2].map(|a| {
        let near = (at[a] - reach[a]).ceil() as i64..=(at[a] + reach[a]).floor() as i64;
        near.map(move |n| (n, 1.0 - (n as f64 - at[a]).abs() / reach[a])).collect::<Vec<_>>()
    });
    let (mut sum, mut total) = (0.0, 0.0);
    for &(k, wk) in &weights[2] {
        for &(j, wj) in &weights[1] {
            for &(i, wi) in &weights[0] {
                let outside =
                    (0..3).any(|a| [i, j, k][a] < 0 || [i, j, k][a] >= v.shape()[a] as i64);
                total += wi * wj * wk;
                if padding == Padding::Edge || !outside {
                    sum += wi * wj * wk * f64::from(v.at_clamped(i, j, k));
                }
            }
        }
    }
    sum / total
}

fn padding() -> impl Strategy<Value = Padding> {
    prop_oneof![Just(Padding::Zero), Just(Padding::Edge)]
}

proptest! {
    #[test]
    fn parallel_grids_match_the_filter_in_floating_point(
        axes in prop::array::uniform3(-1.5f64..1.5),
        spacing_mm in prop::array::uniform3(0.4f64..3.0),
        target_mm in prop::array::uniform3(0.3f64..6.0),
        shift in prop::array::uniform3(-6.0f64..9.0),
        flips in 0usize..8,
        padding in padding(),
    ) {
        let axes = rotation(axes);
        let v = noise(Geometry::new([9, 8, 7], axes * Matrix3::from_diagonal(&spacing_mm.into()), PointLps::new(9.0, 8.0, 7.0)).unwrap());
        let steps = Vector3::from([0, 1, 2].map(|a| if flips >> a & 1 == 1 { -target_mm[a] } else { target_mm[a] }));
        let start = v.geometry().to_lps(VoxelIndex::new(shift[0], shift[1], shift[2]));
        let to = Geometry::new([4, 5, 6], axes * Matrix3::from_diagonal(&steps), start).unwrap();
        let reach = Vector3::from([0, 1, 2].map(|a| (target_mm[a] / spacing_mm[a]).max(1.0)));
        let out = resample(&v, &to, padding);
        Volume::from_fn(to.clone(), |i, j, k| {
            let at = v.geometry().to_index(to.to_lps(VoxelIndex::new(i as f64, j as f64, k as f64))).0.coords;
            let expected = filtered(&v, at, reach, padding);
            // Three passes round by at most ½ each, and the weights by 2⁻¹⁵ each.
            assert!((f64::from(out.at(i, j, k)) - expected).abs() < 2.5, "{} {expected}", out.at(i, j, k));
            0u8
        });
    }

    #[test]
    fn oblique_grids_interpolate_trilinearly(
        axes in prop::array::uniform3(-1.5f64..1.5),
        target_mm in 0.3f64..1.0,
        shift in prop::array::uniform3(-4.0f64..9.0),
        padding in padding(),
    ) {
        prop_assume!(Vector3::from(axes).norm() > 0.1);
        let matrix = Matrix3::new(1.0, 0.2, 0.0, 0.0, 1.1, 0.0, 0.0, 0.0, 1.3);
        let v = noise(Geometry::new([9, 8, 7], matrix, PointLps::new(9.0, 8.0, 7.0)).unwrap());
        let start = v.geometry().to_lps(VoxelIndex::new(shift[0], shift[1], shift[2]));
        let to = Geometry::new([4, 5, 6], rotation(axes) * target_mm, start).unwrap();
        let out = resample(&v, &to, padding);
        // No axis of the image is coarser than the target, but the sheared one could be.
        prop_assume!((0..3).all(|a| (v.geometry().matrix().try_inverse().unwrap() * to.matrix()).row(a).norm() <= 1.4));
        Volume::from_fn(to.clone(), |i, j, k| {
            let at = v.geometry().to_index(to.to_lps(VoxelIndex::new(i as f64, j as f64, k as f64))).0.coords;
            // The same position as in the fixed-point arithmetic; interpolation itself is then
            // exact but for the last rounding.
            let rounded = at.map(|x| (x * 256.0 + 0.5).floor() / 256.0);
            let ties = (0..3).any(|a| ((at[a] * 256.0 + 0.5) - (at[a] * 256.0 + 0.5).round()).abs() < 1e-6);
            let expected = filtered(&v, rounded, Vector3::repeat(1.0), padding);
            assert!(ties || (f64::from(out.at(i, j, k)) - expected).abs() < 0.51, "{} {expected}", out.at(i, j, k));
            0u8
        });
    }

    #[test]
    fn a_part_of_an_oblique_grid_is_the_same_part(
        axes in prop::array::uniform3(-1.5f64..1.5),
        target_mm in 0.5f64..4.0,
        part in prop::array::uniform3(0usize..12),
        padding in padding(),
    ) {
        // Only the image near the target is smoothed; that must not show.
        let v = noise(Geometry::isotropic([17, 15, 13], 1.0).unwrap());
        let matrix = rotation(axes) * target_mm;
        let start = PointLps(v.geometry().center().0 - matrix * Vector3::repeat(6.0));
        let whole = resample(&v, &Geometry::new([13; 3], matrix, start).unwrap(), padding);
        let corner = whole.geometry().to_lps(VoxelIndex::new(part[0] as f64, part[1] as f64, part[2] as f64));
        let small = resample(&v, &Geometry::new([1, 1, 1], matrix, corner).unwrap(), padding);
        let expected = i32::from(whole.at(part[0], part[1], part[2]));
        // Rounding a position that falls on a tie may go either way.
        prop_assert!((i32::from(small.data()[0]) - expected).abs() <= 12, "{} {}", small.data()[0], expected);
    }
}

#[test]
fn constant_images_stay_constant() {
    let v = Volume::filled(Geometry::isotropic([20, 21, 22], 0.5).unwrap(), 4095u16);
    for axes in [Matrix3::identity(), rotation([0.2, 0.3, -0.4])] {
        for spacing_mm in [0.2, 0.5, 0.77, 3.0, 1e6] {
            let to =
                Geometry::new([5, 6, 7], axes * spacing_mm, PointLps::new(1.0, 2.0, 3.0)).unwrap();
            assert!(
                resample(&v, &to, Padding::Edge).data().iter().all(|&v| v == 4095),
                "{spacing_mm}"
            );
        }
    }
}

#[test]
fn coarse_grids_do_not_alias() {
    // A checkerboard is all detail: on a coarser grid only its mean may remain.
    let v = Volume::from_fn(Geometry::isotropic([64; 3], 1.0).unwrap(), |i, j, k| {
        if (i + j + k) % 2 == 0 { 0 } else { 4000 }
    });
    for axes in [Matrix3::identity(), rotation([0.2, 0.3, -0.4])] {
        let start = PointLps(v.geometry().center().0 - axes * Vector3::repeat(10.0));
        let out = resample(&v, &Geometry::new([8; 3], axes * 2.5, start).unwrap(), Padding::Edge);
        assert!(out.data().iter().all(|&v| v.abs_diff(2000) < 40), "{:?}", out.data().iter().max());
    }
}

#[test]
fn far_away_there_is_padding() {
    let v = noise(Geometry::isotropic([6, 5, 4], 1.0).unwrap());
    for axes in [Matrix3::identity(), rotation([0.2, 0.3, -0.4])] {
        for spacing_mm in [0.5, 3.0] {
            for side in [-1e8, 1e8] {
                let to = Geometry::new([3; 3], axes * spacing_mm, PointLps::new(side, side, side))
                    .unwrap();
                let corner = if side < 0.0 { v.at(0, 0, 0) } else { v.at(5, 4, 3) };
                assert!(resample(&v, &to, Padding::Zero).data().iter().all(|&v| v == 0));
                let smoothed = spacing_mm > 1.0 && axes != Matrix3::identity();
                assert!(
                    smoothed
                        || resample(&v, &to, Padding::Edge).data().iter().all(|&v| v == corner)
                );
            }
        }
    }
}

#[test]
fn threads_do_not_show() {
    let v = noise(Geometry::isotropic([30, 20, 25], 1.0).unwrap());
    for axes in [Matrix3::identity(), rotation([0.2, 0.3, -0.4])] {
        let to = Geometry::new([13; 3], axes * 1.7, PointLps::new(2.0, 1.0, 0.0)).unwrap();
        let with = |threads| {
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap()
                .install(|| resample(&v, &to, Padding::Zero))
        };
        assert_eq!(with(1), with(3));
    }
}
