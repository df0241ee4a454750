//! Cases divided into parts of which one after the other is held out; subjects are never divided.

use crate::data::case::{TrainingCase, subjects};

/// Parts, where there are so many subjects: what is left when one is held out resembles the whole,
/// and training two or three times more is bearable.
const PARTS: usize = 3;

/// The parts that cases are divided into.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Folds {
    count: usize,
}

impl Folds {
    /// The parts of so many subjects.
    pub(crate) fn new(subjects: usize) -> Self {
        Self { count: subjects.min(PARTS) }
    }

    /// The parts of the subjects of these cases.
    pub(crate) fn of(cases: &[TrainingCase]) -> Self {
        Self::new(subjects(cases))
    }

    /// Number of parts.
    pub(crate) fn count(self) -> usize {
        self.count
    }

    /// Whether a subject is in the part that is held out.
    pub(crate) fn holds_out(self, fold: usize, subject: usize) -> bool {
        subject % self.count == fold
    }
}
