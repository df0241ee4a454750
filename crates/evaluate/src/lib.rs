//! What detections are worth: pure functions over plain data, the same bits on every machine.
//!
//! [`compare`] holds what was found in a case against what is annotated there. From the
//! [`Comparison`]s of many cases come the figures of an evaluation ([`Summaries`]), the differences
//! between two detectors ([`Paired`]) and what more training cases would bring ([`Series`]).
#![forbid(unsafe_code)]

mod bootstrap;
mod box_error;
mod case_errors;
mod confidence;
mod distance_transform;
mod figures;
mod instance_figures;
mod instances;
mod loose_end;
mod outlook;
mod overlap;
mod paired_bootstrap;
mod power_law;
mod proportion;
mod regions;
mod risk_coverage;
mod series;
mod summary;
mod surface;
mod tolerance;

pub use bootstrap::{CaseSum, Interval, RESAMPLES, pooled_mean, resampled_means};
pub use box_error::BoxError;
pub use case_errors::{
    Answer, CaseResult, CompareError, Comparison, Distance, Truth, compare, is_annotated,
};
pub use confidence::{Bin, Confidence, Judged};
pub use figures::{Coverage, Figures, Identification, SuccessRates, Summaries};
pub use instance_figures::{FrocPoint, InstanceFigures};
pub use instances::{instance_tolerance_mm, is_same_instance, is_unknown, matched, row, row_ends};
pub use loose_end::loose_axis;
pub use outlook::{FEWEST_SIZES, Outlook, Verdict};
pub use overlap::Overlap;
pub use paired_bootstrap::{Difference, PairError, Paired, StructureDifferences};
pub use power_law::PowerLaw;
pub use proportion::Proportion;
pub use regions::{RegionRecord, RegionSummary, compare_regions};
pub use risk_coverage::{RiskCoverage, RiskPoint};
pub use series::{CurveSize, Series};
pub use summary::{Summary, quantile, success_rates};
pub use surface::{SurfaceDistances, nsd_tolerance_mm};
pub use tolerance::{Tolerance, landmark_tolerance_mm, tolerance_mm};
