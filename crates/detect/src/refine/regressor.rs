//! One regressor of a cascade: a linear map from intensities in the posed box to a step of the
//! pose.

use crate::DetectError;
use crate::config::RefinementConfig;
use crate::data::case::TrainingCase;
use crate::pose::step::{Reach, Step, perturbed_normally};
use crate::random::{Seeds, Stream};
use crate::stages::sampling::normalise;
use nalgebra::Vector3;
use pbt_linear::{LinearMap, RegressionProblem, Weight};
use pbt_tree::{Backend, Patch, PoseSite};
use pbt_volume::Pose;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Outputs of a regressor: rotation vector, shift, log sizes.
pub const OUTPUTS: usize = 9;

/// What a regressor looks at and how far it may go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegressorSpec {
    /// What it sees of a pose.
    pub patch: Patch,
    /// How far the patch reaches beyond the box, in D; the grid of the patch follows from it.
    pub border: f64,
    /// The ridge penalty that it was trained with, as a share of the mean variance of a feature.
    pub ridge: f64,
    /// Whether each patch is brought to one mean and deviation: for images without an absolute
    /// scale.
    pub normalise: bool,
    /// The perturbations that it was trained on; longer steps are cut.
    pub reach: Reach,
    /// How often it is applied.
    pub repeats: usize,
    /// D, the unit of shifts, mm.
    pub scale_mm: f64,
}

/// With few cases a regressor learns from more perturbed poses of each, so that there are this many.
const FEWEST_SAMPLES: usize = 3000;

/// A trained regressor; integers only, so that it gives the same bits everywhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Regressor {
    /// What it looks at.
    pub spec: RegressorSpec,
    /// From a patch to a step: rotation vector, shift in D, log ratios of the sizes.
    pub map: LinearMap<i32>,
}

impl Regressor {
    /// Trains on poses drawn about the true ones, with the penalty of `spec`.
    pub(crate) fn train<B: Backend>(
        backend: &B,
        cases: &[TrainingCase],
        images: &[&B::Image],
        spec: RegressorSpec,
        config: &RefinementConfig,
        (seeds, stream): (Seeds, Stream),
    ) -> Result<Self, DetectError> {
        let problem = spec.problem(backend, cases, images, config, (seeds, stream))?;
        let map = solved(backend, &problem, &[spec.ridge])?.remove(0);
        Ok(Self { spec, map })
    }

    /// Each pose moved by the regressor's steps.
    ///
    /// # Errors
    /// [`DetectError::Device`] when the device fails.
    pub fn apply<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        poses: &[Pose],
    ) -> Result<Vec<Pose>, DetectError> {
        let mut poses = poses.to_vec();
        let length = self.spec.patch.len();
        let mut patches = vec![0i16; poses.len() * length];
        for _ in 0..self.spec.repeats {
            let sites: Vec<PoseSite> =
                poses.iter().map(|&pose| PoseSite { image: 0, pose }).collect();
            backend.patches(&[image], &self.spec.patch, &sites, &mut patches)?;
            poses.par_iter_mut().zip(patches.par_chunks_mut(length)).for_each(|(pose, values)| {
                if self.spec.normalise {
                    normalise(&self.spec.patch, values);
                }
                let step = self.spec.step(&self.map.apply(values));
                *pose = step.limited(&self.spec.reach.scaled(1.5)).apply(pose);
            });
        }
        Ok(poses)
    }
}

/// The maps of some penalties, with the device's help.
pub(crate) fn solved<B: Backend, W: Weight>(
    backend: &B,
    problem: &RegressionProblem,
    penalties: &[f64],
) -> Result<Vec<LinearMap<W>>, DetectError> {
    Ok(problem.solve_by(penalties, |vectors, ridges, right| {
        backend.ridge_solutions(vectors, ridges, right)
    })?)
}

impl RegressorSpec {
    /// Poses drawn about the true ones, with the steps that lead back.
    pub(crate) fn problem<B: Backend>(
        &self,
        backend: &B,
        cases: &[TrainingCase],
        images: &[&B::Image],
        config: &RefinementConfig,
        (seeds, stream): (Seeds, Stream),
    ) -> Result<RegressionProblem, DetectError> {
        let truths: Vec<(usize, Pose)> = cases
            .iter()
            .enumerate()
            .flat_map(|(n, case)| case.all().map(move |pose| (n, pose)))
            .collect();
        let each = config
            .perturbations
            .max(FEWEST_SAMPLES / truths.len())
            .min(config.most_samples / truths.len())
            .max(10);
        let (sites, steps): (Vec<PoseSite>, Vec<Step>) = truths
            .iter()
            .enumerate()
            .flat_map(|(index, &(n, truth))| {
                let mut random = seeds.random(stream, index);
                (0..each).map(move |_| {
                    let start = perturbed_normally(&truth, &self.reach, &mut random);
                    (PoseSite { image: n as u32, pose: start }, Step::between(&start, &truth))
                })
            })
            .unzip();
        let length = self.patch.len();
        let mut patches = vec![0i16; sites.len() * length];
        backend.patches(images, &self.patch, &sites, &mut patches)?;
        if self.normalise {
            patches.par_chunks_mut(length).for_each(|values| normalise(&self.patch, values));
        }
        let outputs: Vec<[f64; OUTPUTS]> = steps.iter().map(|step| self.outputs(step)).collect();
        let targets: Vec<Vec<f64>> =
            (0..OUTPUTS).map(|o| outputs.iter().map(|values| values[o]).collect()).collect();
        Ok(RegressionProblem::new(patches, length, &targets))
    }

    /// The outputs that mean a step.
    fn outputs(&self, step: &Step) -> [f64; OUTPUTS] {
        let (turn, shift, size) = (step.rotation, step.shift_mm / self.scale_mm, step.log_size);
        [turn.x, turn.y, turn.z, shift.x, shift.y, shift.z, size[0], size[1], size[2]]
    }

    /// The step that outputs mean.
    fn step(&self, outputs: &[f64]) -> Step {
        Step {
            rotation: Vector3::new(outputs[0], outputs[1], outputs[2]),
            shift_mm: Vector3::new(outputs[3], outputs[4], outputs[5]) * self.scale_mm,
            log_size: [outputs[6], outputs[7], outputs[8]],
        }
    }
}
