//! The stages of detection: position, orientation, verification, and what they share.

pub(crate) mod calibration;
pub(crate) mod classifier;
pub(crate) mod input;
pub(crate) mod orientation;
pub(crate) mod position;
pub(crate) mod samples;
pub(crate) mod sampling;
pub(crate) mod verification;
mod verification_training;
