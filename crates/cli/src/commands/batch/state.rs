//! What came of a case.

use super::tables::Row;
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
    Rows(Vec<Row>),
    Failed(FailedCase),
    Unknown,
}
