//! How sure a detection is, and how near in millimetres: learned from detections of the whole chain
//! in cases that it has not seen.

pub(crate) mod conformal;
pub(crate) mod evidence;
pub(crate) mod fitting;
pub(crate) mod learned;
pub(crate) mod logistic;
pub(crate) mod presence;
pub(crate) mod suspicion;
