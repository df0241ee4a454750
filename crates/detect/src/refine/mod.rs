//! Refinement: what brings a mode to the structure.

pub(crate) mod cascade;
pub(crate) mod classification;
pub(crate) mod held_out;
pub(crate) mod refinement;
pub(crate) mod regressor;
pub(crate) mod settings;
