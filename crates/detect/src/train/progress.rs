//! How far the structures of a group are, some of which may be trained at a time: what watchers are
//! told, and checkpoints.

use super::observer::Observer;
use crate::DetectError;
use crate::model::Provenance;
use crate::model::file::checkpoint_bytes;
use crate::model::unfinished::StructureCheckpoint;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What checkpoints hold beside the structures of a group.
pub(super) struct Checkpoints<'a> {
    /// Of the whole training.
    pub(super) provenance: &'a Provenance,
    /// The structures of the groups before, finished.
    pub(super) before: &'a [StructureCheckpoint],
}

/// The structures of a group in training.
pub(super) struct Progress<'a> {
    observer: &'a dyn Observer,
    kept: Option<&'a Checkpoints<'a>>,
    so_far: Mutex<SoFar>,
}

struct SoFar {
    checkpoints: Vec<StructureCheckpoint>,
    /// By structure, the share of its training that is done.
    done: Vec<f64>,
}

impl<'a> Progress<'a> {
    /// Of structures of which some stages may be trained already. Without `kept` there are no checkpoints.
    pub(super) fn new(
        observer: &'a dyn Observer,
        kept: Option<&'a Checkpoints<'a>>,
        checkpoints: Vec<StructureCheckpoint>,
    ) -> Self {
        let of = |checkpoint: &StructureCheckpoint| f64::from(u8::from(checkpoint.is_complete()));
        let done = checkpoints.iter().map(of).collect();
        Self { observer, kept, so_far: Mutex::new(SoFar { checkpoints, done }) }
    }

    /// Whether to stop.
    pub(super) fn interrupted(&self) -> bool {
        self.observer.interrupted()
    }

    /// Tells of a stage of a structure that begins; `done` is the share of the structure's training
    /// that lies behind.
    ///
    /// # Errors
    /// [`DetectError::Interrupted`] where the training is to stop.
    pub(super) fn begin(&self, index: usize, stage: &str, done: f64) -> Result<(), DetectError> {
        if self.interrupted() {
            return Err(DetectError::Interrupted);
        }
        let mut so_far = self.lock();
        so_far.done[index] = done;
        let share = so_far.done.iter().sum::<f64>() / so_far.done.len() as f64;
        let name = so_far.checkpoints[index].name.clone();
        drop(so_far);
        self.observer.stage(&name, stage, share);
        Ok(())
    }

    /// Hands a checkpoint to the observer, this structure's stages as they are now among it. Nothing
    /// here waits for other threads' work but their turn with the file.
    ///
    /// # Errors
    /// Whatever the observer says, and [`DetectError::Model`] when a table cannot be written.
    pub(super) fn keep(
        &self,
        index: usize,
        checkpoint: &StructureCheckpoint,
    ) -> Result<(), DetectError> {
        let mut so_far = self.lock();
        so_far.checkpoints[index] = checkpoint.clone();
        if checkpoint.is_complete() {
            so_far.done[index] = 1.0;
        }
        let Some(kept) = self.kept else { return Ok(()) };
        let all = [kept.before, &so_far.checkpoints[..]].concat();
        self.observer.checkpoint(&checkpoint_bytes(kept.provenance, &all)?)
    }

    fn lock(&self) -> MutexGuard<'_, SoFar> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
