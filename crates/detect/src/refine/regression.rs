//! The regression finish: a cascade of ridge regressors, each a linear map from intensities in the
//! posed box to a step of the pose.

use crate::config::{FinishConfig, RoundConfig};
use crate::data::case::{TrainingCase, groups};
use crate::linear::ridge;
use crate::linear::ridge::Equations;
use crate::pose::step::{Reach, Step, spread};
use crate::random::Random;
use crate::stages::input::StageInput;
use crate::stages::sampling::normalise;
use crate::stages::sampling::{grid_for, levels_for};
use nalgebra::Vector3;
use pbt_tree::{Backend, Patch, PoseSite};
use pbt_volume::Pose;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Outputs of a regressor: rotation vector, shift, log sizes.
pub const OUTPUTS: usize = 9;

/// Fractional bits of regression targets; the units are radians, D and ln.
const TARGET_BITS: i32 = 20;

/// What a regressor looks at and how far it may go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegressorSpec {
    /// What it sees of a pose.
    pub patch: Patch,
    /// How far the patch reaches beyond the box, in D; the grid of the patch follows from it.
    pub margin: f64,
    /// The ridge penalty that it was trained with, as a share of the mean variance of a feature.
    pub ridge: f64,
    /// Whether each patch is brought to one mean and deviation: for images without an absolute
    /// scale.
    pub normalise: bool,
    /// The perturbations that it was trained on; a step beyond is shortened.
    pub reach: Reach,
    /// How often it is applied.
    pub repeats: usize,
    /// D, the unit of shifts, mm.
    pub scale_mm: f64,
    /// Fractional bits of the weights by output.
    pub weight_bits: [i32; OUTPUTS],
    /// Mean target by output, 20 fractional bits.
    pub bias: [i32; OUTPUTS],
}

/// A trained regressor; integers only, so that it gives the same bits everywhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Regressor {
    /// What it looks at.
    pub spec: RegressorSpec,
    /// Mean of every feature, 12 bits.
    pub means: Vec<i16>,
    /// `weights[o * means.len() + f]`.
    pub weights: Vec<i32>,
}

/// What a regressor learns from.
struct Lesson {
    /// With the biases that follow from the targets.
    spec: RegressorSpec,
    means: Vec<i16>,
    samples: ridge::Samples,
}

impl Lesson {
    fn new<B: Backend>(
        backend: &B,
        cases: &[TrainingCase],
        images: &[&B::Image],
        mut spec: RegressorSpec,
        config: &FinishConfig,
        seed: u64,
    ) -> Self {
        let truths: Vec<(usize, Pose)> = cases
            .iter()
            .enumerate()
            .flat_map(|(n, case)| case.all().map(move |pose| (n, pose)))
            .collect();
        let each = config.perturbations.min(config.most_samples / truths.len()).max(10);
        let (sites, steps): (Vec<PoseSite>, Vec<Step>) = truths
            .iter()
            .enumerate()
            .flat_map(|(place, &(n, truth))| {
                let mut random = Random::new(seed, 4, place as u64);
                let reach = spec.reach;
                (0..each).map(move |_| {
                    let start = spread(&truth, &reach, &mut random);
                    (PoseSite { image: n as u32, pose: start }, Step::between(&start, &truth))
                })
            })
            .unzip();
        let length = spec.patch.len();
        let mut patches = vec![0i16; sites.len() * length];
        backend.patches(images, &spec.patch, &sites, &mut patches);
        if spec.normalise {
            patches.par_chunks_mut(length).for_each(|values| normalise(&spec.patch, values));
        }
        let n = sites.len();
        let (means, features) = ridge::centred(&patches, length);
        drop(patches);
        let values: Vec<[i32; OUTPUTS]> = steps.iter().map(|s| spec.target(s)).collect();
        for o in 0..OUTPUTS {
            spec.bias[o] =
                (values.iter().map(|v| i64::from(v[o])).sum::<i64>().div_euclid(n as i64)) as i32;
        }
        let targets =
            (0..OUTPUTS).map(|o| values.iter().map(|v| v[o] - spec.bias[o]).collect()).collect();
        Self { spec, means, samples: ridge::Samples { features, targets, n } }
    }

    /// The regressor of a solution that was found with this penalty.
    fn learnt(&self, solution: &[Vec<f64>], ridge: f64) -> Regressor {
        let mut spec = RegressorSpec { ridge, ..self.spec.clone() };
        let mut weights = Vec::with_capacity(OUTPUTS * self.means.len());
        for (o, w) in solution.iter().enumerate() {
            // The largest weight gets 24 bits: errors of rounding stay below 2⁻²⁴ of it.
            let largest = w.iter().fold(1e-12f64, |m, v| m.max(v.abs()));
            spec.weight_bits[o] = (24 - libm::ilogb(largest)).clamp(0, 60);
            let scale = libm::ldexp(1.0, spec.weight_bits[o]);
            weights.extend(w.iter().map(|v| libm::round(v * scale) as i32));
        }
        Regressor { spec, means: self.means.clone(), weights }
    }
}

impl Regressor {
    fn train<B: Backend>(
        backend: &B,
        cases: &[TrainingCase],
        images: &[&B::Image],
        spec: RegressorSpec,
        config: &FinishConfig,
        seed: u64,
    ) -> Self {
        let ridge = spec.ridge;
        let lesson = Lesson::new(backend, cases, images, spec, config, seed);
        lesson.learnt(&ridge::fit(&lesson.samples, ridge), ridge)
    }

    /// Each pose moved by the regressor's steps.
    pub fn apply<B: Backend>(&self, backend: &B, image: &B::Image, poses: &[Pose]) -> Vec<Pose> {
        let mut poses = poses.to_vec();
        let length = self.spec.patch.len();
        let mut patches = vec![0i16; poses.len() * length];
        for _ in 0..self.spec.repeats {
            let sites: Vec<PoseSite> =
                poses.iter().map(|&pose| PoseSite { image: 0, pose }).collect();
            backend.patches(&[image], &self.spec.patch, &sites, &mut patches);
            poses.par_iter_mut().zip(patches.par_chunks_mut(length)).for_each(|(pose, values)| {
                if self.spec.normalise {
                    normalise(&self.spec.patch, values);
                }
                *pose = self.step(values).limited(&self.spec.reach.scaled(1.5)).apply(pose);
            });
        }
        poses
    }

    fn step(&self, patch: &[i16]) -> Step {
        let length = self.means.len();
        let out: [f64; OUTPUTS] = std::array::from_fn(|o| {
            let weights = &self.weights[o * length..(o + 1) * length];
            let sum: i64 = patch
                .iter()
                .zip(&self.means)
                .zip(weights)
                .map(|((&x, &m), &w)| (i64::from(x) - i64::from(m)) * i64::from(w))
                .sum();
            libm::ldexp(sum as f64, -self.spec.weight_bits[o] - TARGET_BITS)
                + libm::ldexp(f64::from(self.spec.bias[o]), -TARGET_BITS)
        });
        Step {
            rotation: Vector3::new(out[0], out[1], out[2]),
            shift_mm: Vector3::new(out[3], out[4], out[5]) * self.spec.scale_mm,
            log_size: [out[6], out[7], out[8]],
        }
    }
}

impl RegressorSpec {
    fn target(&self, step: &Step) -> [i32; OUTPUTS] {
        let shift = step.shift_mm / self.scale_mm;
        let values = [
            step.rotation.x,
            step.rotation.y,
            step.rotation.z,
            shift.x,
            shift.y,
            shift.z,
            step.log_size[0],
            step.log_size[1],
            step.log_size[2],
        ];
        values.map(|v| libm::round(libm::ldexp(v.clamp(-0.99, 0.99), TARGET_BITS)) as i32)
    }
}

/// What is chosen for all regressors of a cascade.
#[derive(Debug, Clone, Copy)]
struct View {
    /// In D.
    margin: f64,
    ridge: f64,
}

/// What a round's regressor looks at and how far it reaches, untrained.
fn specify<B: Backend>(
    input: &StageInput<'_, B>,
    round: &RoundConfig,
    view: View,
    normalise: bool,
) -> RegressorSpec {
    let &StageInput { working, prior, .. } = input;
    let config = &input.config.finish;
    let d = prior.scale_mm;
    let size = (2.5 * prior.log_size_spread).clamp(0.08, 0.4);
    RegressorSpec {
        patch: Patch {
            grid: grid_for(prior, config.points_across * round.density, view.margin * d),
            levels: levels_for(prior, working, &round.voxels_across),
            edges: config.edges,
        },
        margin: view.margin,
        ridge: view.ridge,
        normalise,
        reach: Reach {
            angle: round.degrees.to_radians(),
            center_mm: round.shift * d,
            log_size: size * round.size,
        },
        repeats: round.repeats,
        scale_mm: d,
        weight_bits: [0; OUTPUTS],
        bias: [0; OUTPUTS],
    }
}

/// Margins to choose from, in D: inside the box, where what surrounds it varies; or beyond, where
/// neighbours help (vertebrae).
const MARGINS: [f64; 3] = [-0.06, 0.1, 0.25];

/// Ridge penalties to choose from; the first is for those who cannot choose. What varies much from
/// case to case asks for more.
const RIDGES: [f64; 3] = [0.4, 1.0, 2.5];

/// Fewest cases of which a third is held out to choose.
pub(crate) const FEWEST_TO_CHOOSE: usize = 6;

/// The finish with margin and ridge chosen where the configuration leaves them open: first the one,
/// then the other, by the error of a single regressor that is trained on two thirds of the cases
/// and applied to the others.
pub(crate) fn settled<B: Backend>(input: &StageInput<'_, B>, normalise: bool) -> FinishConfig {
    let config = &input.config.finish;
    let mut view = View {
        margin: config.margin.unwrap_or(MARGINS[0]),
        ridge: config.ridge.unwrap_or(RIDGES[0]),
    };
    // The middle regressor stands for all.
    if let Some(round) = config.regressors.get(config.regressors.len() / 2)
        && groups(input.cases) >= FEWEST_TO_CHOOSE
    {
        let least = |errors: &[f64]| {
            (1..errors.len()).fold(0, |best, n| if errors[n] < errors[best] { n } else { best })
        };
        let errors = |view: View, ridges: &[f64]| -> Vec<f64> {
            let by_ridge = held_out_errors(input, round, view, ridges, normalise, FOLDS - 1);
            by_ridge.iter().map(|errors| errors.iter().map(|(_, error)| error).sum()).collect()
        };
        if config.margin.is_none() {
            view.margin = MARGINS
                [least(&MARGINS.map(|margin| errors(View { margin, ..view }, &[view.ridge])[0]))];
        }
        if config.ridge.is_none() {
            view.ridge = RIDGES[least(&errors(view, &RIDGES))];
        }
    }
    FinishConfig { margin: Some(view.margin), ridge: Some(view.ridge), ..config.clone() }
}

/// By case that is no copy, what the middle regressor of a cascade with few points leaves when it
/// did not see the case: enough to compare training sets. Empty without regressors, or where a part
/// of the cases has no other to learn from.
pub(crate) fn trial<B: Backend>(input: &StageInput<'_, B>, normalise: bool) -> Vec<f64> {
    let config = &input.config.finish;
    let Some(round) = config.regressors.get(config.regressors.len() / 2) else { return Vec::new() };
    if (0..FOLDS).any(|fold| input.cases.iter().all(|case| case.group % FOLDS == fold)) {
        return Vec::new();
    }
    let view = View {
        margin: config.margin.unwrap_or(MARGINS[0]),
        ridge: config.ridge.unwrap_or(RIDGES[0]),
    };
    let round = RoundConfig { density: TRIAL_DENSITY * round.density, ..round.clone() };
    let mut errors: Vec<(usize, f64)> = (0..FOLDS)
        .flat_map(|fold| {
            held_out_errors(input, &round, view, &[view.ridge], normalise, fold).swap_remove(0)
        })
        .collect();
    errors.sort_by_key(|&(case, _)| case);
    errors.into_iter().map(|(_, error)| error).collect()
}

/// Share of the points along an edge that a trial has.
const TRIAL_DENSITY: f64 = 0.75;

/// A stiff regressor falls short in one step and gets there in some, so that one step would not
/// compare them fairly.
const REPEATS_TO_CHOOSE: usize = 3;

/// Parts of the cases of which one is held out to choose.
const FOLDS: usize = 3;

/// By penalty, the held-out cases that are no copies, each with what is left there, in units of D
/// and radians, where a regressor ends that did not see them.
fn held_out_errors<B: Backend>(
    input: &StageInput<'_, B>,
    round: &RoundConfig,
    view: View,
    ridges: &[f64],
    normalise: bool,
    fold: usize,
) -> Vec<Vec<(usize, f64)>> {
    let &StageInput { backend, cases, images, .. } = input;
    let config = &input.config.finish;
    let fold = input.fold(fold, FOLDS);
    let rest = fold.input(input);
    let fewer = FinishConfig { most_samples: config.most_samples / 3, ..config.clone() };
    let spec = specify(
        input,
        &RoundConfig { repeats: REPEATS_TO_CHOOSE, ..round.clone() },
        view,
        normalise,
    );
    let lesson = Lesson::new(backend, rest.cases, rest.images, spec, &fewer, input.seed ^ 0x31);
    let equations = Equations::new(&lesson.samples);
    let left = |truth: &Pose, end: &Pose| {
        let step = Step::between(end, truth);
        step.shift_mm.norm() / input.prior.scale_mm
            + step.rotation.norm()
            + Vector3::from(step.log_size).norm()
    };
    let error = |regressor: &Regressor, n: usize| -> f64 {
        let mut random = Random::new(input.seed, 8, n as u64);
        let truths: Vec<Pose> = cases[n].all().flat_map(|pose| [pose; 8]).collect();
        let starts: Vec<Pose> =
            truths.iter().map(|truth| spread(truth, &regressor.spec.reach, &mut random)).collect();
        let ends = regressor.apply(backend, images[n], &starts);
        truths.iter().zip(&ends).map(|(truth, end)| left(truth, end)).sum()
    };
    let by_case = |regressor: &Regressor| {
        fold.held_out
            .iter()
            .filter(|&&n| !cases[n].copy)
            .map(|&n| (n, error(regressor, n)))
            .collect()
    };
    ridges
        .iter()
        .map(|&ridge| by_case(&lesson.learnt(&equations.clone().solve(ridge), ridge)))
        .collect()
}

/// The trained cascade.
#[derive(Debug, Clone, PartialEq)]
pub struct Cascade {
    /// The regressors in the order in which they are applied.
    pub regressors: Vec<Regressor>,
}

impl Cascade {
    /// Trains regressors of shrinking reach on perturbed true poses; never on each other's output,
    /// which fits the training cases far better than others. What the configuration leaves open
    /// takes its first value; [`settled`] chooses.
    pub(crate) fn train<B: Backend>(input: &StageInput<'_, B>, normalise: bool) -> Self {
        let &StageInput { backend, cases, images, .. } = input;
        let (config, seed) = (&input.config.finish, input.seed ^ 0x30);
        let view = View {
            margin: config.margin.unwrap_or(MARGINS[0]),
            ridge: config.ridge.unwrap_or(RIDGES[0]),
        };
        let regressors = config
            .regressors
            .iter()
            .enumerate()
            .map(|(n, round)| {
                let spec = specify(input, round, view, normalise);
                Regressor::train(backend, cases, images, spec, config, seed.wrapping_add(n as u64))
            })
            .collect();
        Self { regressors }
    }

    /// Each pose brought to where the cascade leads it.
    pub fn apply<B: Backend>(&self, backend: &B, image: &B::Image, poses: &[Pose]) -> Vec<Pose> {
        self.regressors.iter().fold(poses.to_vec(), |poses, r| r.apply(backend, image, &poses))
    }
}
