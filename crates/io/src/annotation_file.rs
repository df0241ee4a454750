//! Annotations of any known format.

use crate::annotations::Annotations;
use crate::{IoError, read_markups, read_points};
use std::path::Path;

/// Reads annotations by the file's extension: tables of landmarks (`.fcsv`, `.csv`, `.tsv`), else
/// Slicer markups.
///
/// # Errors
/// As [`crate::read_points`] and [`crate::read_markups`].
pub fn read_annotations(path: &Path) -> Result<Annotations, IoError> {
    let is = |extension: &str| path.extension().is_some_and(|e| e.eq_ignore_ascii_case(extension));
    if ["fcsv", "csv", "tsv"].into_iter().any(is) { read_points(path) } else { read_markups(path) }
}
