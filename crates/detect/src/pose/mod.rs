//! Poses: steps between them, modes, the prior, orientations to try.

pub(crate) mod error;
pub(crate) mod modes;
pub(crate) mod prior;
pub(crate) mod quaternion;
pub(crate) mod rotation_cover;
pub(crate) mod shrinkage;
pub(crate) mod step;
