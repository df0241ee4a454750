//! What structures say about each other.

pub(crate) mod arc;
pub(crate) mod center_prior;
pub(crate) mod choice;
pub(crate) mod fusion;
pub(crate) mod gaussian;
pub(crate) mod graph;
pub(crate) mod level_shift;
pub(crate) mod level_shift_training;
pub(crate) mod row;
pub(crate) mod search_region;
pub(crate) mod surroundings;
