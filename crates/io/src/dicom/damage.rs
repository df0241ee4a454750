//! Damage of a data set.

/// What is wrong with a data set, and at which byte.
#[derive(Debug, PartialEq)]
pub(super) struct Damage {
    pub(super) at: usize,
    pub(super) what: String,
}
