//! Landmarks where the labels say that they are.
//!
//! Many landmarks are defined by a segmentation: a centroid, a tip, the middle of a border. A linear
//! map from where the labels lie, and where the landmark was found, leads from there to where it
//! is. It is learned where cases are held out, by the labels and by the search, so that it trusts
//! each as far as it can be trusted (stacked regression: Breiman 1996).

use crate::data::folds::Folds;
use crate::linear::map::{LinearMap, RegressionProblem};
use crate::masks::extremes::{self, extremes};
use crate::masks::frame::FrameGrid;
use crate::masks::moments::{self, UNITS, moments};
use pbt_volume::{PointLps, Pose};

/// Penalties that are tried, as shares of the mean variance of a number.
const RIDGES: [f64; 6] = [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0];

/// Fewest cases to learn from.
const FEWEST: usize = 6;

/// Labels have their say where that leaves less than this of the mean error.
const WORTH: f64 = 0.95;

/// Landmarks that are found farther off than so many times the median are of something else, or
/// wrongly annotated: they say nothing.
const FAR: f64 = 4.0;

/// Moves a landmark.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledLandmark {
    /// Its place among the landmarks of its structure.
    pub landmark: usize,
    /// Three numbers: the way to it along the axes of the frame, in edges of the box.
    pub map: LinearMap<i32>,
}

/// How many numbers a map has for so many labels.
pub(crate) fn count(labels: usize) -> usize {
    moments::count(labels) + extremes::count(labels) + 3
}

/// What labels say of places in their frame.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    frame: Pose,
    numbers: Vec<i16>,
}

impl Said {
    /// `shares` are the probabilities of the classes of each voxel of the grid about the frame.
    pub(crate) fn new(frame: Pose, grid: &FrameGrid, shares: &[u32], classes: usize) -> Self {
        let mut numbers = moments(grid, shares, classes);
        numbers.extend(extremes(grid, shares, classes).into_iter().map(number));
        Self { frame, numbers }
    }

    /// A place in edges of the box, from its middle.
    fn place(&self, point: PointLps) -> [f64; 3] {
        let mm = self.frame.orientation.inverse() * (point.0 - self.frame.center.0);
        [0, 1, 2].map(|a| mm[a] / self.frame.size_mm[a])
    }

    fn row(&self, found: PointLps) -> Vec<i16> {
        let found = self.place(found).map(number);
        self.numbers.iter().copied().chain(found).collect()
    }

    fn moved(&self, found: PointLps, way: &[f64]) -> PointLps {
        let mm = |a: usize| way[a].clamp(-0.5, 0.5) * self.frame.size_mm[a];
        PointLps(found.0 + self.frame.orientation * nalgebra::Vector3::new(mm(0), mm(1), mm(2)))
    }
}

fn number(edges: f64) -> i16 {
    libm::round((edges * UNITS).clamp(-4095.0, 4095.0)) as i16
}

impl LabelledLandmark {
    /// The landmark that was found here, where labels and search together put it.
    pub(crate) fn place(&self, said: &Said, found: PointLps) -> PointLps {
        said.moved(found, &self.map.apply(&said.row(found)))
    }

    /// Learns from held-out cases. With the map come the places of all cases, by maps that have not
    /// seen the subject. `None` where the labels do not bring the landmark nearer.
    pub(crate) fn train(
        landmark: usize,
        cases: &[HeldOutLandmark<'_>],
        folds: Folds,
    ) -> Option<(Self, Vec<PointLps>)> {
        let mut off: Vec<f64> = cases.iter().map(HeldOutLandmark::off_mm).collect();
        off.sort_by(f64::total_cmp);
        let far = FAR * off.get(off.len() / 2)?;
        let known: Vec<&HeldOutLandmark<'_>> = cases.iter().filter(|c| c.off_mm() <= far).collect();
        if known.len() < FEWEST || folds.count() < 2 {
            return None;
        }
        let fit = |keeps: &dyn Fn(usize) -> bool, ridge: f64| -> Option<LinearMap<i32>> {
            let kept: Vec<_> = known.iter().filter(|c| keeps(c.subject)).collect();
            let patches: Vec<i16> = kept.iter().flat_map(|c| c.said.row(c.found)).collect();
            let ways: Vec<[f64; 3]> = kept.iter().map(|c| c.way()).collect();
            let targets: Vec<Vec<f64>> =
                (0..3).map(|a| ways.iter().map(|way| way[a]).collect()).collect();
            let length = patches.len() / kept.len().max(1);
            (!kept.is_empty())
                .then(|| RegressionProblem::new(patches, length, &targets).solve(ridge))
        };
        let held_out = |ridge: f64| -> Option<Vec<PointLps>> {
            let maps: Option<Vec<LinearMap<i32>>> = (0..folds.count())
                .map(|part| fit(&|subject| !folds.holds_out(part, subject), ridge))
                .collect();
            let maps = maps?;
            let place = |c: &HeldOutLandmark<'_>| {
                let part = (0..maps.len()).find(|&part| folds.holds_out(part, c.subject));
                c.said.moved(c.found, &maps[part.unwrap_or(0)].apply(&c.said.row(c.found)))
            };
            Some(cases.iter().map(place).collect())
        };
        let error = |places: &[PointLps]| -> f64 {
            let off = cases.iter().zip(places).filter(|(c, _)| c.off_mm() <= far);
            off.map(|(c, place)| place.distance_mm(&c.truth)).sum()
        };
        let tried = RIDGES.iter().filter_map(|&ridge| {
            let places = held_out(ridge)?;
            Some((ridge, error(&places), places))
        });
        let (ridge, left, places) = tried.min_by(|a, b| a.1.total_cmp(&b.1))?;
        let before: f64 = known.iter().map(|c| c.off_mm()).sum();
        (left < WORTH * before).then_some(())?;
        Some((Self { landmark, map: fit(&|_| true, ridge)? }, places))
    }
}

/// A landmark in a case that was held out.
pub(crate) struct HeldOutLandmark<'a> {
    pub(crate) subject: usize,
    pub(crate) said: &'a Said,
    /// Where the search put it.
    pub(crate) found: PointLps,
    /// Where it is.
    pub(crate) truth: PointLps,
}

impl HeldOutLandmark<'_> {
    fn off_mm(&self) -> f64 {
        self.found.distance_mm(&self.truth)
    }

    /// From where it was found to where it is, in edges of the frame.
    fn way(&self) -> [f64; 3] {
        let (found, truth) = (self.said.place(self.found), self.said.place(self.truth));
        [0, 1, 2].map(|a| truth[a] - found[a])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seeds;
    use nalgebra::UnitQuaternion;
    use pbt_tree::LEAF_ONE;
    use pbt_volume::Random;

    const GRID: FrameGrid = FrameGrid { shape: [20; 3], voxel_mm: 1.0 };

    /// A ball of radius 5 about a place, in a box of 20 mm.
    fn ball(center: [f64; 3]) -> Said {
        let frame = Pose {
            center: PointLps::new(100.0, -30.0, 7.0),
            orientation: UnitQuaternion::identity(),
            size_mm: [20.0; 3],
        };
        let inside = |n: usize| {
            let at = [n % 20, n / 20 % 20, n / 400];
            let mm = (0..3).map(|a| GRID.place(a, at[a]) * 20.0 - center[a]);
            mm.map(|d| d * d).sum::<f64>() < 25.0
        };
        let shares: Vec<u32> = (0..GRID.len())
            .flat_map(|n| if inside(n) { [0, LEAF_ONE] } else { [LEAF_ONE, 0] })
            .collect();
        Said::new(frame, &GRID, &shares, 2)
    }

    fn spread(random: &mut Random, mm: f64) -> [f64; 3] {
        [0; 3].map(|_| mm * random.normal())
    }

    fn at([x, y, z]: [f64; 3]) -> PointLps {
        PointLps::new(100.0 + x, -30.0 + y, 7.0 + z)
    }

    /// Landmarks 4 mm below balls, found with errors of 2 mm.
    fn cases() -> (Vec<Said>, Vec<(PointLps, PointLps)>) {
        let random = &mut Seeds::of_all(7).random(crate::random::Stream::MaskFrames, 0);
        let mut said = Vec::new();
        let mut points = Vec::new();
        for _ in 0..40 {
            let center = spread(random, 1.5);
            let truth = at([center[0], center[1] - 4.0, center[2]]);
            let error = spread(random, 2.0);
            points.push((truth.moved(error), truth));
            said.push(ball(center));
        }
        (said, points)
    }

    trait Moved {
        fn moved(self, by: [f64; 3]) -> Self;
    }

    impl Moved for PointLps {
        fn moved(self, by: [f64; 3]) -> Self {
            Self(self.0 + nalgebra::Vector3::from(by))
        }
    }

    fn held_out<'a>(said: &'a [Said], points: &[(PointLps, PointLps)]) -> Vec<HeldOutLandmark<'a>> {
        let of =
            |(subject, (said, &(found, truth)))| HeldOutLandmark { subject, said, found, truth };
        said.iter().zip(points).enumerate().map(of).collect()
    }

    #[test]
    fn a_landmark_that_labels_determine_is_put_there() {
        let (said, points) = cases();
        let cases = held_out(&said, &points);
        let (landmark, places) = LabelledLandmark::train(3, &cases, Folds::new(40)).unwrap();
        assert_eq!(landmark.landmark, 3);
        let mean = |off: &mut dyn Iterator<Item = f64>| off.sum::<f64>() / 40.0;
        let before = mean(&mut cases.iter().map(HeldOutLandmark::off_mm));
        let after = mean(&mut places.iter().zip(&points).map(|(p, (_, t))| p.distance_mm(t)));
        assert!(before > 2.5 && after < 0.6, "{before} {after}");
        // One that it has never seen.
        let found = landmark.place(&ball([2.0, -1.0, 0.5]), at([0.0; 3]));
        assert!(found.distance_mm(&at([2.0, -5.0, 0.5])) < 0.8);
    }

    #[test]
    fn labels_that_say_nothing_have_no_say() {
        let (mut said, points) = cases();
        said.fill(ball([0.0; 3]));
        // What was found says nothing of its error either: it is drawn far from the middle.
        let random = &mut Seeds::of_all(8).random(crate::random::Stream::MaskFrames, 0);
        let points: Vec<(PointLps, PointLps)> = points
            .iter()
            .map(|&(found, truth)| {
                let far = spread(random, 6.0);
                (found.moved(far), truth.moved(far))
            })
            .collect();
        let cases = held_out(&said, &points);
        assert!(LabelledLandmark::train(0, &cases, Folds::new(40)).is_none());
        assert!(LabelledLandmark::train(0, &cases[..5], Folds::new(5)).is_none());
    }
}
