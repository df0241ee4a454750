//! What is wrong, and how bad it is.

use serde::Serialize;
use std::fmt::Display;
use std::path::Path;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// Training, detection or evaluation would refuse it, or give figures that mean nothing.
    Error,
    /// It can be used; a person should look at it.
    Warning,
}

/// Something that is wrong: `FILE: FIELD: what is wrong (what to do)`.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    pub(super) message: String,
    /// The cases to look at, all of them, where the finding is about some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) cases: Vec<String>,
}

impl Finding {
    pub(super) fn error(message: impl Display) -> Self {
        // A line each, whatever a file is called.
        let message = message.to_string().replace('\n', "\\n");
        Self { severity: Severity::Error, message, cases: Vec::new() }
    }

    pub(super) fn warning(message: impl Display) -> Self {
        Self { severity: Severity::Warning, ..Self::error(message) }
    }

    /// The same finding with the cases that it is about.
    pub(super) fn in_cases<'a>(mut self, ids: impl IntoIterator<Item = &'a str>) -> Self {
        self.cases = ids.into_iter().map(str::to_owned).collect();
        self
    }

    /// Whether it is an error that names this case.
    pub(super) fn is_error_of(&self, id: &str) -> bool {
        self.severity == Severity::Error && self.cases.iter().any(|case| case == id)
    }

    pub(super) fn of(path: &Path, text: impl Display) -> String {
        format!("{}: {text}", path.display())
    }
}
