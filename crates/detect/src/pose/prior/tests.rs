use super::*;
use crate::config::OrientationConfig;
use crate::config::TrainConfig;
use nalgebra::Vector3;

fn pose(axis: [f64; 3], degrees: f64, size_mm: [f64; 3]) -> Pose {
    let turn = Vector3::from(axis).normalize() * degrees.to_radians();
    Pose {
        center: PointLps::new(1.0, 2.0, 3.0),
        orientation: UnitQuaternion::from_scaled_axis(turn),
        size_mm,
    }
}

const X: [f64; 3] = [1.0, 0.0, 0.0];
const Z: [f64; 3] = [0.0, 0.0, 1.0];

fn prior(poses: &[Pose], orientations: Orientations) -> Prior {
    let middles: Vec<PointLps> =
        (0..poses.len()).map(|n| PointLps::new(n as f64, 0.0, 0.0)).collect();
    Prior::new(poses, &middles, orientations)
}

#[test]
fn sizes_are_geometric_means() {
    let sizes = [[10.0, 20.0, 5.0], [40.0, 20.0, 5.0]].map(|size_mm| pose(X, 0.0, size_mm));
    let prior = prior(&sizes, Orientations::Auto);
    let expected = [20.0, 20.0, 5.0];
    for (mean, expected) in prior.mean_size_mm.iter().zip(expected) {
        assert!((mean - expected).abs() < 1e-9, "{prior:?}");
    }
    assert!((prior.scale_mm - libm::cbrt(2000.0)).abs() < 1e-9);
    // Both are a factor of 2 off along the first axis.
    assert!((prior.log_size_spread - libm::log(2.0)).abs() < 1e-12);
    // The middles of the images lie at 0 and 1.
    assert_eq!(prior.center_offset_mm, [0.5, 2.0, 3.0]);
}

#[test]
fn the_middle_orientation_is_the_one_nearest_to_all() {
    let poses = [0.0, 10.0, 14.0, 60.0].map(|degrees| pose(X, degrees, [10.0; 3]));
    let near = prior(&poses, Orientations::Auto);
    // 10 and 14 have equal sums of angles to the rest; the first is taken.
    assert!(angle_between(&near.middle, &poses[1].orientation) < 1e-9);
    assert!(!near.any_orientation);
    let squares = [10.0f64, 0.0, 4.0, 50.0].map(|degrees| degrees.to_radians().powi(2));
    assert!((near.spread_rad - (squares.iter().sum::<f64>() / 4.0).sqrt()).abs() < 1e-9);
    let expected = near.expected(PointLps::new(10.0, 0.0, 0.0)).unwrap();
    assert_eq!(expected.size_mm, near.mean_size_mm);
    assert!((expected.center.0.x - (10.0 + near.center_offset_mm[0])).abs() < 1e-12);

    let far = [0.0, 10.0, 14.0, 90.0].map(|degrees| pose(X, degrees, [10.0; 3]));
    let any = prior(&far, Orientations::Auto);
    assert!(any.any_orientation && any.expected(PointLps::new(0.0, 0.0, 0.0)).is_none());
    assert!(!prior(&far, Orientations::Training).any_orientation);
    assert!(prior(&poses, Orientations::Any).any_orientation);
}

#[test]
fn rotations_cover_the_training_orientations() {
    let poses: Vec<Pose> =
        (0..40).map(|n| pose(if n % 2 == 0 { X } else { Z }, f64::from(n), [10.0; 3])).collect();
    let prior = prior(&poses, Orientations::Training);
    let cover = |rotations: usize| {
        let config = OrientationConfig { rotations, ..TrainConfig::default().orientation };
        prior.rotations(&poses, &config)
    };
    let farthest = |chosen: &[UnitQuaternion<f64>]| {
        let nearest = |p: &Pose| {
            chosen.iter().map(|q| angle_between(q, &p.orientation)).fold(f64::INFINITY, f64::min)
        };
        poses.iter().map(nearest).fold(0.0, f64::max).to_degrees()
    };
    let all = cover(600);
    assert!(all.len() < poses.len() && farthest(&all) < 2.0, "{}", all.len());
    assert_eq!(all[0], prior.middle);
    // No two say the same.
    for (n, a) in all.iter().enumerate() {
        assert!(all[..n].iter().all(|b| angle_between(a, b).to_degrees() > 2.0 - 1e-9));
    }
    // Fewer lie as far apart as they can: the same ones in the same order.
    let few = cover(5);
    assert_eq!(few, all[..5]);
    assert!(farthest(&few) < 15.0, "{}", farthest(&few));
}

#[test]
fn any_orientation_is_covered_evenly() {
    let poses = [pose(X, 0.0, [10.0; 3]), pose(Z, 180.0, [10.0; 3])];
    let prior = prior(&poses, Orientations::Auto);
    let config = OrientationConfig { rotations: 600, ..TrainConfig::default().orientation };
    let chosen = prior.rotations(&poses, &config);
    assert!(chosen.len() <= 600);
    // None of a lattice of rotations is far from all of them.
    for axis in [X, Z, [1.0, 1.0, 0.0], [1.0, -2.0, 3.0]] {
        for degrees in [0.0, 50.0, 111.0, 180.0] {
            let there = pose(axis, degrees, [10.0; 3]).orientation;
            let nearest =
                chosen.iter().map(|q| angle_between(q, &there)).fold(f64::INFINITY, f64::min);
            assert!(nearest.to_degrees() < 30.0, "{axis:?} {degrees}: {}", nearest.to_degrees());
        }
    }
}
