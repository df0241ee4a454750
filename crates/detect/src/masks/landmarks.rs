//! Landmarks where the labels say that they are.
//!
//! Many landmarks are defined by a segmentation: a centroid, a tip, the middle of a border. A linear
//! map of the ways from where the landmark was found to [places] that the labels tell leads to where
//! it is. It is learned where cases are held out, by the labels and by the search, so that it trusts
//! each as far as it can be trusted (stacked regression: Breiman 1996). Which places it looks at is
//! settled by the true labels, as drawn by whoever marked the landmarks: there a place that defines a
//! landmark shows.

use crate::data::folds::Folds;
use crate::masks::moments::UNITS;
use crate::masks::places::{LabelledVoxels, Place};
use nalgebra::Vector3;
use pbt_linear::{LinearMap, RegressionProblem};
use pbt_volume::{PointLps, Pose};

/// Penalties that are tried, as shares of the mean variance of a number.
const RIDGES: [f64; 6] = [1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0];

/// Shares of the way to a place that are tried before the map: few cases cannot tell a map that a
/// landmark is there, or halfway.
const LEANS: [f64; 3] = [0.0, 0.5, 1.0];

/// Fewest cases to learn from, and fewest to learn a map from. With eight or ten, maps made some
/// landmarks of the hippocampus worse in other cases, and going to a place did not
/// (docs/experiments/landmarks.md).
const FEWEST: usize = 6;
const FEWEST_FOR_A_MAP: usize = 20;

/// Labels have their say where that leaves less than this of the mean error.
const WORTH: f64 = 0.95;

/// Another place is looked at where that leaves less than this of it.
const WORTH_MORE: f64 = 0.98;

/// Most places for a landmark, and most that are looked at.
const MOST_PLACES: usize = 6;
const SHORTLIST: usize = 10;

/// Where true labels tell a landmark to this share of the error of the search, they define it. With
/// few cases it then goes all of the way, unless held-out landmarks come out so much worse: they say
/// little against it, since their labels are those of still fewer cases.
const DEFINES: f64 = 0.25;
const CLEARLY_WORSE: f64 = 1.5;

/// Landmarks that are found farther off than so many times the median are of something else, or
/// wrongly annotated: they say nothing.
const FAR: f64 = 4.0;

/// Moves a landmark.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledLandmark {
    /// Its place among the landmarks of its structure.
    pub landmark: usize,
    /// The places that tell where it is.
    pub places: Vec<Place>,
    /// This share of the way to the first of them is gone at any rate.
    pub lean: f64,
    /// From the ways to these places to the rest of the way to the landmark, all along the axes of
    /// the frame in edges of the box.
    pub map: LinearMap<i32>,
}

/// What labels say of places in their frame.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    frame: Pose,
    /// In edges of the box.
    places: Vec<[f64; 3]>,
}

impl Said {
    /// `voxels` are those of the grid about the frame.
    pub(crate) fn new(frame: Pose, voxels: &LabelledVoxels, places: &[Place]) -> Self {
        Self { frame, places: places.iter().map(|place| voxels.place(place)).collect() }
    }

    /// A point in edges of the box.
    fn in_edges(&self, point: PointLps) -> [f64; 3] {
        let mm = self.frame.orientation.inverse() * (point.0 - self.frame.center.0);
        [0, 1, 2].map(|a| mm[a] / self.frame.size_mm[a])
    }

    /// The ways from a landmark to these places.
    fn ways(&self, found: PointLps, places: &[usize]) -> Vec<i16> {
        let found = self.in_edges(found);
        let way = |&n: &usize| {
            [0, 1, 2].map(|a| {
                let units = (self.places[n][a] - found[a]) * UNITS;
                libm::round(units.clamp(-4095.0, 4095.0)) as i16
            })
        };
        places.iter().flat_map(way).collect()
    }

    /// Where a landmark is moved that was found here.
    fn moved(
        &self,
        found: PointLps,
        places: &[usize],
        lean: f64,
        map: &LinearMap<i32>,
    ) -> PointLps {
        let ways = self.ways(found, places);
        let rest = map.apply(&ways);
        let mm = Vector3::from_fn(|a, _| {
            let way = lean * f64::from(ways[a]) / UNITS + rest[a];
            way.clamp(-0.5, 0.5) * self.frame.size_mm[a]
        });
        PointLps(found.0 + self.frame.orientation * mm)
    }
}

impl LabelledLandmark {
    /// The landmark that was found here, where labels and search together put it.
    pub(crate) fn place(&self, frame: Pose, voxels: &LabelledVoxels, found: PointLps) -> PointLps {
        let all: Vec<usize> = (0..self.places.len()).collect();
        Said::new(frame, voxels, &self.places).moved(found, &all, self.lean, &self.map)
    }

    /// Learns from held-out cases, of which `places` are told. With the map come the places of all
    /// cases, by maps that have not seen the subject. `None` where the labels do not bring the
    /// landmark nearer.
    pub(crate) fn train(
        landmark: usize,
        places: &[Place],
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
        let few = known.len() < FEWEST_FOR_A_MAP;
        let ridges: Vec<Option<f64>> = if few { vec![None] } else { RIDGES.map(Some).to_vec() };
        let mut shortlist = shortlist(&known, places.len());
        let trial = Trial { cases, known, folds, far };
        let mut left = trial.error(|c| c.found);
        let (mut leans, mut worth) = (&LEANS[..], WORTH);
        if few && shortlist[0].1 < DEFINES * left {
            shortlist.truncate(1);
            (leans, worth) = (&[1.0], CLEARLY_WORSE);
        }
        let mut best: Option<Fit> = None;
        // One place after the other, each the one that helps most.
        for worth in [worth].into_iter().chain([WORTH_MORE; MOST_PLACES - 1]) {
            let chosen = best.as_ref().map_or(&[][..], |fit| &fit.places);
            let others = shortlist.iter().map(|&(n, _)| n).filter(|n| !chosen.contains(n));
            let more = others.flat_map(|n| {
                let places: Vec<usize> = chosen.iter().copied().chain([n]).collect();
                let lean = best.as_ref().map(|fit| fit.lean);
                let leans =
                    leans.iter().copied().filter(move |&l| lean.is_none_or(|lean| lean == l));
                let ridges = &ridges;
                leans.flat_map(move |lean| {
                    let places = places.clone();
                    ridges.iter().map(move |&ridge| (places.clone(), lean, ridge))
                })
            });
            let fits = more.filter_map(|(places, lean, ridge)| trial.fit(places, lean, ridge));
            let next = fits.min_by(|a, b| a.error.total_cmp(&b.error));
            let Some(next) = next.filter(|next| next.error < worth * left) else { break };
            left = next.error;
            best = Some(next);
        }
        let Fit { places: chosen, lean, ridge, moved, .. } = best?;
        let map = trial.map(&chosen, lean, ridge, |_| true)?;
        let places = chosen.iter().map(|&n| places[n]).collect();
        Some((Self { landmark, places, lean, map }, moved))
    }
}

/// The places that tell most, by the true labels: those nearest to the landmark or, where a map can
/// learn which way it lies from them, those from which it always lies alike. With each comes the sum over the cases of how far off it is, mm.
fn shortlist(known: &[&HeldOutLandmark<'_>], places: usize) -> Vec<(usize, f64)> {
    let for_a_map = known.len() >= FEWEST_FOR_A_MAP;
    let left_mm = |n: usize| {
        let way = |c: &&HeldOutLandmark<'_>| {
            let truth = c.truly.in_edges(c.truth);
            Vector3::from_fn(|a, _| (truth[a] - c.truly.places[n][a]) * c.truly.frame.size_mm[a])
        };
        let ways: Vec<Vector3<f64>> = known.iter().map(way).collect();
        let mean = ways.iter().sum::<Vector3<f64>>() / ways.len() as f64;
        let from = if for_a_map { mean } else { Vector3::zeros() };
        ways.iter().map(|way| (way - from).norm()).sum::<f64>()
    };
    let mut order: Vec<(usize, f64)> = (0..places).map(|n| (n, left_mm(n))).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    order.truncate(SHORTLIST);
    order
}

/// A landmark in a case that was held out.
pub(crate) struct HeldOutLandmark<'a> {
    pub(crate) subject: usize,
    pub(crate) said: &'a Said,
    /// What the true labels say of the same places.
    pub(crate) truly: &'a Said,
    /// Where the search put it.
    pub(crate) found: PointLps,
    /// Where it is.
    pub(crate) truth: PointLps,
}

impl HeldOutLandmark<'_> {
    fn off_mm(&self) -> f64 {
        self.found.distance_mm(&self.truth)
    }
}

/// Maps that are tried.
struct Trial<'a> {
    cases: &'a [HeldOutLandmark<'a>],
    /// Those that say something.
    known: Vec<&'a HeldOutLandmark<'a>>,
    folds: Folds,
    far: f64,
}

/// A map, as held-out cases see it.
struct Fit {
    places: Vec<usize>,
    lean: f64,
    /// None without a map.
    ridge: Option<f64>,
    /// Where it puts the landmark in all cases.
    moved: Vec<PointLps>,
    /// Sum over the cases that say something, mm.
    error: f64,
}

impl Trial<'_> {
    fn map(
        &self,
        places: &[usize],
        lean: f64,
        ridge: Option<f64>,
        keeps: impl Fn(usize) -> bool,
    ) -> Option<LinearMap<i32>> {
        let kept: Vec<_> = self.known.iter().filter(|c| keeps(c.subject)).collect();
        if kept.is_empty() {
            return None;
        }
        let length = 3 * places.len();
        let Some(ridge) = ridge else { return Some(LinearMap::zero(length, 3)) };
        let rows: Vec<i16> = kept.iter().flat_map(|c| c.said.ways(c.found, places)).collect();
        let rest = |(c, row): (&&&HeldOutLandmark<'_>, &[i16]), a: usize| {
            let way = c.said.in_edges(c.truth)[a] - c.said.in_edges(c.found)[a];
            way - lean * f64::from(row[a]) / UNITS
        };
        let cases = || kept.iter().zip(rows.chunks_exact(length));
        let targets: Vec<Vec<f64>> =
            (0..3).map(|a| cases().map(|case| rest(case, a)).collect()).collect();
        Some(RegressionProblem::new(rows, length, &targets).solve(ridge))
    }

    fn fit(&self, places: Vec<usize>, lean: f64, ridge: Option<f64>) -> Option<Fit> {
        let parts = 0..self.folds.count();
        let maps: Option<Vec<LinearMap<i32>>> = parts
            .map(|part| self.map(&places, lean, ridge, |s| !self.folds.holds_out(part, s)))
            .collect();
        let maps = maps?;
        let moved = |c: &HeldOutLandmark<'_>| {
            let part = (0..maps.len()).find(|&part| self.folds.holds_out(part, c.subject));
            c.said.moved(c.found, &places, lean, &maps[part.unwrap_or(0)])
        };
        let error = self.error(moved);
        Some(Fit { moved: self.cases.iter().map(moved).collect(), places, lean, ridge, error })
    }

    fn error(&self, place: impl Fn(&HeldOutLandmark<'_>) -> PointLps) -> f64 {
        let counts = self.cases.iter().filter(|c| c.off_mm() <= self.far);
        counts.map(|c| place(c).distance_mm(&c.truth)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::masks::frame::FrameGrid;
    use crate::random::Seeds;
    use nalgebra::UnitQuaternion;
    use pbt_volume::Random;

    const GRID: FrameGrid = FrameGrid { shape: [20; 3], voxel_mm: 1.0 };

    fn frame() -> Pose {
        Pose {
            center: PointLps::new(100.0, -30.0, 7.0),
            orientation: UnitQuaternion::identity(),
            size_mm: [20.0; 3],
        }
    }

    /// A ball of radius 5 about a place, in a box of 20 mm.
    fn voxels(center: [f64; 3]) -> LabelledVoxels {
        let inside = |n: usize| {
            let at = [n % 20, n / 20 % 20, n / 400];
            let mm = (0..3).map(|a| GRID.place(a, at[a]) * 20.0 - center[a]);
            mm.map(|d| d * d).sum::<f64>() < 25.0
        };
        let classes: Vec<u8> = (0..GRID.len()).map(|n| u8::from(inside(n))).collect();
        LabelledVoxels::of_classes((&GRID, &frame()), &classes, 1)
    }

    fn ball(center: [f64; 3]) -> Said {
        Said::new(frame(), &voxels(center), &Place::all(1))
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
        let of = |(subject, (said, &(found, truth)))| HeldOutLandmark {
            subject,
            said,
            truly: said,
            found,
            truth,
        };
        said.iter().zip(points).enumerate().map(of).collect()
    }

    #[test]
    fn a_landmark_that_labels_determine_is_put_there() {
        let (said, points) = cases();
        let cases = held_out(&said, &points);
        let (landmark, places) =
            LabelledLandmark::train(3, &Place::all(1), &cases, Folds::new(40)).unwrap();
        assert_eq!(landmark.landmark, 3);
        let mean = |off: &mut dyn Iterator<Item = f64>| off.sum::<f64>() / 40.0;
        let before = mean(&mut cases.iter().map(HeldOutLandmark::off_mm));
        let after = mean(&mut places.iter().zip(&points).map(|(p, (_, t))| p.distance_mm(t)));
        assert!(before > 2.5 && after < 0.6, "{before} {after}");
        // One that it has never seen.
        let found = landmark.place(frame(), &voxels([2.0, -1.0, 0.5]), at([0.0; 3]));
        assert!(found.distance_mm(&at([2.0, -5.0, 0.5])) < 0.8);
    }

    /// Eight cases choose a place, here the ball itself, and learn no map.
    #[test]
    fn few_cases_choose_a_place() {
        let (said, points) = cases();
        let below: Vec<(PointLps, PointLps)> =
            points.iter().map(|(found, truth)| (*found, truth.moved([0.0, 4.0, 0.0]))).collect();
        let cases = held_out(&said, &below);
        let (landmark, _) =
            LabelledLandmark::train(0, &Place::all(1), &cases[..8], Folds::new(8)).unwrap();
        assert_eq!((landmark.places, landmark.lean), (vec![Place::Centroid { of: None }], 1.0));
        assert_eq!(landmark.map, LinearMap::zero(3, 3));
        assert!(LabelledLandmark::train(0, &Place::all(1), &cases[..5], Folds::new(5)).is_none());
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
        assert!(LabelledLandmark::train(0, &Place::all(1), &cases, Folds::new(40)).is_none());
        assert!(LabelledLandmark::train(0, &Place::all(1), &cases[..10], Folds::new(10)).is_none());
        assert!(LabelledLandmark::train(0, &Place::all(1), &cases[..5], Folds::new(5)).is_none());
    }
}
