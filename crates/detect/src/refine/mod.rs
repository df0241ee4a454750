//! Refinement: what brings a mode to the structure.

pub(crate) mod classification;
pub(crate) mod error;
pub(crate) mod refinement;
pub(crate) mod regression;
pub(crate) mod shrinkage;
