//! From many scored hypotheses to a few modes.

use crate::pose::step::Step;
use nalgebra::{Quaternion, UnitQuaternion, Vector3};
use pbt_tree::Score;
use pbt_volume::{PointLps, Pose, positive};

/// How far apart modes are, and how near a mode's members.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModeRule {
    /// Modes differ by more than this angle, radians, or
    pub(crate) apart_rad: f64,
    /// by more than this distance, mm.
    pub(crate) apart_mm: f64,
    /// Hypotheses that are looked at: the best ones.
    pub(crate) keep: usize,
    /// Most modes.
    pub(crate) modes: usize,
}

/// Greedy modes of the best hypotheses: the best one that is not near a mode yet founds the next;
/// each mode becomes the mean of the hypotheses within 6/7 of the angle and distance that keep
/// modes apart. The mean of the best quarter is added as a last mode.
pub(crate) fn modes(poses: &[Pose], scores: &[Score], rule: &ModeRule) -> Vec<Pose> {
    let order = pbt_tree::best_indices(scores, rule.keep);
    let near = |a: &Pose, b: &Pose, part: f64| {
        a.angle_to(b) <= rule.apart_rad * part
            && a.center.distance_mm(&b.center) <= rule.apart_mm * part
    };
    let mut founders: Vec<&Pose> = Vec::new();
    for &n in &order {
        if founders.len() == rule.modes {
            break;
        }
        if !founders.iter().any(|f| near(f, &poses[n], 1.0)) {
            founders.push(&poses[n]);
        }
    }
    let mut modes: Vec<Pose> = founders
        .iter()
        .filter_map(|founder| {
            mean(order.iter().map(|&n| &poses[n]).filter(|p| near(founder, p, 6.0 / 7.0)))
        })
        .collect();
    modes.extend(mean(order.iter().take(rule.keep.div_ceil(4)).map(|&n| &poses[n])));
    modes
}

/// The mean pose: mean centre, mean quaternion (each with the sign nearest to the first one's),
/// mean size. `None` of no poses.
pub(crate) fn mean<'a>(poses: impl Iterator<Item = &'a Pose>) -> Option<Pose> {
    let (mut n, mut center, mut rotation, mut size) =
        (0.0, Vector3::zeros(), Quaternion::new(0.0, 0.0, 0.0, 0.0), [0.0; 3]);
    let mut first: Option<Quaternion<f64>> = None;
    for pose in poses {
        let q = pose.orientation.into_inner();
        let reference = *first.get_or_insert(q);
        rotation += if q.coords.dot(&reference.coords) < 0.0 { -q } else { q };
        center += pose.center.0.coords;
        for (s, p) in size.iter_mut().zip(pose.size_mm) {
            *s += p;
        }
        n += 1.0;
    }
    let first = first?;
    // Opposite rotations could cancel; then the best hypothesis speaks for all.
    let orientation = if rotation.norm() > 1e-6 {
        UnitQuaternion::new_normalize(rotation)
    } else {
        UnitQuaternion::new_normalize(first)
    };
    Some(Pose {
        center: PointLps((center / n).into()),
        orientation: positive(orientation),
        size_mm: size.map(|s| s / n),
    })
}

/// The weighted median pose by component of the steps from `about`: of the shift along its axes, of the
/// rotation vector and of the log sizes. A few poses that ended elsewhere move it little. `about`
/// of no poses.
pub(crate) fn median<'a>(about: &Pose, poses: impl Iterator<Item = (&'a Pose, f64)>) -> Pose {
    let steps: Vec<(Step, f64)> =
        poses.map(|(pose, weight)| (Step::between(about, pose), weight)).collect();
    let middle = |component: &dyn Fn(&Step) -> f64| {
        weighted_median(steps.iter().map(|(step, weight)| (component(step), *weight)).collect())
    };
    Step {
        rotation: Vector3::from_fn(|a, _| middle(&|step| step.rotation[a])),
        shift_mm: Vector3::from_fn(|a, _| middle(&|step| step.shift_mm[a])),
        log_size: std::array::from_fn(|a| middle(&|step| step.log_size[a])),
    }
    .apply(about)
}

/// The value with as much weight below it as above; 0 without any.
fn weighted_median(mut values: Vec<(f64, f64)>) -> f64 {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = values.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut below = 0.0;
    let mut sums = values.iter().map(|&(value, weight)| {
        below += weight;
        (value, below)
    });
    // Where weights part evenly, halfway between two values.
    let Some((low, up_to)) = sums.find(|&(_, below)| below >= half * (1.0 - EVEN)) else {
        return 0.0;
    };
    match sums.next() {
        Some((next, _)) if up_to <= half * (1.0 + EVEN) => (low + next) / 2.0,
        _ => low,
    }
}

/// Halves of the weights are equal up to this share of them: sums of numbers are rounded.
const EVEN: f64 = 1e-12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pose::step::{Reach, perturbed};
    use crate::random::test_random;

    #[test]
    fn a_median_is_not_moved_by_one_that_went_astray() {
        let mut random = test_random(4);
        let truth = Pose {
            center: PointLps::new(5.0, 6.0, 7.0),
            orientation: random.rotation(),
            size_mm: [10.0, 20.0, 30.0],
        };
        let near = Reach { angle_rad: 0.01, center_mm: 0.1, log_size: 0.01 };
        let mut poses: Vec<Pose> = (0..9).map(|_| perturbed(&truth, &near, &mut random)).collect();
        poses.push(perturbed(
            &truth,
            &Reach { angle_rad: 0.4, center_mm: 10.0, log_size: 0.3 },
            &mut random,
        ));
        let found = median(&poses[9], poses.iter().map(|pose| (pose, 1.0)));
        assert!(
            Reach { angle_rad: 0.02, center_mm: 0.1, log_size: 0.01 }.holds(&truth, &found),
            "{found:?}"
        );
        assert!(median(&truth, std::iter::empty()).center.distance_mm(&truth.center) < 1e-12);
    }

    #[test]
    fn two_clusters_give_two_modes_near_their_middles() {
        let mut random = test_random(3);
        let reach = Reach { angle_rad: 0.2, center_mm: 1.0, log_size: 0.0 };
        let truth =
            |q| Pose { center: PointLps::new(5.0, 6.0, 7.0), orientation: q, size_mm: [10.0; 3] };
        let (a, b) = (truth(random.rotation()), truth(random.rotation()));
        assert!(a.angle_to(&b) > 1.0);
        let poses: Vec<Pose> = (0..200)
            .map(|n| perturbed(if n % 2 == 0 { &a } else { &b }, &reach, &mut random))
            .collect();
        let scores: Vec<Score> = (0..200).map(|n| Score(n * 7919 % 1009)).collect();
        let rule = ModeRule { apart_rad: 0.6, apart_mm: 4.0, keep: 200, modes: 8 };
        let found = modes(&poses, &scores, &rule);
        assert_eq!(found.len(), 3);
        for truth in [a, b] {
            assert!(found.iter().any(|m| m.angle_to(&truth) < 0.05 && m.center.distance_mm(&truth.center) < 0.3));
        }
    }
}
