//! The stages of detection: position, orientation, verification, and what they share.

pub(crate) mod classifier;
pub(crate) mod contents;
pub(crate) mod input;
pub(crate) mod orientation;
pub(crate) mod platt_scaling;
pub(crate) mod position;
pub(crate) mod position_channel;
pub(crate) mod sample_source;
pub(crate) mod sampling;
pub(crate) mod verification;
mod verification_training;
pub(crate) mod voxel_search;
