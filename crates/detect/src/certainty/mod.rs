//! How sure a detection is, and how near in millimetres: learned from detections of the whole chain
//! in cases that it has not seen.

pub(crate) mod calibration;
pub(crate) mod conformal;
pub(crate) mod evidence;
pub(crate) mod held_out;
pub(crate) mod structure;
pub(crate) mod suspicion;
