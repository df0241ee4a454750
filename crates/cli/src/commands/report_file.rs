//! The report of an evaluation or a learning curve as a file.

use crate::Failure;
use crate::output::say;
use crate::session::write_json;
use serde::Serialize;
use std::path::Path;

/// Schema of the report of an evaluation.
pub(super) const EVALUATION_SCHEMA: &str = "pbt-evaluation/1";

/// Schema of the report of an evaluation of label maps.
pub(super) const REGION_EVALUATION_SCHEMA: &str = "pbt-region-evaluation/1";

/// Writes a report as JSON where one is wanted, and says so.
///
/// # Errors
/// Exit code 1 when it cannot be written.
pub(super) fn write_report(
    path: Option<&Path>,
    report: &impl Serialize,
    quiet: bool,
) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    write_json(path, report)?;
    say(quiet, format_args!("report: {}", path.display()));
    Ok(())
}
