//! Landmarks in the frame of a box.

pub(crate) mod close_up;
pub(crate) mod regressors;
pub(crate) mod stacking;
pub(crate) mod training;
