//! Whether mirrored copies show what no image shows: a heart whose right ventricle lies on the left,
//! or a box that leans the other way. What a training learns of places and orientations from such
//! copies is wrong, however much its regressors gain.

use crate::config::Orientations;
use crate::data::training_data::TrainingData;
use crate::pose::prior::Prior;
use pbt_volume::{Pose, angle_between};
use std::collections::BTreeMap;

/// Copies may lie this many times as far from what the originals show as these do themselves, as a root
/// mean square. Two halves of a distribution that lie farther apart are two.
const BEYOND: f64 = 2.5;

/// Originals count as spread at least so far: degrees of orientation, and shares of the mean size between
/// two structures. An image that is not quite straight is no reason.
const LEAST_SPREAD_DEG: f64 = 5.0;
const LEAST_SPREAD: f64 = 0.1;

/// Whether some structure lies in mirrored copies as it does in no original: turned, or on another side
/// of a neighbour. Structures come with their copies, whose cases have an origin other than themselves.
pub(crate) fn are_unlike_originals<D: TrainingData + ?Sized>(mirrored: &D) -> bool {
    let structures = mirrored.structures();
    let divided: Vec<[BTreeMap<usize, Pose>; 2]> = structures
        .iter()
        .map(|(_, annotated)| {
            let of = |copies: bool| {
                let is_wanted = |case: usize| (mirrored.origin(case) != case) == copies;
                annotated.iter().copied().filter(|&(case, _)| is_wanted(case)).collect()
            };
            [of(false), of(true)]
        })
        .collect();
    let turned = divided.iter().any(are_turned);
    let pairs = (0..divided.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    turned || pairs.into_iter().any(|(a, b)| are_across(&divided[a], &divided[b]))
}

/// Whether boxes are turned otherwise in copies.
fn are_turned([originals, copies]: &[BTreeMap<usize, Pose>; 2]) -> bool {
    if originals.is_empty() || copies.is_empty() {
        return false;
    }
    let poses: Vec<Pose> = originals.values().copied().collect();
    let middles: Vec<_> = poses.iter().map(|pose| pose.center).collect();
    let prior = Prior::new(&poses, &middles, Orientations::Auto);
    if prior.any_orientation {
        return false;
    }
    let off = copies.values().map(|pose| angle_between(&prior.middle, &pose.orientation));
    root_mean_square(off) > BEYOND * prior.spread_rad.max(LEAST_SPREAD_DEG.to_radians())
}

/// Whether one structure lies elsewhere beside the other in copies, to the left or right.
fn are_across(a: &[BTreeMap<usize, Pose>; 2], b: &[BTreeMap<usize, Pose>; 2]) -> bool {
    let between = |n: usize| -> Vec<f64> {
        let both = a[n].iter().filter_map(|(case, a)| Some((a, b[n].get(case)?)));
        both.map(|(a, b)| b.center.0.x - a.center.0.x).collect()
    };
    let (originals, copies) = (between(0), between(1));
    if originals.is_empty() || copies.is_empty() {
        return false;
    }
    let mean = originals.iter().sum::<f64>() / originals.len() as f64;
    let spread = |of: &[f64]| root_mean_square(of.iter().map(|off| off - mean));
    let sizes = a[0].values().chain(b[0].values()).map(Pose::mean_size_mm);
    let size = sizes.sum::<f64>() / (a[0].len() + b[0].len()) as f64;
    spread(&copies) > BEYOND * spread(&originals).max(LEAST_SPREAD * size)
}

fn root_mean_square(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), v| (sum + v * v, count + 1));
    (sum / f64::from(count.max(1))).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::{UnitQuaternion, Vector3};
    use pbt_volume::PointLps;

    /// Boxes of 40 mm at x, turned about z; then the same in copies.
    fn boxes(originals: &[(f64, f64)], copies: &[(f64, f64)]) -> [BTreeMap<usize, Pose>; 2] {
        let pose = |&(x, degrees): &(f64, f64)| Pose {
            center: PointLps::new(x, 3.0, -8.0),
            orientation: UnitQuaternion::new(Vector3::z() * f64::to_radians(degrees)),
            size_mm: [40.0; 3],
        };
        [originals, copies].map(|of| of.iter().map(pose).enumerate().collect())
    }

    /// A left ventricle near the middle and a right one 25 to 35 mm beside it.
    #[test]
    fn a_structure_on_the_other_side_of_another() {
        let left =
            boxes(&[(0.0, 0.0), (3.0, 0.0), (-2.0, 0.0)], &[(0.0, 0.0), (-3.0, 0.0), (2.0, 0.0)]);
        let beside = |mm: f64| {
            let at = [mm - 5.0, 3.0 + mm + 5.0, mm - 2.0];
            boxes(&at.map(|x| (x, 0.0)), &at.map(|x| (-x, 0.0)))
        };
        assert!(are_across(&left, &beside(30.0)));
        assert!(are_across(&beside(-30.0), &left));
        // On the midline, or as good as there.
        assert!(!are_across(&left, &beside(0.0)));
        assert!(!are_across(&left, &beside(1.5)));
        // Two of which one takes the other's place in copies.
        let (one, other) = (beside(30.0), beside(-30.0));
        let swapped = |of: &[BTreeMap<usize, Pose>; 2], with: &[BTreeMap<usize, Pose>; 2]| {
            [of[0].clone(), with[1].clone()]
        };
        assert!(!are_across(&swapped(&one, &other), &swapped(&other, &one)));
        let none = [left[0].clone(), BTreeMap::new()];
        assert!(!are_across(&none, &beside(30.0)));
    }

    #[test]
    fn a_box_that_leans_the_other_way() {
        let leaning = |degrees: f64| {
            let at = [degrees - 10.0, degrees + 12.0, degrees];
            boxes(&at.map(|d| (0.0, d)), &at.map(|d| (0.0, -d)))
        };
        assert!(are_turned(&leaning(30.0)));
        assert!(!are_turned(&leaning(5.0)));
        // Nearly straight, all of them.
        assert!(!are_turned(&boxes(&[(0.0, 3.0); 3], &[(0.0, -3.0); 3])));
        // In any orientation.
        let any = [(0.0, 0.0), (0.0, 100.0), (0.0, 170.0)];
        assert!(!are_turned(&boxes(&any, &any.map(|(x, d)| (x, -d)))));
    }
}
