//! Where a box lies by the landmarks that were found in it.

use nalgebra::{Matrix3, Vector3};
use pbt_volume::{PointLps, Pose};

/// Steps of Newton's iteration for the polar decomposition. Each doubles the digits that are right.
const POLAR_STEPS: usize = 12;

/// The box moved, turned and scaled so that landmarks at these mean positions, as shares of its edges,
/// come as near as they can to where they were found: least squares (Umeyama 1991, section 3).
///
/// The box counts as one more landmark, spread over the centres of its faces, which were found where
/// they are: a single landmark moves the box by half its own way, and landmarks in a line do not turn it
/// about that line. Where the points are so far off that a mirrored box would fit better, it stays.
pub(super) fn refitted(frame: &Pose, means: &[[f64; 3]], points: &[PointLps]) -> Pose {
    let inside = |point: &PointLps| frame.orientation.inverse() * (point.0 - frame.center.0);
    let share = |mean: &[f64; 3]| Vector3::from_fn(|a, _| mean[a] * frame.size_mm[a]);
    let found = means.iter().zip(points).map(|(mean, point)| (share(mean), inside(point), 1.0));
    let faces = (0..6).map(|n| {
        let face = Vector3::ith(n / 2, if n % 2 == 0 { 0.5 } else { -0.5 } * frame.size_mm[n / 2]);
        (face, face, 1.0 / 6.0)
    });
    let pairs: Vec<(Vector3<f64>, Vector3<f64>, f64)> = found.chain(faces).collect();
    let total: f64 = pairs.iter().map(|pair| pair.2).sum();
    let from = pairs.iter().map(|(from, _, weight)| from * *weight).sum::<Vector3<f64>>() / total;
    let to = pairs.iter().map(|(_, to, weight)| to * *weight).sum::<Vector3<f64>>() / total;
    let covariance: Matrix3<f64> =
        pairs.iter().map(|(a, b, weight)| (b - to) * (a - from).transpose() * *weight).sum();
    let variance: f64 = pairs.iter().map(|(a, _, weight)| weight * (a - from).norm_squared()).sum();
    let Some(rotation) = nearest_rotation(covariance) else { return *frame };
    let scale = (rotation.transpose() * covariance).trace() / variance;
    let moved = Pose::from_axes(
        PointLps(frame.center.0 + frame.orientation * (to - rotation * from * scale)),
        &(frame.axes() * rotation),
        frame.size_mm.map(|mm| mm * scale),
    );
    moved.filter(|_| scale > 0.0).unwrap_or(*frame)
}

/// The rotation R with the largest tr(Rᵀ B), the orthogonal factor of B (Higham 1986); by plain
/// arithmetic, so that it has the same bits everywhere. `None` where that factor is a reflection.
fn nearest_rotation(b: Matrix3<f64>) -> Option<Matrix3<f64>> {
    let mut matrix = b / b.norm();
    for _ in 0..POLAR_STEPS {
        matrix = (matrix + matrix.try_inverse()?.transpose()) * 0.5;
    }
    (matrix.determinant() > 0.0).then_some(matrix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::landmarks::stage::expected;
    use proptest::prelude::*;

    const MEANS: [[f64; 3]; 7] = [
        [0.3, 0.1, -0.4],
        [-0.4, 0.2, 0.1],
        [0.1, -0.5, 0.3],
        [0.0, 0.4, 0.2],
        [0.45, -0.1, 0.05],
        [-0.2, -0.3, -0.3],
        [-0.25, 0.2, 0.1],
    ];

    fn pose(turn: [f64; 3], center: [f64; 3], scale: f64) -> Pose {
        Pose {
            center: PointLps(center.into()),
            orientation: pbt_volume::rotation_from_vector(turn.into()),
            size_mm: [40.0, 25.0, 30.0].map(|mm| mm * scale),
        }
    }

    fn distance(a: &Pose, b: &Pose) -> f64 {
        let corner = |pose: &Pose, mean| expected(pose, mean);
        [[0.5; 3], [-0.5, 0.5, 0.5], [0.5, -0.5, -0.5]]
            .map(|c| corner(a, c).distance_mm(&corner(b, c)))
            .into_iter()
            .fold(0.0, f64::max)
    }

    proptest! {
        /// Landmarks of a box that lies elsewhere draw it there, but for the one that the box is.
        #[test]
        fn the_box_goes_where_its_landmarks_lie(
            turn in prop::array::uniform3(-0.3f64..0.3),
            off in prop::array::uniform3(-6.0f64..6.0),
            scale in 0.8f64..1.25,
            start in prop::array::uniform3(-2.0f64..2.0),
        ) {
            let frame = pose(start, [3.0, -20.0, 100.0], 1.0);
            let step = Vector3::from(off);
            let truth = Pose {
                center: PointLps(frame.center.0 + step),
                orientation: frame.orientation * pbt_volume::rotation_from_vector(turn.into()),
                size_mm: frame.size_mm.map(|mm| mm * scale),
            };
            let points = MEANS.map(|mean| expected(&truth, mean));
            let mut moved = frame;
            // The box is believed again in each round, so that it comes nearer round by round.
            let before = distance(&frame, &truth);
            for _ in 0..30 {
                moved = refitted(&moved, &MEANS, &points);
            }
            prop_assert!(distance(&moved, &truth) < 1e-6 * before.max(1.0), "{moved:?} {truth:?}");
            let once = refitted(&frame, &MEANS, &points);
            prop_assert!(distance(&once, &truth) < 0.45 * before + 1e-9);
        }
    }

    #[test]
    fn one_landmark_moves_the_box_by_half_its_way_and_turns_nothing() {
        let frame = pose([0.4, -0.2, 0.1], [0.0; 3], 1.0);
        let step = Vector3::new(1.0, 2.0, -3.0);
        let point = PointLps(expected(&frame, [0.0; 3]).0 + step);
        let moved = refitted(&frame, &[[0.0; 3]], &[point]);
        assert!((moved.center.0 - frame.center.0 - step / 2.0).norm() < 1e-12);
        assert!(moved.angle_to(&frame) < 1e-7);
        assert!((moved.size_mm[0] - frame.size_mm[0]).abs() < 1e-9);
        assert_eq!(refitted(&frame, &[], &[]).center, frame.center);
    }

    /// Five centres of vertebrae, two of them slightly off: the spine turns with them in their plane,
    /// not about its own length.
    #[test]
    fn landmarks_in_a_line_do_not_turn_the_box_about_it() {
        let frame = Pose { size_mm: [50.0, 40.0, 180.0], ..pose([0.0; 3], [0.0; 3], 1.0) };
        let means = [-0.4, -0.2, 0.0, 0.2, 0.4].map(|z| [0.0, 0.01 * z, z]);
        let mut points = means.map(|mean| expected(&frame, mean));
        points[1].0.x += 3.0;
        points[3].0.y -= 3.0;
        let moved = refitted(&frame, &means, &points);
        let turn = (frame.orientation.inverse() * moved.orientation).scaled_axis();
        assert!(turn.z.abs() < 0.01 && turn.norm() < 0.03, "{turn}");
    }

    #[test]
    fn mirrored_landmarks_leave_the_box_where_it_is() {
        let frame = pose([0.0; 3], [0.0; 3], 1.0);
        let far = MEANS.map(|[x, y, z]| expected(&frame, [-9.0 * x, 9.0 * y, 9.0 * z]));
        assert_eq!(refitted(&frame, &MEANS, &far), frame);
    }
}
