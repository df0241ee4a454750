//! Structures that occur several times in an image: which detection is which instance, and where
//! instances may lie that nobody annotated.

use pbt_volume::{PointLps, Pose};

/// Two boxes whose centres are nearer than this, in edges, are of the same instance: the centre of
/// the one lies in the middle of the other, where no second one has room.
const SAME: f64 = 0.4;

/// Up to this distance, in mean sizes (the geometric mean of the edges), a detection is an instance:
/// half a radius of a round one.
const NEAR: f64 = 0.25;

/// Within this distance, in mean sizes, of where a row would go on nobody knows whether there is one
/// more.
const ZONE: f64 = 0.5;

/// How many places a row may go on by at each end.
const GOES_ON: usize = 2;

/// Fewest instances that show a row.
const FEWEST_OF_A_ROW: usize = 3;

/// Steps of a row differ from their median by less than this share of it.
const STEPS_DIFFER: f64 = 0.5;

/// Steps of a row turn by less than this, the cosine of 45 degrees.
const STEPS_TURN: f64 = core::f64::consts::FRAC_1_SQRT_2;

/// Neighbours of a row are nearer to each other than this, in mean sizes.
const NEXT: f64 = 2.5;

/// Up to which distance, mm, a detection is an instance of this size: a quarter of the geometric
/// mean of the edges.
pub fn instance_tolerance_mm(size_mm: [f64; 3]) -> f64 {
    NEAR * libm::cbrt(size_mm.iter().product())
}

/// Whether a box with this centre is the same instance as `pose`: it lies in the ellipsoid whose
/// half axes are 0.4 edges.
pub fn is_same_instance(pose: &Pose, center: PointLps) -> bool {
    let away = pose.orientation.inverse() * (center.0 - pose.center.0);
    (0..3).map(|a| (away[a] / (SAME * pose.size_mm[a])).powi(2)).sum::<f64>() < 1.0
}

/// Which of the true boxes each found one is, one to one: the first of the found ones, which are the
/// surest first, takes the nearest truth within the tolerance of its size, usually
/// [`instance_tolerance_mm`].
pub fn matched(
    truths: &[Pose],
    found: &[Pose],
    tolerance_mm: impl Fn([f64; 3]) -> f64,
) -> Vec<Option<usize>> {
    let mut taken = vec![false; truths.len()];
    let take = |pose: &Pose| {
        let near = |&(n, truth): &(usize, &Pose)| {
            !taken[n] && truth.center.distance_mm(&pose.center) <= tolerance_mm(truth.size_mm)
        };
        let off = |truth: &Pose| truth.center.distance_mm(&pose.center);
        let nearest = truths
            .iter()
            .enumerate()
            .filter(near)
            .min_by(|(_, a), (_, b)| off(a).total_cmp(&off(b)))
            .map(|(n, _)| n);
        if let Some(n) = nearest {
            taken[n] = true;
        }
        nearest
    };
    found.iter().map(take).collect()
}

/// Where a row of instances (vertebrae, ribs) would go on, two places at each end: there may be more
/// that nobody annotated. Empty where they stand in no row.
pub fn row_ends(instances: &[Pose]) -> Vec<Pose> {
    let Some(row) = row(instances) else { return Vec::new() };
    let end = |last: &Pose, before: &Pose| {
        let step = last.center.0 - before.center.0;
        let further = |n: usize| PointLps(last.center.0 + step * n as f64);
        (1..=GOES_ON).map(|n| Pose { center: further(n), ..*last }).collect::<Vec<_>>()
    };
    let n = row.len();
    let mut ends = end(row[0], row[1]);
    ends.extend(end(row[n - 1], row[n - 2]));
    ends
}

/// Whether there may be an unannotated instance: it lies where a row goes on.
pub fn is_unknown(ends: &[Pose], center: PointLps) -> bool {
    ends.iter().any(|end| end.center.distance_mm(&center) < ZONE * end.mean_size_mm())
}

/// The instances from one end of their row to the other, if they stand in one.
pub fn row(instances: &[Pose]) -> Option<Vec<&Pose>> {
    if instances.len() < FEWEST_OF_A_ROW {
        return None;
    }
    // From the one that is farthest from any other, always to the nearest that is left.
    let off = |a: &Pose, b: &Pose| a.center.distance_mm(&b.center);
    let farthest = |pose: &Pose| instances.iter().map(|b| off(pose, b)).fold(0.0, f64::max);
    let first = (0..instances.len())
        .max_by(|&a, &b| farthest(&instances[a]).total_cmp(&farthest(&instances[b])))?;
    let mut left: Vec<&Pose> = instances.iter().collect();
    let mut row = vec![left.remove(first)];
    while let Some(next) = (0..left.len()).min_by(|&a, &b| {
        let last = row[row.len() - 1];
        off(last, left[a]).total_cmp(&off(last, left[b]))
    }) {
        row.push(left.remove(next));
    }
    let steps: Vec<_> = row.windows(2).map(|pair| pair[1].center.0 - pair[0].center.0).collect();
    let mut lengths: Vec<f64> = steps.iter().map(|step| step.norm()).collect();
    let straight = steps
        .windows(2)
        .all(|pair| pair[0].dot(&pair[1]) > STEPS_TURN * pair[0].norm() * pair[1].norm());
    lengths.sort_by(f64::total_cmp);
    let median = lengths[lengths.len() / 2];
    let even = lengths.iter().all(|length| (length - median).abs() < STEPS_DIFFER * median);
    let size_mm = row.iter().map(|pose| pose.mean_size_mm()).sum::<f64>() / row.len() as f64;
    (straight && even && median < NEXT * size_mm).then_some(row)
}

/// Volume that two boxes share over the volume of both together, 0 to 1, from 4,096 points spread
/// evenly over the first.
pub(crate) fn intersection_over_union(a: &Pose, b: &Pose) -> f64 {
    let inside_b = |point: PointLps| {
        let at = b.orientation.inverse() * (point.0 - b.center.0);
        (0..3).all(|axis| at[axis].abs() <= b.size_mm[axis] / 2.0)
    };
    let volume = |pose: &Pose| pose.size_mm.iter().product::<f64>();
    let shared = a.share_inside(inside_b) * volume(a);
    shared / (volume(a) + volume(b) - shared)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::UnitQuaternion;
    use pbt_volume::rotation_from_vector;

    fn pose(at: [f64; 3]) -> Pose {
        Pose {
            center: PointLps::new(at[0], at[1], at[2]),
            orientation: UnitQuaternion::identity(),
            size_mm: [30.0, 40.0, 25.0],
        }
    }

    #[test]
    fn matches_are_one_to_one_and_the_surest_choose_first() {
        let truths = [pose([0.0; 3]), pose([0.0, 0.0, 35.0])];
        let found = [
            pose([0.0, 0.0, 2.0]),
            // The same again, one near the other truth, and one near nothing.
            pose([0.0, 0.0, 1.0]),
            pose([3.0, 0.0, 33.0]),
            pose([90.0, 0.0, 0.0]),
        ];
        let matches = |truths| matched(truths, &found, instance_tolerance_mm);
        assert_eq!(matches(&truths), [Some(0), None, Some(1), None]);
        assert_eq!(matches(&[]), [None; 4]);
        assert_eq!(matched(&truths, &found, |_| 1.5), [None, Some(0), None, None]);
    }

    #[test]
    fn rows_go_on_at_both_ends_and_heaps_do_not() {
        // A curved spine, in any order.
        let level = |n: f64| pose([n * n, 2.0 * n, 35.0 * n]);
        let spine = [3.0, 0.0, 1.0, 4.0, 2.0].map(level);
        let ends = row_ends(&spine);
        assert_eq!(ends.len(), 4);
        for (n, end) in [(-1.0, 0), (5.0, 0)].map(|(n, _)| (n, level(n))) {
            assert!(is_unknown(&ends, end.center), "{n}");
        }
        assert!(spine.iter().all(|truth| !is_unknown(&ends, truth.center)));
        assert!(row_ends(&spine[..2]).is_empty());
        let heap = [[0.0; 3], [40.0, 5.0, 0.0], [10.0, 45.0, 0.0], [60.0, 60.0, 30.0]].map(pose);
        assert!(row_ends(&heap).is_empty());
        // A row with a gap of one.
        assert!(row_ends(&[0.0, 1.0, 2.0, 4.0].map(level)).is_empty());
    }

    #[test]
    fn sameness_follows_the_shape() {
        let rib = Pose { size_mm: [10.0, 10.0, 100.0], ..pose([0.0; 3]) };
        assert!(is_same_instance(&rib, PointLps::new(0.0, 0.0, 35.0)));
        assert!(!is_same_instance(&rib, PointLps::new(8.0, 0.0, 0.0)));
    }

    #[test]
    fn boxes_overlap_as_they_should() {
        let a = pose([0.0; 3]);
        assert!((intersection_over_union(&a, &a) - 1.0).abs() < 1e-12);
        // Half of it along one axis: 1/2 over 3/2.
        let half = pose([15.0, 0.0, 0.0]);
        assert!((intersection_over_union(&a, &half) - 1.0 / 3.0).abs() < 1e-9);
        let turn = |angle| rotation_from_vector([0.0, 0.0, angle].into());
        let cube = |angle| Pose { orientation: turn(angle), size_mm: [30.0; 3], ..a };
        // A square turned by 45 degrees over itself shares 2 (√2 − 1) of it.
        let shared = 2.0 * (2f64.sqrt() - 1.0);
        let iou = intersection_over_union(&cube(0.0), &cube(core::f64::consts::FRAC_PI_4));
        assert!((iou - shared / (2.0 - shared)).abs() < 0.05, "{iou}");
        assert_eq!(intersection_over_union(&a, &pose([99.0, 0.0, 0.0])), 0.0);
    }
}
