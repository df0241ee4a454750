//! Pictures of detections and of figures: what a reader looks at before believing a number.
//!
//! [`three_slices`] draws one case, [`sheet`] several, each as three orthogonal slices with the
//! true and the found boxes and landmarks, in a self-contained SVG file that any browser shows.
#![forbid(unsafe_code)]

mod box_names;
mod encode;
mod labels;
mod learning_curve;
mod niivue;
mod page;
mod picture;
mod plane;
mod scene;
mod shown_part;
mod shrink;

pub use labels::DrawnLabels;
pub use learning_curve::{CurvePoint, CurveSeries, learning_curve};
pub use page::{Batch, BatchCase, BatchDetection, Evaluation, PageError, RegionEvaluation, Viewer};
pub use picture::{Case, DrawnBox, DrawnPoint, Mark, PictureError, sheet, three_slices};
pub use scene::{PackedScene, Scene, SceneStructure};
