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

impl FailedCase {
    /// One that another run recorded, without paths. If it has them, the reason may hold them anywhere.
    pub(super) fn without_paths(mut self) -> Self {
        if !self.path.is_empty() {
            self.path.clear();
            self.reason = "is in a record with paths (give all parts --no-paths)".to_owned();
        }
        self
    }
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
