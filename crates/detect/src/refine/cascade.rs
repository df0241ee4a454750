//! Refinement by regression: a cascade of regressors of shrinking reach.

use crate::DetectError;
use crate::config::PassConfig;
use crate::pose::step::Reach;
use crate::random::Stream;
use crate::refine::regressor::{Regressor, RegressorSpec};
use crate::stages::input::StageInput;
use crate::stages::sampling::{grid_for, levels_for};
use pbt_tree::{Backend, Patch};
use pbt_volume::Pose;

/// What all regressors of a cascade share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CascadeSettings {
    /// How far the patches reach beyond the box, in D.
    pub(crate) border: f64,
    /// Penalty as a share of the mean variance of a feature.
    pub(crate) ridge: f64,
}

/// The trained cascade.
#[derive(Debug, Clone, PartialEq)]
pub struct Cascade {
    /// The regressors in the order in which they are applied.
    pub regressors: Vec<Regressor>,
}

impl Cascade {
    /// Trains regressors of shrinking reach on perturbed true poses; never on each other's output,
    /// which fits the training cases far better than others.
    pub(crate) fn train<B: Backend>(
        input: &StageInput<'_, B>,
        settings: CascadeSettings,
    ) -> Result<Self, DetectError> {
        let &StageInput { backend, cases, images, .. } = input;
        let config = &input.config.refinement;
        let regressors = config.regressors.iter().enumerate().map(|(n, pass)| {
            let spec = specify(input, pass, settings);
            let stream = Stream::RegressorPoses { regressor: n };
            Regressor::train(backend, cases, images, spec, config, (input.seeds, stream))
        });
        Ok(Self { regressors: regressors.collect::<Result<_, _>>()? })
    }

    /// Each pose brought to where the cascade leads it.
    ///
    /// # Errors
    /// [`DetectError::Device`] when the device fails.
    pub fn apply<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        poses: &[Pose],
    ) -> Result<Vec<Pose>, DetectError> {
        self.regressors.iter().try_fold(poses.to_vec(), |poses, r| r.apply(backend, image, &poses))
    }
}

/// What a regressor of the cascade looks at and how far it reaches, untrained.
pub(super) fn specify<B: Backend>(
    input: &StageInput<'_, B>,
    pass: &PassConfig,
    settings: CascadeSettings,
) -> RegressorSpec {
    let &StageInput { working, prior, .. } = input;
    let config = &input.config.refinement;
    let d = prior.scale_mm;
    let size = (2.5 * prior.log_size_spread).clamp(0.08, 0.4);
    RegressorSpec {
        patch: Patch {
            grid: grid_for(prior, config.points_across * pass.density, settings.border * d),
            levels: levels_for(prior, working, &pass.voxels_across),
            edges: config.edges,
        },
        border: settings.border,
        ridge: settings.ridge,
        normalise: working.is_relative(),
        reach: Reach {
            angle_rad: pass.degrees.to_radians(),
            center_mm: pass.shift * d,
            log_size: size * pass.size,
        },
        repeats: pass.repeats,
        scale_mm: d,
    }
}
