//! Pictures of detections: what a reader looks at before believing a number.
//!
//! [`three_slices`] draws one case, [`sheet`] several, each as three orthogonal slices with the true and the found boxes and
//! landmarks, in a self-contained SVG file that any browser shows.
#![forbid(unsafe_code)]

mod encode;
mod picture;
mod plane;

pub use picture::{Case, DrawnBox, DrawnPoint, Mark, PictureError, sheet, three_slices};
