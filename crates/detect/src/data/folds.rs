//! Cases divided into parts of which one is held out: subjects are never divided.

use crate::data::case::{TrainingCase, subjects};

/// The parts that cases are divided into.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Folds {
    count: usize,
}

impl Folds {
    /// So many parts, or one a subject where there are fewer subjects.
    pub(crate) fn new(subjects: usize, most: usize) -> Self {
        Self { count: subjects.min(most) }
    }

    /// The same for the subjects of these cases.
    pub(crate) fn of(cases: &[TrainingCase], most: usize) -> Self {
        Self::new(subjects(cases), most)
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
