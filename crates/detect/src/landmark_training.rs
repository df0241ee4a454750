//! Training of landmarks: rounds of ridge regression in frames that are as wrong as detection makes
//! them.
//!
//! The cascade that finds a box fits its training cases far better than others, so its poses there
//! are no frames to learn from. It is trained again without each part of the cases in turn, and
//! where it ends in the part left out says what detection will offer.

use crate::DetectError;
use crate::blend;
use crate::case::{TrainingCase, groups};
use crate::close_up::{CloseUp, MOST_HALVINGS, MOST_MARGIN};
use crate::cover::Random;
use crate::finish::Finish;
use crate::landmark_config::{LandmarkPatchConfig, LandmarkRoundConfig, LandmarksConfig};
use crate::landmarks::{
    LandmarkGroup, LandmarkPrior, LandmarkRound, LandmarkRoundSpec, LandmarkStage, RIGHT_WITHIN,
    View, expected, mean_size_mm, step_between,
};
use crate::linear::LinearMap;
use crate::modes::median;
use crate::perturb::Step;
use crate::stage_input::StageInput;
use crate::verification::VerificationStage;
use nalgebra::Vector3;
use pbt_evaluate::BoxError;
use pbt_features::BoxGrid;
use pbt_tree::{Backend, Patch, PoseSite};
use pbt_volume::{PointLps, Pose};
use std::collections::BTreeSet;

/// A landmark with its place in some of the cases, by their numbers in the stage's input.
pub(crate) type Annotated = (String, Vec<(usize, PointLps)>);

/// Where detection would put the box of each training case if it did not know the case.
pub(crate) fn held_out_frames<B: Backend>(
    input: &StageInput<'_, B>,
    modes: &[Vec<Pose>],
    verification: &VerificationStage,
    train: impl Fn(&StageInput<'_, B>) -> Result<Finish, DetectError>,
) -> Result<Vec<Pose>, DetectError> {
    let &StageInput { backend, cases, images, prior, .. } = input;
    let config = input.config.for_held_out();
    let folds = folds(cases);
    let mut frames: Vec<Pose> = cases.iter().map(|c| c.pose).collect();
    for fold in 0..folds {
        let fold = input.fold(fold, folds);
        let finish = train(&StageInput { config: &config, ..fold.input(input) })?;
        for n in fold.held_out {
            let ends = finish.apply(backend, images[n], &modes[n]);
            // Verification picks the right one; here the truth stands in for it.
            let distance = |p: &Pose| BoxError::new(p, &cases[n].pose).corner_mm;
            let Some(best) = ends.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))) else {
                continue;
            };
            let found = median(best, ends.iter().filter(|p| verification.spec.same.holds(best, p)));
            let expected = prior.expected(cases[n].pyramid.levels()[0].geometry().center());
            frames[n] = match (verification.spec.trust, expected) {
                (Some(trust), Some(expected)) => trust.temper(&found, &expected),
                _ => found,
            };
        }
    }
    Ok(frames)
}

/// Errors of frames as detection makes them: those that were measured, and their root mean squares
/// by component.
struct FrameErrors {
    steps: Vec<Step>,
    rms: Step,
}

impl FrameErrors {
    fn new(cases: &[TrainingCase], frames: &[Pose]) -> Self {
        let mut steps: Vec<Step> = cases
            .iter()
            .zip(frames)
            .map(|(case, frame)| Step::between(&case.pose, frame))
            .collect();
        // A box that was missed altogether is no frame; where detection misses it, landmarks are
        // lost anyway.
        let mut sizes: Vec<f64> = steps.iter().map(|s| s.shift_mm.norm()).collect();
        sizes.sort_by(f64::total_cmp);
        let (most_mm, most_angle) = (6.0 * sizes[sizes.len() / 2], 0.8);
        for step in &mut steps {
            if step.shift_mm.norm() > most_mm || step.rotation.norm() > most_angle {
                *step = Step {
                    rotation: Vector3::zeros(),
                    shift_mm: Vector3::zeros(),
                    log_size: [0.0; 3],
                };
            }
        }
        let rms = |f: &dyn Fn(&Step) -> f64| {
            (steps.iter().map(|s| f(s) * f(s)).sum::<f64>() / steps.len() as f64).sqrt()
        };
        let rms = Step {
            rotation: Vector3::from_fn(|a, _| rms(&|s| s.rotation[a])),
            shift_mm: Vector3::from_fn(|a, _| rms(&|s| s.shift_mm[a])),
            log_size: std::array::from_fn(|a| rms(&|s| s.log_size[a])),
        };
        Self { steps, rms }
    }

    /// A frame of a case: its own held-out one, or one as far off in another direction.
    fn draw(&self, n: usize, truth: &Pose, jitter: f64, random: &mut Random) -> Pose {
        let own = &self.steps[n];
        let mut vector =
            |rms: Vector3<f64>| Vector3::from_fn(|a, _| jitter * rms[a] * random.normal());
        Step {
            rotation: own.rotation + vector(self.rms.rotation),
            shift_mm: own.shift_mm + vector(self.rms.shift_mm),
            log_size: (Vector3::from(own.log_size) + vector(Vector3::from(self.rms.log_size)))
                .into(),
        }
        .apply(truth)
    }
}

impl LandmarkStage {
    /// Trains all rounds, and sees how often landmarks come out right in cases that were left out.
    /// Annotations that rounds without their case contradict are not learned from; they are
    /// returned. `frames` are [`held_out_frames`]; every landmark has at least one case.
    pub(crate) fn train<B: Backend>(
        input: &StageInput<'_, B>,
        config: &LandmarksConfig,
        landmarks: &[Annotated],
        frames: &[Pose],
        normalise: bool,
    ) -> (Self, Vec<Contradicted>) {
        let mut errors = held_out_errors(input, config, landmarks, frames, normalise);
        let judged = |errors: &[Vec<Option<Rounds>>]| {
            let blends = blend::weights(
                &independent(input.cases, landmarks, errors),
                config.rounds.len() + 1,
            );
            let distance = |blend: &Vec<f64>, rounds: &Option<Rounds>| {
                Some(blended(blend, rounds.as_ref()?).norm())
            };
            let of = |(errors, blend): (&Vec<_>, &Vec<f64>)| {
                errors.iter().map(|rounds| distance(blend, rounds)).collect()
            };
            let distances: Vec<Vec<Option<f64>>> = errors.iter().zip(&blends).map(of).collect();
            (blends, distances)
        };
        let contradicted = contradicted(landmarks, &judged(&errors).1);
        // How far rounds are from an annotation that is wrong says nothing of them.
        for c in &contradicted {
            let ((_, points), errors) = (&landmarks[c.landmark], &mut errors[c.landmark]);
            points
                .iter()
                .zip(errors)
                .filter(|((case, _), _)| *case == c.case)
                .for_each(|(_, rounds)| *rounds = None);
        }
        let (blends, distances) = judged(&errors);
        let believed =
            |l: usize, case: usize| contradicted.iter().all(|c| (c.landmark, c.case) != (l, case));
        let kept: Vec<Annotated> = landmarks
            .iter()
            .enumerate()
            .map(|(l, (name, points))| {
                (
                    name.clone(),
                    points.iter().copied().filter(|&(case, _)| believed(l, case)).collect(),
                )
            })
            .collect();
        let mut stage = Self::fit(input, config, landmarks, &kept, frames, normalise);
        for ((landmark, blend), distances) in stage.landmarks.iter_mut().zip(blends).zip(&distances)
        {
            // The rule of succession.
            let known = || distances.iter().flatten();
            let right = known().filter(|&&distance| distance <= RIGHT_WITHIN).count();
            landmark.right = (1 + right) as f64 / (2 + known().count()) as f64;
            landmark.blend = blend;
        }
        (stage, contradicted)
    }

    /// `kept` is what is left of the landmarks' annotations without contradicted ones. Rounds that
    /// look at the whole box learn from all: one map serves all landmarks there only while they
    /// have the same cases.
    fn fit<B: Backend>(
        input: &StageInput<'_, B>,
        config: &LandmarksConfig,
        landmarks: &[Annotated],
        kept: &[Annotated],
        frames: &[Pose],
        normalise: bool,
    ) -> Self {
        let errors = FrameErrors::new(input.cases, frames);
        let seed = input.seed ^ 0x50;
        let (priors, spread) = priors(input.cases, kept, frames);
        let rounds = config
            .rounds
            .iter()
            .enumerate()
            .map(|(n, round)| {
                let spec = spec(round, input, spread, normalise);
                let samples = Sampler {
                    input,
                    config,
                    round,
                    spec: &spec,
                    errors: &errors,
                    priors: &priors,
                    spread,
                    seed: seed.wrapping_add(n as u64),
                };
                let groups = match round.view {
                    View::Box => alike(landmarks)
                        .into_iter()
                        .map(|group| samples.fit(landmarks, group))
                        .collect(),
                    View::Point => (0..kept.len()).map(|l| samples.fit(kept, vec![l])).collect(),
                };
                LandmarkRound { spec, groups }
            })
            .collect();
        Self { landmarks: priors, close_up: None, rounds }
    }
}

/// What the landmarks of a box must see of it in finer voxels than its own stages; none where those
/// are fine enough for every patch, or the images are no finer. `smallest_mm` is the smallest
/// spacing of the images.
pub(crate) fn close_up<B: Backend>(
    input: &StageInput<'_, B>,
    config: &LandmarksConfig,
    landmarks: &[Annotated],
    frames: &[Pose],
    smallest_mm: f64,
) -> Option<CloseUp> {
    let d = input.prior.scale_mm;
    let (priors, spread) = priors(input.cases, landmarks, frames);
    let patches = || {
        config
            .rounds
            .iter()
            .flat_map(|round| round.patches.iter().map(move |patch| (round.view, patch)))
    };
    let voxel_mm = |(view, patch): (View, &LandmarkPatchConfig)| {
        patch
            .levels
            .iter()
            .map(|ratio| ratio * between_mm(view, patch, d, spread))
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
        (0..3).map(excess).fold(0.0, f64::max) + prior.farthest
    };
    let half = |(view, patch): (View, &LandmarkPatchConfig)| match view {
        View::Box => (patch.extent - 1.0) / 2.0,
        View::Point => patch.extent * spread / 2.0,
    };
    let margin =
        priors.iter().map(beyond).fold(0.0, f64::max) + patches().map(half).fold(0.0, f64::max);
    (halvings > 0).then(|| CloseUp { halvings, margin: margin.min(MOST_MARGIN) })
}

/// Mean places, and the root mean square over all landmarks of the distances from them in D: the
/// unit of rounds.
fn priors(
    cases: &[TrainingCase],
    landmarks: &[Annotated],
    frames: &[Pose],
) -> (Vec<LandmarkPrior>, f64) {
    let priors: Vec<LandmarkPrior> =
        landmarks.iter().map(|(name, points)| prior(name, points, cases, frames)).collect();
    let spread = (priors.iter().map(|p| p.spread * p.spread).sum::<f64>()
        / priors.len().max(1) as f64)
        .sqrt();
    (priors, spread.clamp(1e-3, 0.5))
}

/// An annotation that training does not believe.
#[derive(Debug, PartialEq)]
pub(crate) struct Contradicted {
    /// Place of the landmark.
    pub(crate) landmark: usize,
    /// Number of the case in the stage's input.
    pub(crate) case: usize,
    /// How far off rounds that did not see the case put the landmark, in D.
    pub(crate) distance: f64,
}

/// Held-out rounds end farther from an annotation than this many times the median distance of all
/// annotations of the landmark: it is rather the annotation that is wrong. In three folds of the
/// mouse skulls, where three are known to be, leaving such ones out gains 0.3 %.
const CONTRADICTED_BEYOND: f64 = 5.0;

/// Fewest cases whose median distance says what is usual.
const FEWEST_TO_CONTRADICT: usize = 8;

/// `distances[landmark][annotation]`, in D.
fn contradicted(landmarks: &[Annotated], distances: &[Vec<Option<f64>>]) -> Vec<Contradicted> {
    let mut found = Vec::new();
    for (l, ((_, points), distances)) in landmarks.iter().zip(distances).enumerate() {
        let mut sorted: Vec<f64> = distances.iter().flatten().copied().collect();
        sorted.sort_by(f64::total_cmp);
        if sorted.len() < FEWEST_TO_CONTRADICT {
            continue;
        }
        let most = CONTRADICTED_BEYOND * sorted[sorted.len() / 2];
        for (&(case, _), distance) in points.iter().zip(distances) {
            if let Some(distance) = distance.filter(|&distance| distance > most) {
                found.push(Contradicted { landmark: l, case, distance });
            }
        }
    }
    found
}

/// The errors of cases that are no copies.
fn independent(
    cases: &[TrainingCase],
    landmarks: &[Annotated],
    errors: &[Vec<Option<Rounds>>],
) -> Vec<Vec<Rounds>> {
    let of = |((_, points), errors): (&Annotated, &Vec<Option<Rounds>>)| {
        points
            .iter()
            .zip(errors)
            .filter(|((case, _), _)| !cases[*case].copy)
            .filter_map(|(_, rounds)| rounds.clone())
            .collect()
    };
    landmarks.iter().zip(errors).map(of).collect()
}

fn blended(blend: &[f64], rounds: &Rounds) -> Vector3<f64> {
    blend.iter().zip(rounds).map(|(&weight, step)| step * weight).sum()
}

/// The way from the truth to a landmark's mean place and to where each round puts it, in the frame
/// of the box, in D.
type Rounds = Vec<Vector3<f64>>;

/// By landmark and annotation, where rounds that did not see the case put the landmark; none where
/// no other case has it.
fn held_out_errors<B: Backend>(
    input: &StageInput<'_, B>,
    config: &LandmarksConfig,
    landmarks: &[Annotated],
    frames: &[Pose],
    normalise: bool,
) -> Vec<Vec<Option<Rounds>>> {
    let &StageInput { backend, cases, images, .. } = input;
    let folds = folds(cases);
    let mut errors: Vec<Vec<Option<Rounds>>> =
        landmarks.iter().map(|(_, points)| vec![None; points.len()]).collect();
    for fold in 0..folds {
        let fold = input.fold(fold, folds);
        let own: Vec<Pose> = fold.inside.iter().map(|&n| frames[n]).collect();
        let part = |(name, points): &Annotated| -> Annotated {
            let place = |&(case, point): &(usize, PointLps)| {
                Some((fold.inside.binary_search(&case).ok()?, point))
            };
            (name.clone(), points.iter().filter_map(place).collect())
        };
        let (numbers, known): (Vec<usize>, Vec<Annotated>) = landmarks
            .iter()
            .map(part)
            .enumerate()
            .filter(|(_, (_, points))| !points.is_empty())
            .unzip();
        let stage = LandmarkStage::fit(&fold.input(input), config, &known, &known, &own, normalise);
        for &n in &fold.held_out {
            let rounds = stage.rounds(backend, images[n], &frames[n]);
            for (i, &l) in numbers.iter().enumerate() {
                if let Some(place) = landmarks[l].1.iter().position(|(case, _)| *case == n) {
                    let truth = landmarks[l].1[place].1;
                    errors[l][place] = Some(
                        rounds
                            .iter()
                            .map(|points| step_between(&frames[n], truth, points[i]))
                            .collect(),
                    );
                }
            }
        }
    }
    errors
}

/// Parts that the cases are divided into. Leaving out few cases, what is left resembles the whole;
/// with many cases half of them do.
fn folds(cases: &[TrainingCase]) -> usize {
    if groups(cases) < 40 { groups(cases).min(3) } else { 2 }
}

/// Landmarks that are annotated in the same cases, so that one map can serve them.
fn alike(landmarks: &[Annotated]) -> Vec<Vec<usize>> {
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

/// Mean place in the true boxes, and distances from it in the held-out ones.
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
        cases: points.iter().map(|&(n, _)| cases[n].group).collect::<BTreeSet<_>>().len(),
        mean: mean.into(),
        spread: (distances.iter().map(|d| d * d).sum::<f64>() / distances.len() as f64).sqrt(),
        farthest: distances.iter().copied().fold(0.0, f64::max),
        right: 1.0,
        blend: Vec::new(),
    }
}

/// Distance of a patch's points, mm; `d` is D in mm.
fn between_mm(view: View, patch: &LandmarkPatchConfig, d: f64, spread: f64) -> f64 {
    let edge_mm = match view {
        View::Box => d * patch.extent,
        View::Point => d * patch.extent * spread,
    };
    edge_mm / (patch.points - 1.0).max(1.0)
}

/// The round's grids in units of what it looks at.
fn spec<B: Backend>(
    round: &LandmarkRoundConfig,
    input: &StageInput<'_, B>,
    spread: f64,
    normalise: bool,
) -> LandmarkRoundSpec {
    let prior = input.prior;
    let patches = round
        .patches
        .iter()
        .map(|patch| {
            let grid = match round.view {
                View::Box => crate::orientation::grid_for(
                    prior,
                    patch.points,
                    (patch.extent - 1.0) / 2.0 * prior.scale_mm,
                ),
                View::Point => {
                    BoxGrid { points: [patch.points as u8; 3], extent: [patch.extent * spread; 3] }
                }
            };
            let between_mm = between_mm(round.view, patch, prior.scale_mm, spread);
            let level = |ratio: &f64| {
                libm::round(libm::log2(ratio * between_mm / input.working.spacing_mm))
                    .clamp(0.0, (input.working.levels - 1) as f64) as u8
            };
            let mut levels: Vec<u8> = patch.levels.iter().map(level).collect();
            levels.sort_unstable_by(|a, b| b.cmp(a));
            levels.dedup();
            Patch { grid, levels, edges: round.edges }
        })
        .collect();
    LandmarkRoundSpec { view: round.view, patches, normalise, reach: 1.5 * round.reach * spread }
}

/// Draws the samples of a round.
struct Sampler<'a, 'b, B: Backend> {
    input: &'a StageInput<'b, B>,
    config: &'a LandmarksConfig,
    round: &'a LandmarkRoundConfig,
    spec: &'a LandmarkRoundSpec,
    errors: &'a FrameErrors,
    priors: &'a [LandmarkPrior],
    spread: f64,
    seed: u64,
}

impl<B: Backend> Sampler<'_, '_, B> {
    fn fit(&self, landmarks: &[Annotated], group: Vec<usize>) -> LandmarkGroup {
        let points = |l: usize| &landmarks[l].1;
        let cases: Vec<usize> = points(group[0]).iter().map(|&(case, _)| case).collect();
        let each = self.config.perturbations.min(self.config.most_samples / cases.len()).max(4);
        let mut sites = Vec::with_capacity(cases.len() * each);
        let mut targets = vec![Vec::with_capacity(cases.len() * each); 3 * group.len()];
        for (place, &n) in cases.iter().enumerate() {
            let mut random = Random::new(self.seed, 100 + group[0] as u64, n as u64);
            for _ in 0..each {
                let frame =
                    self.errors.draw(n, &self.input.cases[n].pose, self.round.jitter, &mut random);
                let d = mean_size_mm(&frame);
                let start = |l: usize, random: &mut Random| match self.round.view {
                    View::Box => expected(&frame, self.priors[l].mean),
                    View::Point => {
                        let off = Vector3::from_fn(|_, _| {
                            0.4 * self.round.reach * self.spread * d * random.normal()
                        });
                        PointLps(points(l)[place].1.0 + off)
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
        let seen = self.spec.see(self.input.backend, self.input.images, &sites);
        LandmarkGroup {
            landmarks: group,
            map: LinearMap::fit(&seen, self.spec.len(), &targets, self.round.ridge),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cases from 10 on, one annotation each.
    fn annotated(count: usize) -> Vec<Annotated> {
        vec![(
            "tip".to_owned(),
            (10..10 + count).map(|case| (case, PointLps::new(0.0, 0.0, 0.0))).collect(),
        )]
    }

    #[test]
    fn an_annotation_far_from_what_all_others_say_is_contradicted() {
        let mut distances: Vec<Option<f64>> =
            (0..9).map(|n| Some(0.01 + 0.001 * f64::from(n))).collect();
        distances[3] = Some(0.068);
        // The median of the nine is 0.015; no other case has the last one's landmark.
        distances.push(None);
        assert_eq!(contradicted(&annotated(10), &[distances.clone()]), []);
        distances[3] = Some(0.08);
        assert_eq!(
            contradicted(&annotated(10), &[distances]),
            [Contradicted { landmark: 0, case: 13, distance: 0.08 }]
        );
    }

    #[test]
    fn a_handful_of_cases_contradicts_nobody() {
        let distances = vec![Some(0.01), Some(0.01), Some(0.01), Some(0.5)];
        assert_eq!(contradicted(&annotated(4), &[distances]), []);
    }
}
