//! What came of a case.

use super::tables::{Row, rows_of_result};
use pbt_io::ResultFile;
use serde::{Deserialize, Serialize};

/// A case that failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FailedCase {
    pub(super) case_id: String,
    pub(super) path: String,
    pub(super) reason: String,
}

/// What is known of a case when the tables are written.
pub(super) enum State {
    Found { rows: Vec<Row>, warnings: Vec<String> },
    Failed(FailedCase),
    Unknown,
}

impl State {
    pub(super) fn of_result(result: &ResultFile) -> Self {
        Self::Found { rows: rows_of_result(result), warnings: result.warnings.clone() }
    }
}
