//! What brings modes to the structure: regression or classification.

use crate::DetectError;
use crate::config::RefinementKind;
use crate::refine::border_and_ridge;
use crate::refine::cascade::{Cascade, CascadeSettings};
use crate::refine::classification::ClassificationPasses;
use crate::stages::input::StageInput;
use pbt_tree::Backend;
use pbt_volume::Pose;
use std::cell::OnceCell;

/// The trained refinement.
#[derive(Debug, Clone, PartialEq)]
pub enum Refinement {
    /// A cascade of ridge regressors.
    Regression(Cascade),
    /// Passes of boosted classifiers.
    Classification(ClassificationPasses),
}

impl Refinement {
    /// Each pose brought to where the refinement leads it.
    ///
    /// # Errors
    /// [`DetectError::Device`] when the device fails.
    pub fn apply<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        poses: &[Pose],
    ) -> Result<Vec<Pose>, DetectError> {
        match self {
            Self::Regression(cascade) => cascade.apply(backend, image, poses),
            Self::Classification(passes) => passes.apply(backend, image, poses),
        }
    }
}

/// Trains refinements of one structure on all of its cases or on some, with the same settings.
pub(crate) struct RefinementTrainer<'a, B: Backend> {
    all: &'a StageInput<'a, B>,
    /// Chosen once, on all cases, and only where a cascade is trained.
    settings: OnceCell<CascadeSettings>,
}

impl<'a, B: Backend> RefinementTrainer<'a, B> {
    pub(crate) fn new(all: &'a StageInput<'a, B>) -> Self {
        Self { all, settings: OnceCell::new() }
    }

    /// The refinement that learns from these cases.
    pub(crate) fn train(&self, cases: &StageInput<'_, B>) -> Result<Refinement, DetectError> {
        Ok(match cases.config.refinement.kind {
            RefinementKind::Regression => {
                let settings = match self.settings.get() {
                    Some(settings) => *settings,
                    None => {
                        let chosen = border_and_ridge::choose(self.all)?;
                        *self.settings.get_or_init(|| chosen)
                    }
                };
                Refinement::Regression(Cascade::train(cases, settings)?)
            }
            RefinementKind::Classification => {
                Refinement::Classification(ClassificationPasses::train(cases)?)
            }
        })
    }
}
