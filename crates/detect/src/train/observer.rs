//! Who watches a training, and what is told of its stages.

use super::mirror_trial::Gain;
use crate::DetectError;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Watches a training and may end it.
pub trait Observer: Sync {
    /// A stage begins; `done` is the share of the whole training that lies behind, 0 to 1.
    fn stage(&self, structure: &str, stage: &str, done: f64);

    /// Whether to stop at the next opportunity.
    fn interrupted(&self) -> bool;

    /// A stage is done: the checkpoint as bytes of a model file, to resume from.
    ///
    /// # Errors
    /// What kept the bytes from being written; it ends the training.
    fn checkpoint(&self, bytes: &[u8]) -> Result<(), DetectError>;

    /// Where a temporary file may be that is as large as all images together.
    fn scratch_folder(&self) -> PathBuf {
        std::env::temp_dir()
    }
}

/// What a stage took and reached on the training cases.
#[derive(Debug, Clone, serde::Serialize)]
pub struct StageFigure {
    /// Structure and stage.
    pub stage: String,
    /// Seconds.
    pub seconds: f64,
    /// What the figure is.
    pub what: String,
    /// Its mean over the training cases.
    pub mean: f64,
    /// Its largest value.
    pub max: f64,
}

impl StageFigure {
    pub(crate) fn new(stage: String, started: Instant, what: &str, values: &[f64]) -> Self {
        Self {
            stage,
            seconds: started.elapsed().as_secs_f64(),
            what: what.to_owned(),
            mean: values.iter().sum::<f64>() / values.len().max(1) as f64,
            max: values.iter().copied().fold(0.0, f64::max),
        }
    }

    pub(super) fn of_mirror_trial(started: Instant, gain: &Gain) -> Self {
        Self {
            stage: "mirrored copies".to_owned(),
            seconds: started.elapsed().as_secs_f64(),
            what: "share of the held-out error that is left with them, and one standard error more"
                .to_owned(),
            mean: gain.share,
            max: gain.share_at_most,
        }
    }
}

/// A part of a training.
pub(super) struct Share<'a> {
    pub(super) outer: &'a dyn Observer,
    /// Share of the whole training that lies behind when it begins.
    pub(super) from: f64,
    /// What share of the whole it is.
    pub(super) share: f64,
}

impl Observer for Share<'_> {
    fn stage(&self, structure: &str, stage: &str, done: f64) {
        self.outer.stage(structure, stage, self.from + self.share * done);
    }

    fn interrupted(&self) -> bool {
        self.outer.interrupted()
    }

    fn checkpoint(&self, bytes: &[u8]) -> Result<(), DetectError> {
        self.outer.checkpoint(bytes)
    }

    fn scratch_folder(&self) -> PathBuf {
        self.outer.scratch_folder()
    }
}

/// Tells of a training within a training, of which some may run at a time.
pub(super) struct Nested<'a> {
    pub(super) outer: &'a dyn Observer,
    pub(super) part: usize,
    /// By part, the share of its training that is done.
    pub(super) done: &'a Mutex<Vec<f64>>,
    /// Share of the whole training that lies behind when all parts are done.
    pub(super) until: f64,
}

/// Share of all that comes before masks that lies behind when held-out cases are begun: three trainings on
/// two thirds of the cases follow.
pub(super) const BEFORE: f64 = 0.43;

/// Share of the whole training that lies behind when masks are begun, where they are trained: of heads
/// and necks, and of brains of mice, they took half of the time.
pub(super) const BEFORE_MASKS: f64 = 0.5;

impl Observer for Nested<'_> {
    fn stage(&self, structure: &str, stage: &str, done: f64) {
        let Self { outer, part, until, .. } = self;
        let mut all = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        all[*part] = done;
        let (share, parts) = (all.iter().sum::<f64>() / all.len() as f64, all.len());
        drop(all);
        let stage = format!("{stage}, {} of {parts} parts held out", part + 1);
        outer.stage(structure, &stage, until * (BEFORE + (1.0 - BEFORE) * share));
    }

    fn interrupted(&self) -> bool {
        self.outer.interrupted()
    }

    /// A checkpoint is of the training on all cases.
    fn checkpoint(&self, _bytes: &[u8]) -> Result<(), DetectError> {
        Ok(())
    }
}
