//! What a user says beforehand.

use crate::dataset::Modality;
use std::collections::BTreeMap;

/// The structure's name where neither a file nor the user gives one.
const NAMELESS: &str = "structure";

/// What files do not say, or say otherwise than it is.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Name of the data set; that of the folder otherwise.
    pub name: Option<String>,
    /// What made the images; guessed otherwise.
    pub modality: Option<Modality>,
    /// Name of the only structure, where files give none.
    pub structure: Option<String>,
    /// Names of label values.
    pub labels: BTreeMap<u16, String>,
    /// The wanted structures, by name or by value of label maps; all where it is empty.
    pub only: Vec<String>,
    /// `LPS` or `RAS`, of tables that do not say it.
    pub space: Option<String>,
}

impl Options {
    pub(super) fn structure(&self) -> &str {
        self.structure.as_deref().unwrap_or(NAMELESS)
    }
}
