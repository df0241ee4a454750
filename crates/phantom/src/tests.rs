use super::*;
use crate::solid::{Scaled, Solid};
use nalgebra::{Matrix3, Vector3};
use pbt_volume::{PointLps, Volume, VoxelIndex};
use proptest::prelude::*;

fn clean(modality: PhantomModality) -> PhantomSettings {
    PhantomSettings {
        noise: 0.0,
        distractors: 0,
        max_shift_mm: 4.0,
        ..PhantomSettings::new(modality)
    }
}

/// Value of the nearest voxel, `None` outside.
fn nearest(image: &Volume<f32>, p: PointLps) -> Option<f64> {
    let VoxelIndex(index) = image.geometry().to_index(p);
    let rounded = index.map(|v| v.round());
    let inside = (0..3).all(|a| rounded[a] >= 0.0 && rounded[a] < image.shape()[a] as f64);
    inside.then(|| f64::from(image.at(rounded.x as usize, rounded.y as usize, rounded.z as usize)))
}

/// Values on a grid over the box, and on the same grid with the box coordinates mapped by `map`.
fn box_values(phantom: &Phantom, map: impl Fn(Vector3<f64>) -> Vector3<f64>) -> Vec<Option<f64>> {
    let steps = 12;
    let unit = |n: usize| (n as f64 + 0.5) / steps as f64 - 0.5;
    let half = Vector3::from(phantom.pose.size_mm);
    (0..steps * steps * steps)
        .map(|n| {
            let q = map(Vector3::new(
                unit(n % steps),
                unit(n / steps % steps),
                unit(n / steps / steps),
            ));
            nearest(&phantom.image, phantom.pose.to_lps(q.component_mul(&half)))
        })
        .collect()
}

fn correlation(a: &[Option<f64>], b: &[Option<f64>]) -> f64 {
    let pairs: Vec<(f64, f64)> =
        a.iter().zip(b).filter_map(|(a, b)| Some(((*a)?, (*b)?))).collect();
    let n = pairs.len() as f64;
    let (mean_a, mean_b) =
        (pairs.iter().map(|p| p.0).sum::<f64>() / n, pairs.iter().map(|p| p.1).sum::<f64>() / n);
    let sum = |f: &dyn Fn(f64, f64) -> f64| {
        pairs.iter().map(|&(a, b)| f(a - mean_a, b - mean_b)).sum::<f64>()
    };
    sum(&|a, b| a * b) / (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt()
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    for modality in PhantomModality::ALL {
        let settings = PhantomSettings::new(modality);
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| phantom(modality, &settings, 7))
        };
        let one = with(1);
        assert_eq!(one, with(3), "{modality:?}");
        assert_ne!(one.image, phantom(modality, &settings, 8).image, "{modality:?}");
        assert!(one.image.data().iter().all(|v| v.is_finite()), "{modality:?}");
    }
}

#[test]
fn orientations_cover_what_the_settings_say() {
    let angles = |modality, any_orientation| -> Vec<f64> {
        let settings =
            PhantomSettings { voxels: 4, any_orientation, ..PhantomSettings::new(modality) };
        (0..300)
            .map(|seed| phantom(modality, &settings, seed).pose.orientation.angle().to_degrees())
            .collect()
    };
    let tilted = angles(PhantomModality::Mr, false);
    assert!(tilted.iter().all(|&a| a <= 25.0) && tilted.iter().any(|&a| a > 22.0));
    // The mean angle of a uniform rotation is π/2 + 2/π = 126.5°.
    let any = angles(PhantomModality::Ct, true);
    let mean = any.iter().sum::<f64>() / any.len() as f64;
    assert!((mean - 126.5).abs() < 6.0, "{mean}");
}

#[test]
fn grids_are_plain_or_oblique_and_centers_lie_inside() {
    let settings = PhantomSettings {
        voxels: 12,
        spacing_mm: 8.0,
        oblique_share: 0.5,
        ..PhantomSettings::new(PhantomModality::Ct)
    };
    let cases: Vec<Phantom> =
        (0..60).map(|seed| phantom(PhantomModality::Ct, &settings, seed)).collect();
    let share = |f: &dyn Fn(&Phantom) -> bool| {
        cases.iter().filter(|c| f(c)).count() as f64 / cases.len() as f64
    };
    assert!(
        (share(&|c| *c.image.geometry().matrix() == Matrix3::identity() * 8.0) - 0.5).abs() < 0.2
    );
    let mirrored = share(&|c| c.image.geometry().matrix().determinant() < 0.0);
    assert!(mirrored > 0.1 && mirrored < 0.45, "{mirrored}");
    assert!(cases.iter().all(|c| c.image.geometry().voxels_outside(c.pose.center) == 0.0));
}

#[test]
fn skull_fills_its_box() {
    for seed in 0..6 {
        let case = phantom(PhantomModality::Ct, &clean(PhantomModality::Ct), seed);
        let half = Vector3::from(case.pose.size_mm) / 2.0;
        let margin = 2.5;
        let (mut low, mut high, mut mean, mut count) = (half, -half, Vector3::zeros(), 0.0);
        let [nx, ny, _] = case.image.shape();
        for (n, &value) in case.image.data().iter().enumerate() {
            let index =
                VoxelIndex::new((n % nx) as f64, (n / nx % ny) as f64, (n / nx / ny) as f64);
            let p = case.image.geometry().to_lps(index);
            let q = case.pose.orientation.inverse() * (p.0 - case.pose.center.0);
            // Above 600 HU is the skull, or a spine of the neck, which lies outside the box.
            if value > 600.0 && (0..3).all(|a| q[a].abs() < half[a] + margin) {
                (low, high) = (low.inf(&q), high.sup(&q));
                mean += q;
                count += 1.0;
            }
        }
        mean /= count;
        for a in 0..3 {
            assert!(
                (low[a] + half[a]).abs() < margin && (high[a] - half[a]).abs() < margin,
                "seed {seed}, axis {a}: {low} {high} {half}"
            );
            assert!(mean[a].abs() < 0.25 * half[a], "seed {seed}, axis {a}: {mean}");
        }
    }
}

#[test]
fn landmarks_lie_on_their_anatomy() {
    for seed in 0..5 {
        let at = |modality, name: &str| {
            let case = phantom(modality, &clean(modality), seed);
            let (_, point) = case.landmarks.iter().find(|(n, _)| n == name).unwrap();
            nearest(&case.image, *point).unwrap()
        };
        assert!(at(PhantomModality::Ct, "ear_left") > 1500.0);
        assert!(at(PhantomModality::Ct, "ear_right") > 1500.0);
        assert!(at(PhantomModality::Ct, "chin") > 600.0);
        assert!(at(PhantomModality::Ultrasound, "cyst") < 60.0);
    }
}

#[test]
fn structures_look_like_themselves_only_upright() {
    for modality in PhantomModality::ALL {
        for seed in 0..4 {
            let case = phantom(modality, &clean(modality), seed);
            let upright = box_values(&case, |q| q);
            for axis in 0..3 {
                let turned = box_values(&case, |q| {
                    Vector3::from_fn(|a, _| if a == axis { q[a] } else { -q[a] })
                });
                let r = correlation(&upright, &turned);
                assert!(
                    r < 0.8,
                    "{modality:?} seed {seed}: half a turn about axis {axis} correlates {r}"
                );
            }
            let mirrored = box_values(&case, |q| Vector3::new(-q.x, q.y, q.z));
            let r = correlation(&upright, &mirrored);
            assert!(r < 0.97, "{modality:?} seed {seed}: the mirror image correlates {r}");
        }
    }
}

proptest! {
    #[test]
    fn bounds_enclose_solids_tightly(
        a in prop::array::uniform3(-20.0f64..20.0),
        b in prop::array::uniform3(-20.0f64..20.0),
        radii in prop::array::uniform3(2.0f64..9.0),
        kind in 0..3,
        seed in any::<u64>(),
    ) {
        let s = Scaled(Vector3::repeat(1.0));
        let solid = match kind {
            0 => s.ellipsoid(a, radii),
            1 => s.rod(a, radii[0], b, radii[0]),
            _ => Solid::Cuboid { center: Vector3::from(a), half: Vector3::from(radii) },
        };
        let (low, high) = solid.bounds();
        let mut draws = Draws::new(0, seed);
        for _ in 0..200 {
            let p = Vector3::from_fn(|i, _| draws.between(low[i] - 3.0, high[i] + 3.0));
            let inside_bounds = (0..3).all(|i| p[i] >= low[i] && p[i] <= high[i]);
            prop_assert!(inside_bounds || solid.distance_mm(p) > 0.0);
        }
        // Each face of the bounds is touched: walking along it from a touching point finds the
        // surface.
        for axis in 0..3 {
            let touching = match solid {
                Solid::Rod { a, b, .. } => if b[axis] > a[axis] { b } else { a },
                Solid::Ellipsoid { center, .. } | Solid::Cuboid { center, .. } => center,
            };
            let face = Vector3::from_fn(|i, _| if i == axis { high[i] } else { touching[i] });
            prop_assert!(solid.distance_mm(face).abs() < 1e-9, "{:?}", solid);
        }
    }

    #[test]
    fn distances_change_sign_at_the_surface(
        center in prop::array::uniform3(-20.0f64..20.0),
        radii in prop::array::uniform3(2.0f64..9.0),
        p in prop::array::uniform3(-30.0f64..30.0),
    ) {
        let (center, radii, p) = (Vector3::from(center), Vector3::from(radii), Vector3::from(p));
        let solid = Solid::Ellipsoid { center, radii };
        let inside = (p - center).component_div(&radii).norm() < 1.0;
        prop_assert_eq!(solid.distance_mm(p) < 0.0, inside);
        // A solid grown by its distance at p has p near its surface: exact for balls.
        let ball = Solid::Ellipsoid { center, radii: Vector3::repeat(radii.x) };
        prop_assert!(ball.grown(ball.distance_mm(p)).distance_mm(p).abs() < 1e-9 || p == center);
    }
}
