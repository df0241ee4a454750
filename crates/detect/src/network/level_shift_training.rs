//! Training of the level shift test: true chains against the same chains with their names shifted.

use crate::DetectError;
use crate::data::folds::Folds;
use crate::data::pyramids::Pyramids;
use crate::data::training_data::{Annotated, Subjects, TrainingData};
use crate::network::graph::Network;
use crate::network::level_shift::{LevelShiftSpec, LevelShiftTest, SHIFTS, chains, ladder, raw};
use crate::pose::step::{Reach, perturbed_normally};
use crate::random::{Seeds, Stream};
use crate::refine::refinement::Refinement;
use crate::stages::platt_scaling::Calibration;
use crate::working::spec::WorkingSpec;
use pbt_linear::{LinearMap, RegressionProblem};
use pbt_tree::{Backend, ImageLayout, PoseSite};
use pbt_volume::{Geometry, Pose, Random};

/// Context: a cube of this edge, in D, with so many points along it: what lies beyond the chain is
/// seen, at a third of D.
const EXTENT: f64 = 3.6;
pub(super) const POINTS: u8 = 13;

/// Ridge penalty: contexts differ far more from case to case than they say about levels. By
/// cross-validation among the training spines: the log loss of the level falls as the penalty does,
/// from 8 over 2 and 0.5 to 0.15, where it hardly changes any more.
const RIDGE: f64 = 0.5;

/// The same of cut copies. In eight crops to 45 to 75 % of each of 32 spines, an eighth of them left out in
/// turn, the log loss is 0.39, 0.37, 0.35, 0.35 and 0.37 with 0.15, 0.5, 2, 8 and 32.
const RIDGE_OF_PARTS: f64 = 2.0;

/// Jittered copies of each shifted chain, shared with the copies of a case; the right one has as
/// many as all shifted ones together.
const COPIES: usize = 8;

/// Jitter of 0.4 of this as standard deviation: what the refinement leaves on cases that it has not
/// seen.
pub(super) const JITTER: Reach = Reach { angle_rad: 0.17, center_mm: 0.12, log_size: 0.0 };

/// Least share of the slices that a cut copy keeps.
const LEAST_VIEW: f64 = 0.4;

/// Fewest cases with all members of a chain.
pub(super) const FEWEST_CASES: usize = 6;

/// What the test needs of the detector of a chain's first member; the others have the same.
pub(crate) struct ChainDetector<'a> {
    pub(crate) refinement: &'a Refinement,
    pub(crate) working: &'a WorkingSpec,
    /// D, mm.
    pub(crate) scale_mm: f64,
}

/// The tests of all chains among the structures, one for each; `detector` is asked by structure.
///
/// # Errors
/// Whatever reading an image gives; [`DetectError::Device`] when the device fails.
pub(crate) fn train<'d, B: Backend, D: TrainingData + ?Sized>(
    backend: &B,
    (data, pyramids): (&D, &Pyramids),
    network: &Network,
    structures: &[Annotated],
    look_alikes: &[usize],
    detector: &dyn Fn(usize) -> Option<ChainDetector<'d>>,
    seeds: Seeds,
) -> Result<Vec<LevelShiftTest>, D::Error> {
    let mut tests = Vec::new();
    for members in chains(network, look_alikes) {
        let Some(detector) = detector(members[0]) else { continue };
        let working = detector.working;
        let pose = |s: usize, case: usize| {
            structures[s].1.iter().find(|(c, _)| *c == case).map(|&(_, pose)| pose)
        };
        let whole = |case: usize| {
            Some((case, members.iter().map(|&s| pose(s, case)).collect::<Option<Vec<Pose>>>()?))
        };
        let whole: Vec<(usize, Vec<Pose>)> = (0..data.list().len()).filter_map(whole).collect();
        let subjects = Subjects::new(data, &whole);
        if subjects.count() < FEWEST_CASES {
            continue;
        }
        let layout =
            ImageLayout { padding: working.padding, haar: None, channels: working.volumes() };
        let shown = whole.iter().map(|(case, _)| *case);
        let pyramids = pyramids.get_all(data, shown, working, || false)?;
        let images: Vec<B::Image> = whole
            .iter()
            .map(|(case, _)| Ok(backend.upload(pyramids[case].volumes(), &layout)?))
            .collect::<Result<_, DetectError>>()?;
        let chain = Chain {
            backend,
            network,
            refinement: detector.refinement,
            images: images.iter().collect(),
            geometries: whole.iter().map(|(case, _)| data.list().geometry(*case)).collect(),
            poses: whole.iter().map(|(_, poses)| poses.as_slice()).collect(),
            each: (COPIES * subjects.originals() / whole.len()).max(1),
            subjects,
        };
        let spec = LevelShiftSpec::new(members, (EXTENT, POINTS), working, detector.scale_mm);
        let of_parts = LevelShiftSpec { of_parts: true, ..spec.clone() };
        for spec in [spec, of_parts] {
            tests.push(chain.train(spec, seeds)?);
        }
    }
    Ok(tests)
}

/// The cases that have all members of a chain.
struct Chain<'a, B: Backend> {
    backend: &'a B,
    network: &'a Network,
    refinement: &'a Refinement,
    /// By case.
    images: Vec<&'a B::Image>,
    /// By case.
    geometries: Vec<&'a Geometry>,
    /// By case, one for each member.
    poses: Vec<&'a [Pose]>,
    subjects: Subjects,
    /// Jittered copies of each shifted chain and case.
    each: usize,
}

impl<B: Backend> Chain<'_, B> {
    fn train(&self, spec: LevelShiftSpec, seeds: Seeds) -> Result<LevelShiftTest, DetectError> {
        Ok(self.draw(&spec, seeds)?.learn(spec, &self.subjects))
    }

    fn draw(&self, spec: &LevelShiftSpec, seeds: Seeds) -> Result<Samples, DetectError> {
        let jitter = Reach { center_mm: JITTER.center_mm * spec.scale_mm, ..JITTER };
        let mut sites: Vec<PoseSite> = Vec::new();
        let (mut views, mut right, mut cases) = (Vec::new(), Vec::new(), Vec::new());
        for (n, (image, poses)) in self.images.iter().zip(&self.poses).enumerate() {
            let rungs =
                ladder(self.backend, *image, self.network, self.refinement, &spec.members, poses)?;
            let mut random = seeds.random(Stream::LevelShiftPoses, n);
            for first in 0..=2 * SHIFTS {
                let copies = if first == SHIFTS { 2 * SHIFTS * self.each } else { self.each };
                for _ in 0..copies {
                    let jittered: Vec<Pose> = rungs
                        .iter()
                        .map(|pose| perturbed_normally(pose, &jitter, &mut random))
                        .collect();
                    sites.extend(spec.sites(n as u32, &jittered, first));
                    if spec.of_parts {
                        views.push(cut_across(self.geometries[n], poses, &mut random));
                    }
                    right.push(first == SHIFTS);
                    cases.push(n);
                }
            }
        }
        let views = spec.of_parts.then_some(&views[..]);
        Ok(Samples { seen: spec.see(self.backend, &self.images, &sites, views)?, right, cases })
    }
}

/// A part of an image as it is left where a scan ends early: slices of the axis along which a chain
/// lies, from [`LEAST_VIEW`] of them to all.
fn cut_across(image: &Geometry, chain: &[Pose], random: &mut Random) -> Geometry {
    let along = chain[chain.len() - 1].center.0 - chain[0].center.0;
    let part = |a: usize| (image.matrix().column(a).dot(&along) / image.spacing_mm()[a]).abs();
    let axis = (1..3).fold(0, |best, a| if part(a) > part(best) { a } else { best });
    let mut shape = image.shape();
    let slices = shape[axis] as f64;
    let left = libm::ceil(random.between(LEAST_VIEW, 1.0) * slices).clamp(1.0, slices);
    let mut first = [0; 3];
    first[axis] = random.between(0.0, slices - left + 1.0).min(slices - left) as usize;
    shape[axis] = left as usize;
    image.part(first, shape)
}

/// What a chain looks like with right and with wrong names, case after case.
#[derive(Default)]
pub(super) struct Samples {
    pub(super) seen: Vec<i16>,
    pub(super) right: Vec<bool>,
    pub(super) cases: Vec<usize>,
}

impl Samples {
    /// The test, calibrated on cases of other subjects than those that it is learned from.
    pub(super) fn learn(&self, mut spec: LevelShiftSpec, subjects: &Subjects) -> LevelShiftTest {
        let folds = Folds::new(subjects.count());
        let held_out: Vec<(f64, bool)> = (0..folds.count())
            .flat_map(|fold| {
                let is_out = |case: usize| folds.holds_out(fold, subjects.subject(case));
                let map = self.fit(&spec, |case| !is_out(case));
                let judged = self.of(&spec, is_out);
                judged.map(|(values, right)| (raw(&map, values), right)).collect::<Vec<_>>()
            })
            .collect();
        spec.calibration = Calibration::fit(&held_out);
        let map = self.fit(&spec, |_| true);
        LevelShiftTest { spec, map }
    }

    /// The samples of some of the cases, each with whether its names are right.
    fn of<'a>(
        &'a self,
        spec: &LevelShiftSpec,
        wanted: impl Fn(usize) -> bool + 'a,
    ) -> impl Iterator<Item = (&'a [i16], bool)> {
        let all = self.seen.chunks_exact(spec.len()).zip(&self.right).zip(&self.cases);
        all.filter(move |&(_, &case)| wanted(case)).map(|((values, &right), _)| (values, right))
    }

    fn fit(&self, spec: &LevelShiftSpec, wanted: impl Fn(usize) -> bool + Copy) -> LinearMap<i16> {
        let seen: Vec<i16> =
            self.of(spec, wanted).flat_map(|(values, _)| values).copied().collect();
        let targets: Vec<f64> =
            self.of(spec, wanted).map(|(_, right)| if right { 0.5 } else { -0.5 }).collect();
        let ridge = if spec.of_parts { RIDGE_OF_PARTS } else { RIDGE };
        RegressionProblem::new(seen, spec.len(), &[targets]).solve(ridge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::test_random;
    use nalgebra::UnitQuaternion;
    use pbt_volume::PointLps;

    #[test]
    fn copies_are_cut_across_the_chain() {
        let image = Geometry::isotropic([30, 40, 50], 2.0).unwrap();
        let pose = |y: f64| Pose {
            center: PointLps::new(30.0, y, 52.0),
            orientation: UnitQuaternion::identity(),
            size_mm: [10.0; 3],
        };
        let chain = [pose(60.0), pose(40.0), pose(20.0)];
        let mut random = test_random(1);
        let cuts: Vec<Geometry> =
            (0..500).map(|_| cut_across(&image, &chain, &mut random)).collect();
        let mut shares: Vec<usize> = cuts.iter().map(|cut| cut.shape()[1]).collect();
        shares.sort_unstable();
        assert!(shares[0] >= 16 && shares[0] < 18 && shares[499] == 40, "{shares:?}");
        assert!(cuts.iter().all(|cut| cut.shape()[0] == 30 && cut.shape()[2] == 50));
        let is_at_an_end = |cut: &Geometry| {
            let first = image.to_index(cut.origin()).0.y;
            first == 0.0 || first as usize + cut.shape()[1] == 40
        };
        assert!(cuts.iter().any(|cut| !is_at_an_end(cut)) && cuts.iter().any(is_at_an_end));
    }
}
