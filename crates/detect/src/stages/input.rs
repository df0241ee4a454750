//! What every stage after the first is trained on.

use crate::data::case::TrainingCase;
use crate::data::folds::Folds;

use crate::config::TrainConfig;
use crate::pose::prior::Prior;
use crate::random::Seeds;
use crate::working::spec::WorkingSpec;
use pbt_tree::Backend;

/// Training cases, uploaded, with what their poses say and how to train.
pub(crate) struct StageInput<'a, B: Backend> {
    pub(crate) backend: &'a B,
    pub(crate) cases: &'a [TrainingCase],
    /// One for each case.
    pub(crate) images: &'a [&'a B::Image],
    /// How the images were prepared.
    pub(crate) working: &'a WorkingSpec,
    pub(crate) prior: &'a Prior,
    pub(crate) config: &'a TrainConfig,
    /// Of the structure.
    pub(crate) seeds: Seeds,
}

/// The cases divided into some to learn from and some to be judged by.
pub(crate) struct Fold<'a, B: Backend> {
    /// Numbers of the cases that are learned from, ascending.
    pub(crate) inside: Vec<usize>,
    /// Numbers of those that are held out, ascending.
    pub(crate) held_out: Vec<usize>,
    cases: Vec<TrainingCase>,
    images: Vec<&'a B::Image>,
}

impl<'a, B: Backend> StageInput<'a, B> {
    /// Holds out one part of the cases.
    pub(crate) fn fold(&self, folds: Folds, fold: usize) -> Fold<'a, B> {
        let (held_out, inside): (Vec<usize>, Vec<usize>) =
            (0..self.cases.len()).partition(|&n| folds.holds_out(fold, self.cases[n].subject));
        let cases = inside.iter().map(|&n| self.cases[n].clone()).collect();
        let images = inside.iter().map(|&n| self.images[n]).collect();
        Fold { inside, held_out, cases, images }
    }
}

impl<B: Backend> Fold<'_, B> {
    /// The whole input without the cases that are held out.
    pub(crate) fn input<'b>(&'b self, whole: &StageInput<'b, B>) -> StageInput<'b, B> {
        StageInput { cases: &self.cases, images: &self.images, ..*whole }
    }
}
