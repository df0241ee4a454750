//! Training of the level test: true chains against the same chains with their names shifted.

use crate::DetectError;
use crate::data::training_data::{Annotated, TrainingData, groups};
use crate::linear::map::LinearMap;
use crate::model::Draft;
use crate::network::graph::Network;
use crate::network::level_shift::{LevelSpec, LevelTest, SHIFTS, chains, ladder, raw};
use crate::pose::step::{Reach, spread};
use crate::random::Random;
use crate::refine::refinement::Finish;
use crate::stages::calibration::Calibration;
use pbt_features::BoxGrid;
use pbt_tree::{Backend, ImageLayout, Patch, PoseSite};
use pbt_volume::{IntensityPolicy, Pose};
use rayon::prelude::*;

/// Context: a cube of this edge, in D, with so many points along it: what lies beyond the chain is
/// seen, at a third of D.
const EXTENT: f64 = 3.6;
const POINTS: u8 = 13;

/// Ridge penalty: contexts differ far more from case to case than they say about levels. By
/// cross-validation among the training spines: the log loss of the level falls as the penalty does,
/// from 8 over 2 and 0.5 to 0.15, where it hardly changes any more.
const RIDGE: f64 = 0.5;

/// Jittered copies of each shifted chain, shared with the copies of a case; the right one has as
/// many as all shifted ones together.
const COPIES: usize = 8;

/// Jitter of 0.4 of this as standard deviation: what the finish leaves on cases that it has not
/// seen.
const JITTER: Reach = Reach { angle: 0.17, center_mm: 0.12, log_size: 0.0 };

/// Fewest cases with all members of a chain.
const FEWEST_CASES: usize = 6;

/// Parts that the cases are divided into for calibration.
const FOLDS: usize = 4;

/// The tests of all chains among the structures, one for each.
///
/// # Errors
/// Whatever reading an image gives.
pub(crate) fn train<B: Backend, D: TrainingData>(
    backend: &B,
    data: &D,
    network: &Network,
    structures: &[Annotated],
    leaders: &[usize],
    drafts: &[Draft],
    seed: u64,
) -> Result<Vec<LevelTest>, D::Error> {
    let mut tests = Vec::new();
    for members in chains(network, leaders) {
        let draft = &drafts[members[0]];
        let (Some(finish), working) = (&draft.finish, &draft.working) else { continue };
        let pose = |s: usize, case: usize| {
            structures[s].1.iter().find(|(c, _)| *c == case).map(|&(_, pose)| pose)
        };
        let whole = |case: usize| {
            Some((case, members.iter().map(|&s| pose(s, case)).collect::<Option<Vec<Pose>>>()?))
        };
        let whole: Vec<(usize, Vec<Pose>)> = (0..data.cases().len()).filter_map(whole).collect();
        let layout = ImageLayout {
            padding: working.padding,
            haar: None,
            channels: (0..working.levels).collect(),
        };
        let pyramids = whole
            .par_iter()
            .map(|&(case, _)| {
                let image = data.image(case)?;
                Ok(working.pyramid(&image).map_err(|e| {
                    DetectError::training(format!("case {}", data.cases()[case]), e.to_string())
                })?)
            })
            .collect::<Result<Vec<_>, D::Error>>()?;
        let images: Vec<B::Image> =
            pyramids.iter().map(|pyramid| backend.upload(pyramid.levels(), &layout)).collect();
        let cases: Vec<ChainCase<'_, B>> = images
            .iter()
            .zip(&whole)
            .zip(groups(data, &whole))
            .map(|((image, (_, poses)), group)| ChainCase { image, poses: poses.clone(), group })
            .collect();
        let normalise = !matches!(working.intensity, IntensityPolicy::Window { .. });
        let view = (draft.prior.scale_mm, working.levels - 1, normalise);
        tests.extend(LevelTest::train(backend, network, finish, members, &cases, view, seed));
    }
    Ok(tests)
}

/// A case with all members of a chain.
pub(crate) struct ChainCase<'a, B: Backend> {
    pub(crate) image: &'a B::Image,
    /// One for each member.
    pub(crate) poses: Vec<Pose>,
    /// Copies of a case have one number.
    pub(crate) group: usize,
}

fn groups_of<B: Backend>(cases: &[ChainCase<'_, B>]) -> usize {
    cases.iter().map(|case| case.group + 1).max().unwrap_or(0)
}

/// What a chain looks like with right and with shifted names, case after case.
struct Samples {
    seen: Vec<i16>,
    right: Vec<bool>,
    cases: Vec<usize>,
}

impl LevelTest {
    /// `None` with too few cases. `coarsest` is the coarsest level of the working pyramid.
    pub(crate) fn train<B: Backend>(
        backend: &B,
        network: &Network,
        finish: &Finish,
        members: Vec<usize>,
        cases: &[ChainCase<'_, B>],
        view: (f64, usize, bool),
        seed: u64,
    ) -> Option<Self> {
        let groups = groups_of(cases);
        if groups < FEWEST_CASES {
            return None;
        }
        let (scale_mm, coarsest, normalise) = view;
        let mut spec = LevelSpec {
            members,
            patch: Patch {
                grid: BoxGrid { points: [POINTS; 3], extent: [EXTENT; 3] },
                levels: vec![coarsest.min(usize::from(u8::MAX)) as u8],
                edges: true,
            },
            normalise,
            scale_mm,
            calibration: Calibration { slope: 1.0, intercept: 0.0 },
        };
        let samples = draw(backend, network, finish, &spec, cases, seed);
        let folds = groups.min(FOLDS);
        let held_out: Vec<(f64, bool)> = (0..folds)
            .flat_map(|fold| {
                let map = samples.fit(&spec, |case| cases[case].group % folds != fold);
                samples
                    .of(&spec, move |case| cases[case].group % folds == fold)
                    .map(move |(values, right)| (raw(&map, values), right))
                    .collect::<Vec<_>>()
            })
            .collect();
        spec.calibration = Calibration::fit(&held_out);
        let map = samples.fit(&spec, |_| true);
        Some(Self { spec, map })
    }
}

fn draw<B: Backend>(
    backend: &B,
    network: &Network,
    finish: &Finish,
    spec: &LevelSpec,
    cases: &[ChainCase<'_, B>],
    seed: u64,
) -> Samples {
    let jitter = Reach { center_mm: JITTER.center_mm * spec.scale_mm, ..JITTER };
    let mut sites: Vec<PoseSite> = Vec::new();
    let (mut right, mut numbers) = (Vec::new(), Vec::new());
    let each = (COPIES * groups_of(cases) / cases.len()).max(1);
    for (n, case) in cases.iter().enumerate() {
        let rungs = ladder(backend, case.image, network, finish, &spec.members, &case.poses);
        let mut random = Random::new(seed, 9, n as u64);
        for first in 0..=2 * SHIFTS {
            let copies = if first == SHIFTS { 2 * SHIFTS * each } else { each };
            for _ in 0..copies {
                let jittered: Vec<Pose> =
                    rungs.iter().map(|pose| spread(pose, &jitter, &mut random)).collect();
                sites.extend(spec.sites(n as u32, &jittered, first));
                right.push(first == SHIFTS);
                numbers.push(n);
            }
        }
    }
    let images: Vec<&B::Image> = cases.iter().map(|case| case.image).collect();
    Samples { seen: spec.see(backend, &images, &sites), right, cases: numbers }
}

impl Samples {
    /// The samples of some of the cases, each with whether its names are right.
    fn of<'a>(
        &'a self,
        spec: &LevelSpec,
        wanted: impl Fn(usize) -> bool + 'a,
    ) -> impl Iterator<Item = (&'a [i16], bool)> {
        let all = self.seen.chunks_exact(spec.len()).zip(&self.right).zip(&self.cases);
        all.filter(move |&(_, &case)| wanted(case)).map(|((values, &right), _)| (values, right))
    }

    fn fit(&self, spec: &LevelSpec, wanted: impl Fn(usize) -> bool + Copy) -> LinearMap {
        let seen: Vec<i16> =
            self.of(spec, wanted).flat_map(|(values, _)| values).copied().collect();
        let targets: Vec<f64> =
            self.of(spec, wanted).map(|(_, right)| if right { 0.5 } else { -0.5 }).collect();
        LinearMap::fit(&seen, spec.len(), &[targets], RIDGE)
    }
}
