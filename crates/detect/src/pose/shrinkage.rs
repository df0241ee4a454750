//! Shrinkage: how far a found orientation and size are drawn towards the training mean.
//!
//! With few cases, faint borders or a symmetric shape a regressor overshoots, and the best estimate
//! lies between the mean and where the refinement ends. The shares are measured on training cases that
//! the refinement did not see, and only where it ended at the structure: an end elsewhere tells nothing
//! about overshooting. The centre is never drawn: its mean is known only relative to the middle of
//! the image, which says how the image was cut out and nothing about the patient. Structures that look
//! alike share one refinement, and so its shrinkage.

use crate::config::ShrinkageConfig;
use crate::pose::modes::median;
use crate::pose::prior::Prior;
use crate::pose::step::{Reach, Step};
use nalgebra::Vector3;
use pbt_volume::{PointLps, Pose};
use serde::{Deserialize, Serialize};

/// Fewest held-out ends at the structure to fit shares to.
const FEWEST_ENDS: usize = 6;

/// An end within this of the truth, angle in radians and distance in D, is at the structure.
const RIGHT_ANGLE_RAD: f64 = 0.7;
const RIGHT_D: f64 = 0.3;

/// Ends with more than so many times the median error do not count: they are outliers.
const MOST_MEDIANS: f64 = 3.0;

/// A rotation of which less is kept is drawn as if so much were.
const LEAST_KEPT: f64 = 0.01;

/// The root mean square length of a normally distributed vector, over its median length.
const MEDIAN_TO_RMS: f64 = 1.126;

/// Shares of the way from the training mean to what was found, and the errors of the refinement
/// that limit how far a pose may be moved, both from held-out cases.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shrinkage {
    /// Share of the rotation that is kept, 0 to 1.
    pub rotation: f64,
    /// Share of the log ratio of sizes that is kept, 0 to 1.
    pub size: f64,
    /// Most that a pose is drawn, as a multiple of `error`, before [`Shrinkage::most`].
    pub most: f64,
    /// Root mean square error of the refinement, estimated from the median, which a few poor ends do
    /// not move.
    pub error: Reach,
}

impl Shrinkage {
    /// Most that a pose is drawn. Of what is kept, the share ρ is σ² / (σ² + e²), where σ is how much true rotations
    /// vary and e the error; where e is the larger, a turn beyond all errors is still no true one, and may be
    /// drawn e² / σ² = (1 − ρ) / ρ times as far.
    pub fn most(&self) -> Reach {
        let most = self.error.scaled(self.most);
        let kept = self.rotation.max(LEAST_KEPT);
        Reach { angle_rad: most.angle_rad * ((1.0 - kept) / kept).max(1.0), ..most }
    }

    /// The found pose with its orientation and size drawn towards the training mean.
    pub(crate) fn shrink(&self, found: &Pose, prior: &Prior) -> Pose {
        let step = Step::between(found, &mean_at(found.center, prior));
        Step {
            rotation: step.rotation * (1.0 - self.rotation),
            shift_mm: Vector3::zeros(),
            log_size: step.log_size.map(|s| s * (1.0 - self.size)),
        }
        .limited(&self.most())
        .apply(found)
    }

    /// The shares that fit ends at the structure, each with its true pose.
    pub(crate) fn fit(pairs: &[(Pose, Pose)], prior: &Prior, config: &ShrinkageConfig) -> Self {
        let steps: Vec<(Step, Step)> = pairs
            .iter()
            .map(|(end, truth)| {
                let mean = mean_at(end.center, prior);
                (Step::between(&mean, end), Step::between(&mean, truth))
            })
            .collect();
        let (rotation, angle_rad) = share(&steps, |step| step.rotation);
        let (size, log_size) = share(&steps, |step| step.log_size.into());
        let center_mm = upper_median(pairs.iter().map(|(a, b)| a.center.distance_mm(&b.center)));
        let error = Reach { angle_rad, center_mm: MEDIAN_TO_RMS * center_mm, log_size };
        Self { rotation, size, most: config.most, error }
    }

    /// Whether a file's numbers make sense.
    pub(crate) fn is_valid(&self) -> bool {
        let Reach { angle_rad, center_mm, log_size } = self.error;
        [self.rotation, self.size].iter().all(|s| (0.0..=1.0).contains(s))
            && [self.most, angle_rad, center_mm, log_size].iter().all(|x| (0.0..=1e6).contains(x))
    }
}

/// The mean orientation and size, put at a centre.
fn mean_at(center: PointLps, prior: &Prior) -> Pose {
    Pose { center, orientation: prior.middle, size_mm: prior.mean_size_mm }
}

/// About the pose that verification would settle on: the median of the ends about the one nearest to
/// the truth, which all weigh as much, since nobody has scored them. `None` where all ended elsewhere.
pub(crate) fn end_at(truth: &Pose, ends: &[Pose], scale_mm: f64) -> Option<Pose> {
    let right = Reach {
        angle_rad: RIGHT_ANGLE_RAD,
        center_mm: RIGHT_D * scale_mm,
        log_size: f64::INFINITY,
    };
    let apart = |p: &Pose| {
        p.center.distance_mm(&truth.center) / right.center_mm + p.angle_to(truth) / right.angle_rad
    };
    let ends = || ends.iter().filter(|end| right.holds(truth, end));
    let best = ends().min_by(|a, b| apart(a).total_cmp(&apart(b)))?;
    Some(median(best, ends().map(|end| (end, 1.0))))
}

/// The least-squares share to keep, plus its standard error, so that shrinkage stays conservative; 1
/// with too few ends. And the root mean square error.
fn share(steps: &[(Step, Step)], part: impl Fn(&Step) -> Vector3<f64>) -> (f64, f64) {
    let left = |(found, truth): &(Step, Step)| (part(truth) - part(found)).norm();
    let error = upper_median(steps.iter().map(left));
    let kept = || steps.iter().filter(|step| left(step) <= MOST_MEDIANS * error);
    let sum = |f: &dyn Fn(Vector3<f64>, Vector3<f64>) -> f64| {
        kept().map(|(found, truth)| f(part(found), part(truth))).sum::<f64>()
    };
    let own = sum(&|found, _| found.norm_squared());
    if steps.len() < FEWEST_ENDS || own <= 0.0 {
        return (1.0, MEDIAN_TO_RMS * error);
    }
    let best = sum(&|found, truth| found.dot(&truth)) / own;
    // Three components a case, one parameter.
    let rest = sum(&|found, truth| (truth - found * best).norm_squared())
        / (3 * kept().count() - 1) as f64;
    ((best + (rest / own).sqrt()).clamp(0.0, 1.0), MEDIAN_TO_RMS * error)
}

/// The upper median; 0 of nothing.
pub(crate) fn upper_median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Orientations;
    use crate::pose::step::perturbed_normally;
    use crate::random::test_random;
    use nalgebra::UnitQuaternion;
    use pbt_volume::Random;

    const D: f64 = 30.0;

    fn truths(random: &mut Random) -> Vec<Pose> {
        let mean = Pose {
            center: PointLps::new(1.0, 2.0, 3.0),
            orientation: UnitQuaternion::identity(),
            size_mm: [D; 3],
        };
        let reach = Reach { angle_rad: 0.3, center_mm: 20.0, log_size: 0.2 };
        (0..20).map(|_| perturbed_normally(&mean, &reach, random)).collect()
    }

    fn prior(poses: &[Pose]) -> Prior {
        let middles: Vec<PointLps> = poses.iter().map(|_| PointLps::new(0.0, 0.0, 0.0)).collect();
        Prior::new(poses, &middles, Orientations::Training)
    }

    /// The refinement doubles what sets a pose apart from the mean.
    fn overshot(truth: &Pose, prior: &Prior) -> Pose {
        let mean = mean_at(truth.center, prior);
        let step = Step::between(&mean, truth);
        Step {
            rotation: step.rotation * 2.0,
            shift_mm: Vector3::zeros(),
            log_size: step.log_size.map(|s| s * 2.0),
        }
        .apply(&mean)
    }

    #[test]
    fn overshooting_is_drawn_back() {
        let truths = truths(&mut test_random(1));
        let prior = prior(&truths);
        let pairs: Vec<_> = truths.iter().map(|truth| (overshot(truth, &prior), *truth)).collect();
        let s = Shrinkage::fit(&pairs, &prior, &ShrinkageConfig::default());
        assert!((s.rotation - 0.5).abs() < 0.05 && (s.size - 0.5).abs() < 0.05, "{s:?}");
        for (end, truth) in &pairs {
            let shrunk = s.shrink(end, &prior);
            assert!(shrunk.angle_to(truth) <= end.angle_to(truth) + 1e-9);
            assert_eq!(shrunk.center, end.center);
        }
    }

    #[test]
    fn a_wrong_mode_says_nothing() {
        let truths = truths(&mut test_random(2));
        let prior = prior(&truths);
        // Every end is right, but in a fifth of the cases all are a vertebra away.
        let right: Vec<_> = truths.iter().map(|&truth| (truth, vec![truth; 3])).collect();
        let mut ends = right.clone();
        for (_, ends) in ends.iter_mut().step_by(5) {
            for end in ends {
                end.center.0.z += 1.2 * D;
                end.orientation *= UnitQuaternion::from_euler_angles(0.6, 0.0, 0.0);
            }
        }
        let fit = |all: &[(Pose, Vec<Pose>)]| {
            let pairs: Vec<_> = all
                .iter()
                .filter_map(|(truth, ends)| Some((end_at(truth, ends, D)?, *truth)))
                .collect();
            Shrinkage::fit(&pairs, &prior, &ShrinkageConfig::default())
        };
        let s = fit(&ends);
        assert!(s.rotation > 0.999 && s.size > 0.999 && s.error.center_mm < 1e-9, "{s:?}");
        assert_eq!((s.rotation, s.size), (fit(&right).rotation, fit(&right).size));
    }

    #[test]
    fn content_may_lie_anywhere_in_the_image_and_a_pose_far_from_the_mean_is_hardly_drawn() {
        let truths = truths(&mut test_random(3));
        let prior = prior(&truths);
        let error = Reach { angle_rad: 0.05, center_mm: 1.0, log_size: 0.04 };
        let s = Shrinkage { rotation: 0.5, size: 0.0, most: 1.0, error };
        let far = PointLps::new(45.0, -45.0, 45.0);
        let moved = Pose { center: far, ..truths[0] };
        assert_eq!(s.shrink(&moved, &prior).center, far);
        assert_eq!(s.shrink(&moved, &prior).size_mm, s.shrink(&truths[0], &prior).size_mm);
        let turned =
            Pose { orientation: UnitQuaternion::from_euler_angles(1.0, 0.0, 0.0), ..moved };
        let drawn = |s: &Shrinkage| turned.angle_to(&s.shrink(&turned, &prior));
        assert!(drawn(&s) <= error.angle_rad + 1e-9);
        // A ring is turned back, however far it was turned.
        let ring = Shrinkage { rotation: 0.0, ..s };
        assert!(ring.shrink(&turned, &prior).orientation.angle_to(&prior.middle) < 1e-9);
        let off = Shrinkage { most: 0.0, ..s };
        assert!(turned.angle_to(&off.shrink(&turned, &prior)) < 1e-9);
    }

    #[test]
    fn few_ends_keep_the_pose() {
        let truths = truths(&mut test_random(4));
        let prior = prior(&truths);
        let pairs: Vec<_> =
            truths[..5].iter().map(|truth| (overshot(truth, &prior), *truth)).collect();
        let s = Shrinkage::fit(&pairs, &prior, &ShrinkageConfig::default());
        assert_eq!((s.rotation, s.size), (1.0, 1.0));
        assert_eq!(Shrinkage::fit(&[], &prior, &ShrinkageConfig::default()).error.center_mm, 0.0);
    }
}
