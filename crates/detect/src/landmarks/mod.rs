//! Landmarks in the frame of a box.

pub(crate) mod annotated;
pub(crate) mod close_up;
pub(crate) mod contradicted;
pub(crate) mod frame_errors;
pub(crate) mod held_out_estimates;
mod refit;
pub(crate) mod stacking;
pub(crate) mod stage;
pub(crate) mod training;
