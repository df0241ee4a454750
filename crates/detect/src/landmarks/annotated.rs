//! Annotated landmarks of a structure.

use pbt_volume::PointLps;

/// A landmark with its place in some of the cases, by their numbers in the stage's input.
pub(crate) type AnnotatedLandmark = (String, Vec<(usize, PointLps)>);
