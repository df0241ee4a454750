//! Rows of instances, such as vertebrae: where the next one of a structure that occurs several times
//! is expected.

use crate::log_odds::SUREST;
use crate::network::arc::Arc;
use crate::network::choice::ANYWHERE;
use pbt_evaluate::row;
use pbt_volume::Pose;
use serde::{Deserialize, Serialize};

/// From an instance to the next one of its row. Part of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Where the next instance lies; from and to the model's only structure.
    pub next: Arc,
    /// Mean size of an instance, mm.
    pub size_mm: [f64; 3],
}

/// The instances of at least this share of the images stand in a row.
const MOSTLY: f64 = 0.8;

impl Row {
    /// Learns from the instances of each image; `size_mm` is their mean size. `None` where they
    /// stand in no row.
    pub(crate) fn train(images: &[Vec<Pose>], size_mm: [f64; 3]) -> Option<Self> {
        let rows: Vec<Vec<&Pose>> = images.iter().filter_map(|poses| row(poses)).collect();
        if (rows.len() as f64) < MOSTLY * images.len() as f64 {
            return None;
        }
        let mut pairs: Vec<[&Pose; 2]> =
            rows.iter().flat_map(|row| row.windows(2).map(|pair| [pair[0], pair[1]])).collect();
        // All from the same end: along the axis of the box that the row follows.
        let shift = |[a, b]: &[&Pose; 2]| a.orientation.inverse() * (b.center.0 - a.center.0);
        let along = |axis: usize| pairs.iter().map(|pair| shift(pair)[axis].abs()).sum::<f64>();
        let axis = (0..3).max_by(|&a, &b| along(a).total_cmp(&along(b)))?;
        for pair in &mut pairs {
            if shift(pair)[axis] < 0.0 {
                pair.reverse();
            }
        }
        let scale_mm = libm::cbrt(size_mm.iter().product());
        let steps = pairs.into_iter().map(|[a, b]| (a, b));
        let (next, _) = Arc::train([0, 0], steps, scale_mm)?;
        Some(Self { next, size_mm })
    }

    /// Where the neighbours of an instance are expected.
    pub(crate) fn beside(&self, pose: &Pose) -> [Pose; 2] {
        [self.next.forth(pose, self.size_mm), self.next.back(pose, self.size_mm)]
    }

    /// Log of how much likelier the place of an instance is by where others lie than anywhere near:
    /// by the one that fits best, before or behind it.
    pub(crate) fn support<'a>(&self, pose: &Pose, others: impl Iterator<Item = &'a Pose>) -> f64 {
        let scale_mm = libm::cbrt(self.size_mm.iter().product());
        let anywhere = self.next.shift_mm.log_peak() + 3.0 * libm::log(ANYWHERE * scale_mm);
        let fit = |other: &Pose| {
            self.next.log_density(pose, other).max(self.next.log_density(other, pose))
        };
        let best = others.map(fit).fold(f64::NEG_INFINITY, f64::max);
        (best + anywhere).clamp(-SUREST, SUREST)
    }

    /// Whether a file's numbers make sense.
    pub(crate) fn is_valid(&self) -> bool {
        self.next.shift_mm.is_valid()
            && self.next.turn_rad.is_valid()
            && self.size_mm.iter().all(|mm| mm.is_finite() && *mm > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::test_random;
    use nalgebra::UnitQuaternion;
    use pbt_volume::PointLps;

    fn pose(x: f64, y: f64, z: f64) -> Pose {
        Pose {
            center: PointLps::new(x, y, z),
            orientation: UnitQuaternion::identity(),
            size_mm: [30.0, 35.0, 28.0],
        }
    }

    #[test]
    fn the_next_of_a_spine_is_expected_and_supported() {
        let mut random = test_random(7);
        let images: Vec<Vec<Pose>> = (0..8)
            .map(|n| {
                let mut poses: Vec<Pose> = (0..5)
                    .map(|level| pose(random.normal(), random.normal(), 35.0 * f64::from(level)))
                    .collect();
                // Whoever annotates may begin at either end.
                if n % 2 == 0 {
                    poses.reverse();
                }
                poses
            })
            .collect();
        let row = Row::train(&images, [30.0, 35.0, 28.0]).unwrap();
        assert!(row.is_valid());
        let at = pose(0.0, 0.0, 100.0);
        let mut beside = row.beside(&at).map(|pose| pose.center.0.z);
        beside.sort_by(f64::total_cmp);
        assert!((beside[0] - 65.0).abs() < 2.0 && (beside[1] - 135.0).abs() < 2.0, "{beside:?}");
        let support = |z: f64| row.support(&at, [pose(0.0, 0.0, z)].iter());
        // A neighbour where one belongs, one half a step away, and none.
        assert!(support(135.0) > 3.0 && support(65.0) > 3.0 && support(117.0) < 0.0);
        assert_eq!(row.support(&at, [].iter()), -SUREST);
    }

    #[test]
    fn heaps_are_no_rows() {
        let heap = vec![
            pose(0.0, 0.0, 0.0),
            pose(50.0, 9.0, 0.0),
            pose(9.0, 60.0, 5.0),
            pose(70.0, 66.0, 40.0),
        ];
        assert!(Row::train(&vec![heap; 8], [30.0; 3]).is_none());
    }
}
