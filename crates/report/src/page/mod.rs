//! Pages for a browser: an evaluation, an evaluation of labels, or a batch, in one file that loads
//! nothing from elsewhere.
//!
//! Each kind of input says what to show as a [`view::View`]; one template shows it.

mod batch;
mod chart;
mod evaluation;
mod regions;
mod view;

pub use batch::{Batch, BatchCase, BatchDetection};
pub use evaluation::Evaluation;
pub use regions::RegionEvaluation;
pub use view::{PageError, Viewer};
