//! Who is told how far something is that takes long.

use crate::session::Failure;
use pbt_detect::{DetectError, Observer};
use std::path::Path;

/// Watches work on many cases, trainings among it. Nothing needs to be done.
pub trait Watcher {
    /// Something worth knowing.
    fn note(&self, _text: &str) {}

    /// So many cases are to be gone through.
    fn begin(&self, _cases: usize) {}

    /// So many trainings of one kind are among the work of the cases, and take nearly all of its time.
    fn trainings(&self, _count: usize) {}

    /// The turn of a case has come.
    fn case(&self, _id: &str) {}

    /// It could not be used; the others go on.
    fn failed(&self, _id: &str, _failure: &Failure) {}

    /// It is done, or has failed.
    fn done(&self) {}

    /// All are done.
    fn end(&self) {}

    /// Whether to stop before the next case.
    fn interrupted(&self) -> bool {
        false
    }

    /// Who watches a training; `what` says which it is, and its finished stages go to the file `checkpoint`, if
    /// they are kept.
    fn training(&self, _what: &str, _checkpoint: Option<&Path>) -> Box<dyn Observer> {
        Box::new(Silent)
    }
}

/// Neither listens nor interrupts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Watcher for Silent {}

impl Observer for Silent {
    fn stage(&self, _structure: &str, _stage: &str, _done: f64) {}

    fn interrupted(&self) -> bool {
        false
    }

    fn checkpoint(&self, _bytes: &[u8]) -> Result<(), DetectError> {
        Ok(())
    }
}
