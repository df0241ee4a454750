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
use pbt_volume::Pose;

/// Context: a cube of this edge, in D, with so many points along it: what lies beyond the chain is
/// seen, at a third of D.
const EXTENT: f64 = 3.6;
pub(super) const POINTS: u8 = 13;

/// Ridge penalty: contexts differ far more from case to case than they say about levels. By
/// cross-validation among the training spines: the log loss of the level falls as the penalty does,
/// from 8 over 2 and 0.5 to 0.15, where it hardly changes any more.
const RIDGE: f64 = 0.5;

/// Jittered copies of each shifted chain, shared with the copies of a case; the right one has as
/// many as all shifted ones together.
const COPIES: usize = 8;

/// Jitter of 0.4 of this as standard deviation: what the refinement leaves on cases that it has not
/// seen.
pub(super) const JITTER: Reach = Reach { angle_rad: 0.17, center_mm: 0.12, log_size: 0.0 };

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
pub(crate) fn train<'d, B: Backend, D: TrainingData>(
    backend: &B,
    (data, pyramids): (&D, &Pyramids),
    network: &Network,
    structures: &[Annotated],
    representatives: &[usize],
    detector: &dyn Fn(usize) -> Option<ChainDetector<'d>>,
    seeds: Seeds,
) -> Result<Vec<LevelShiftTest>, D::Error> {
    let mut tests = Vec::new();
    for members in chains(network, representatives) {
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
            poses: whole.iter().map(|(_, poses)| poses.as_slice()).collect(),
            each: (COPIES * subjects.originals() / whole.len()).max(1),
            subjects,
        };
        let spec = LevelShiftSpec::new(members, (EXTENT, POINTS), working, detector.scale_mm);
        tests.push(chain.train(spec, seeds)?);
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
        let (mut right, mut cases) = (Vec::new(), Vec::new());
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
                    right.push(first == SHIFTS);
                    cases.push(n);
                }
            }
        }
        Ok(Samples { seen: spec.see(self.backend, &self.images, &sites)?, right, cases })
    }
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
        RegressionProblem::new(seen, spec.len(), &[targets]).solve(RIDGE)
    }
}
