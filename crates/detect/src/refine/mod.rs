//! Refinement: what brings a mode to the structure.

pub(crate) mod border_and_ridge;
pub(crate) mod cascade;
pub(crate) mod classification;
pub(crate) mod held_out_refinement;
pub(crate) mod refinement;
pub(crate) mod regressor;
