//! Training of landmarks: ridge regressions, and forests in a plane, in frames that are as wrong as
//! detection makes them.

use crate::DetectError;
use crate::config::landmarks::{
    LandmarkPatchConfig, LandmarkRegressorConfig, LandmarksConfig, MOST_HALVINGS, View,
};
use crate::config::range::within;
use crate::data::case::TrainingCase;
use crate::landmarks::annotated::AnnotatedLandmark;
use crate::landmarks::close_up::{CloseUp, MOST_BORDER};
use crate::landmarks::contradicted::{Contradicted, contradicted};
use crate::landmarks::frame_errors::FrameErrors;
use crate::landmarks::held_out_estimates::{Estimates, held_out_errors, independent, stacked};
use crate::landmarks::stacking;
use crate::landmarks::stage::{
    LandmarkGroup, LandmarkMap, LandmarkPrior, LandmarkRegressor, LandmarkRegressorSpec,
    LandmarkStage, RIGHT_WITHIN, expected, step_between,
};
use crate::pose::prior::Prior;
use crate::random::Stream;
use crate::refine::regressor::solved;
use crate::stages::input::StageInput;
use crate::stages::sampling::{grid_for, in_plane};
use nalgebra::Vector3;
use pbt_features::BoxGrid;
use pbt_linear::RegressionProblem;
use pbt_tree::{
    Backend, Patch, PoseSite, REGRESSION_LEAF, RegressionForest, RegressionForestParams,
};
use pbt_volume::Random;
use pbt_volume::{PointLps, Pose};
use std::collections::BTreeSet;

impl LandmarkStage {
    /// Trains all regressors, and sees how often landmarks come out right in cases that were left
    /// out. Annotations that regressors without their case contradict are not learned from; they
    /// are returned. `frames` are those of [`HeldOut::frames`](crate::refine::held_out_refinement::HeldOut::frames); every landmark has
    /// at least one case.
    pub(crate) fn train<B: Backend>(
        input: &StageInput<'_, B>,
        config: &LandmarksConfig,
        landmarks: &[AnnotatedLandmark],
        frames: &[Pose],
    ) -> Result<(Self, Vec<Contradicted>), DetectError> {
        let mut errors = held_out_errors(input, config, landmarks, frames)?;
        let judged = |errors: &[Vec<Option<Estimates>>]| {
            let weights = stacking::weights(
                &independent(input.cases, landmarks, errors),
                config.regressors(input.prior.flat).count() + 1,
            );
            let distance = |weights: &Vec<f64>, estimates: &Option<Estimates>| {
                Some(stacked(weights, estimates.as_ref()?).norm())
            };
            let of = |(errors, weights): (&Vec<_>, &Vec<f64>)| {
                errors.iter().map(|estimates| distance(weights, estimates)).collect()
            };
            let distances: Vec<Vec<Option<f64>>> = errors.iter().zip(&weights).map(of).collect();
            (weights, distances)
        };
        let contradicted = contradicted(landmarks, &judged(&errors).1);
        // How far regressors are from an annotation that is wrong says nothing of them.
        for c in &contradicted {
            let ((_, points), errors) = (&landmarks[c.landmark], &mut errors[c.landmark]);
            points
                .iter()
                .zip(errors)
                .filter(|((case, _), _)| *case == c.case)
                .for_each(|(_, estimates)| *estimates = None);
        }
        let (weights, distances) = judged(&errors);
        let believed =
            |l: usize, case: usize| contradicted.iter().all(|c| (c.landmark, c.case) != (l, case));
        let kept: Vec<AnnotatedLandmark> = landmarks
            .iter()
            .enumerate()
            .map(|(l, (name, points))| {
                (
                    name.clone(),
                    points.iter().copied().filter(|&(case, _)| believed(l, case)).collect(),
                )
            })
            .collect();
        let mut stage = Self::fit(input, config, landmarks, &kept, frames)?;
        for ((landmark, weights), distances) in
            stage.landmarks.iter_mut().zip(weights).zip(&distances)
        {
            // The rule of succession.
            let known = || distances.iter().flatten();
            let right = known().filter(|&&distance| distance <= RIGHT_WITHIN).count();
            landmark.right = (1 + right) as f64 / (2 + known().count()) as f64;
            landmark.stacking_weights = weights;
        }
        Ok((stage, contradicted))
    }

    /// `kept` is what is left of the landmarks' annotations without contradicted ones. Regressors
    /// that look at the whole box learn from all: one map serves all landmarks there only while
    /// they have the same cases.
    pub(super) fn fit<B: Backend>(
        input: &StageInput<'_, B>,
        config: &LandmarksConfig,
        landmarks: &[AnnotatedLandmark],
        kept: &[AnnotatedLandmark],
        frames: &[Pose],
    ) -> Result<Self, DetectError> {
        let errors = FrameErrors::new(input.cases, frames);
        let (priors, spread) = priors(input.cases, kept, frames);
        let regressors = config
            .regressors(input.prior.flat)
            .enumerate()
            .map(|(n, regressor)| {
                let spec = spec(regressor, input, spread);
                let samples = Sampler {
                    input,
                    config,
                    regressor,
                    spec: &spec,
                    errors: &errors,
                    priors: &priors,
                    spread,
                    number: n,
                };
                let groups = match regressor.view {
                    View::Box => alike(landmarks)
                        .into_iter()
                        .map(|group| samples.fit(landmarks, group))
                        .collect::<Result<_, _>>()?,
                    View::Point => (0..kept.len())
                        .map(|l| samples.fit(kept, vec![l]))
                        .collect::<Result<_, _>>()?,
                };
                Ok(LandmarkRegressor { spec, groups })
            })
            .collect::<Result<_, DetectError>>()?;
        Ok(Self { landmarks: priors, close_up: None, regressors })
    }
}

/// What the landmarks of a box must see of it in finer voxels than its own stages; none where those
/// are fine enough for every patch, or the images are no finer. `smallest_mm` is the smallest
/// spacing of the images.
pub(crate) fn close_up<B: Backend>(
    input: &StageInput<'_, B>,
    config: &LandmarksConfig,
    landmarks: &[AnnotatedLandmark],
    frames: &[Pose],
    smallest_mm: f64,
) -> Option<CloseUp> {
    let d = input.prior.scale_mm;
    let (priors, spread) = priors(input.cases, landmarks, frames);
    let patches = || {
        config.regressors(input.prior.flat).flat_map(|regressor| {
            regressor.patches.iter().map(move |patch| (regressor.view, patch))
        })
    };
    let voxel_mm = |(view, patch): (View, &LandmarkPatchConfig)| {
        patch
            .levels
            .iter()
            .map(|ratio| ratio * between_mm(view, patch, input.prior, spread))
            .fold(f64::INFINITY, f64::min)
    };
    let finest_mm = patches().map(voxel_mm).fold(f64::INFINITY, f64::min);
    // Rounding must not deny the images' own spacing.
    let offered = libm::log2(input.working.spacing_mm / smallest_mm + 0.01).floor();
    let asked = libm::round(libm::log2(input.working.spacing_mm / finest_mm));
    // Voxels finer than the images' own would take memory and show nothing more.
    let halvings =
        config.halvings.map_or(asked, f64::from).min(offered).clamp(0.0, f64::from(MOST_HALVINGS))
            as u8;
    // Where landmarks may lie beyond the box, and what is sampled about them.
    let beyond = |prior: &LandmarkPrior| {
        let excess = |a: usize| (prior.mean[a].abs() - 0.5) * input.prior.mean_size_mm[a] / d;
        (0..3).map(excess).fold(0.0, f64::max) + prior.farthest_d
    };
    let half = |(view, patch): (View, &LandmarkPatchConfig)| match view {
        View::Box => (patch.extent - 1.0) / 2.0,
        View::Point => patch.extent * spread / 2.0,
    };
    let border =
        priors.iter().map(beyond).fold(0.0, f64::max) + patches().map(half).fold(0.0, f64::max);
    (halvings > 0).then(|| CloseUp { halvings, border: border.min(MOST_BORDER) })
}

/// Landmarks of a shape that hardly varies are sought in patches of this size at least, in D.
const SMALLEST_SPREAD: f64 = 0.005;

/// The smallest patch of a model, in D.
const SMALLEST_EXTENT: f64 = 0.01;

/// Mean positions, and the root mean square over all landmarks of the distances from them in D: the
/// unit of regressors.
fn priors(
    cases: &[TrainingCase],
    landmarks: &[AnnotatedLandmark],
    frames: &[Pose],
) -> (Vec<LandmarkPrior>, f64) {
    let priors: Vec<LandmarkPrior> =
        landmarks.iter().map(|(name, points)| prior(name, points, cases, frames)).collect();
    let spread = (priors.iter().map(|p| p.spread_d * p.spread_d).sum::<f64>()
        / priors.len().max(1) as f64)
        .sqrt();
    // Below, the patches of all regressors would be smaller than a model may have them.
    (priors, spread.clamp(SMALLEST_SPREAD, 0.5))
}

/// Landmarks that are annotated in the same cases, so that one map can serve them.
fn alike(landmarks: &[AnnotatedLandmark]) -> Vec<Vec<usize>> {
    let cases = |l: usize| landmarks[l].1.iter().map(|&(case, _)| case);
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for l in 0..landmarks.len() {
        match groups.iter_mut().find(|g| cases(g[0]).eq(cases(l))) {
            Some(group) => group.push(l),
            None => groups.push(vec![l]),
        }
    }
    groups
}

/// Mean position in the true boxes, and distances from it in the held-out ones.
fn prior(
    name: &str,
    points: &[(usize, PointLps)],
    cases: &[TrainingCase],
    frames: &[Pose],
) -> LandmarkPrior {
    let share = |&(n, point): &(usize, PointLps)| {
        let pose: &Pose = &cases[n].pose;
        let inside = pose.orientation.inverse() * (point.0 - pose.center.0);
        Vector3::from_fn(|a, _| inside[a] / pose.size_mm[a])
    };
    let mean = points.iter().map(share).sum::<Vector3<f64>>() / points.len() as f64;
    let distances = points.iter().map(|&(n, point)| {
        step_between(&frames[n], expected(&frames[n], mean.into()), point).norm()
    });
    let distances: Vec<f64> = distances.collect();
    LandmarkPrior {
        name: name.to_owned(),
        cases: points.iter().map(|&(n, _)| cases[n].origin).collect::<BTreeSet<_>>().len(),
        mean: mean.into(),
        spread_d: (distances.iter().map(|d| d * d).sum::<f64>() / distances.len() as f64).sqrt(),
        farthest_d: distances.iter().copied().fold(0.0, f64::max),
        right: 1.0,
        stacking_weights: Vec::new(),
    }
}

/// Distance of a patch's points, mm.
fn between_mm(view: View, patch: &LandmarkPatchConfig, prior: &Prior, spread: f64) -> f64 {
    let edge_mm = match view {
        View::Box => prior.scale_mm * patch.extent,
        View::Point => prior.scale_mm * patch.extent * spread,
    };
    let points = if prior.flat { in_plane(patch.points) } else { patch.points };
    edge_mm / (points - 1.0).max(1.0)
}

/// The regressor's grids in units of what it looks at.
fn spec<B: Backend>(
    regressor: &LandmarkRegressorConfig,
    input: &StageInput<'_, B>,
    spread: f64,
) -> LandmarkRegressorSpec {
    let prior = input.prior;
    let patches = regressor
        .patches
        .iter()
        .map(|patch| {
            let grid = match regressor.view {
                View::Box => {
                    grid_for(prior, patch.points, (patch.extent - 1.0) / 2.0 * prior.scale_mm)
                }
                View::Point => {
                    let extent = [(patch.extent * spread).max(SMALLEST_EXTENT); 3];
                    let points = match prior.flat {
                        true => in_plane(patch.points),
                        false => patch.points,
                    } as u8;
                    let across = if prior.flat { 1 } else { points };
                    BoxGrid { points: [points, points, across], extent }
                }
            };
            let between_mm = between_mm(regressor.view, patch, prior, spread);
            let level = |ratio: &f64| {
                libm::round(libm::log2(ratio * between_mm / input.working.spacing_mm))
                    .clamp(0.0, (input.working.levels - 1) as f64) as u8
            };
            let mut levels: Vec<u8> = patch.levels.iter().map(level).collect();
            levels.sort_unstable_by(|a, b| b.cmp(a));
            levels.dedup();
            Patch { grid, levels: input.working.volumes_of(&levels), edges: regressor.edges }
        })
        .collect();
    LandmarkRegressorSpec {
        view: regressor.view,
        patches,
        normalise: input.working.is_relative(),
        reach_d: 1.5 * regressor.reach * spread,
        trees: regressor.trees,
    }
}

/// In a plane the ridge penalty counts so many times: samples lie close together and say much the same.
/// Held-out parts of the training images of fly wings gain 1 to 4 % by it.
const IN_PLANE_STIFFNESS: f64 = 6.0;

/// Fewest samples of a leaf of a forest.
const LEAF_SAMPLES: usize = 10;

/// A forest numbers values with 16 bits.
const MOST_VALUES: f64 = (REGRESSION_LEAF - 1) as f64;

/// So many values of the patch does a node of a forest look at.
const VALUES_PER_NODE: usize = 64;

/// Draws the samples of a regressor.
struct Sampler<'a, 'b, B: Backend> {
    input: &'a StageInput<'b, B>,
    config: &'a LandmarksConfig,
    regressor: &'a LandmarkRegressorConfig,
    spec: &'a LandmarkRegressorSpec,
    errors: &'a FrameErrors,
    priors: &'a [LandmarkPrior],
    spread: f64,
    /// Index of the regressor.
    number: usize,
}

impl<B: Backend> Sampler<'_, '_, B> {
    fn fit(
        &self,
        landmarks: &[AnnotatedLandmark],
        group: Vec<usize>,
    ) -> Result<LandmarkGroup, DetectError> {
        let points = |l: usize| &landmarks[l].1;
        let cases: Vec<usize> = points(group[0]).iter().map(|&(case, _)| case).collect();
        let each = self.config.perturbations.min(self.config.most_samples / cases.len()).max(4);
        let mut sites = Vec::with_capacity(cases.len() * each);
        let mut targets = vec![Vec::with_capacity(cases.len() * each); 3 * group.len()];
        for (place, &n) in cases.iter().enumerate() {
            let stream = Stream::LandmarkPoses { regressor: self.number, landmark: group[0] };
            let mut random = self.input.seeds.random(stream, n);
            for _ in 0..each {
                let frame = self.errors.draw(
                    n,
                    &self.input.cases[n].pose,
                    self.regressor.jitter,
                    &mut random,
                );
                let d = frame.mean_size_mm();
                let start = |l: usize, random: &mut Random| match self.regressor.view {
                    View::Box => expected(&frame, self.priors[l].mean),
                    View::Point => {
                        let off = Vector3::from_fn(|_, _| {
                            0.4 * self.regressor.reach * self.spread * d * random.normal()
                        });
                        PointLps(points(l)[place].1.0 + random.moving(off))
                    }
                };
                for (i, &l) in group.iter().enumerate() {
                    let from = start(l, &mut random);
                    let step = step_between(&frame, from, points(l)[place].1);
                    (0..3).for_each(|a| targets[3 * i + a].push(step[a]));
                    if i == 0 {
                        sites
                            .push(PoseSite { image: n as u32, pose: self.spec.site(&frame, from) });
                    }
                }
            }
        }
        let seen = self.spec.see(self.input.backend, self.input.images, &sites)?;
        if self.spec.trees > 0 {
            let values = self.spec.len() as f64;
            within("values that a forest of landmarks looks at", values, 1.0, MOST_VALUES)?;
            let params = RegressionForestParams {
                trees: self.spec.trees,
                min_leaf: LEAF_SAMPLES,
                looks: VALUES_PER_NODE,
            };
            let stream = Stream::LandmarkTrees { regressor: self.number };
            let seed = self.input.seeds.derive(stream, group[0]);
            let forest = RegressionForest::grow(&seen, self.spec.len(), &targets, &params, seed);
            return Ok(LandmarkGroup { landmarks: group, map: LandmarkMap::Forest(forest) });
        }
        let stiffness = if self.input.prior.flat { IN_PLANE_STIFFNESS } else { 1.0 };
        let problem = RegressionProblem::new(seen, self.spec.len(), &targets);
        let penalty = self.regressor.ridge * stiffness;
        let map = solved(self.input.backend, &problem, &[penalty])?.remove(0);
        Ok(LandmarkGroup { landmarks: group, map: LandmarkMap::Linear(map) })
    }
}
