//! The structures that a user wants, where a folder shows more.

use super::notes::{few, structures_of};
use super::scans::Scan;
use crate::IoError;
use crate::region_labels::IGNORE;
use pbt_volume::{StructureSpec, did_you_mean};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Names of structures; none means all of them.
#[derive(Debug, Default)]
pub(super) struct Only {
    names: BTreeSet<String>,
    /// Names of all labels and masks, wanted or not.
    labels: BTreeSet<String>,
    /// A value of the label maps, if they have any.
    value: Option<u16>,
}

impl Only {
    /// What `words` mean: values that label maps hold, by their names, and names.
    pub(super) fn of(
        words: &[String],
        scans: &[Scan],
        found: &BTreeSet<u16>,
        names: &BTreeMap<u16, String>,
    ) -> Self {
        let of_value = |word: &str| {
            let value = word.parse().ok().filter(|value| found.contains(value))?;
            names.get(&value).cloned()
        };
        let name = |word: &String| of_value(word).unwrap_or_else(|| word.clone());
        let of_maps = found.iter().filter_map(|value| names.get(value));
        let of_masks = scans.iter().flat_map(|scan| &scan.masks).map(|mask| &mask.name);
        Self {
            names: words.iter().map(name).collect(),
            labels: of_maps.chain(of_masks).cloned().collect(),
            value: found.first().copied(),
        }
    }

    /// Takes away masks that nobody wants: in a label map of all masks they would have voxels of others.
    pub(super) fn keep_masks(&self, scans: &mut [Scan]) {
        let wanted = |name: &String| self.names.contains(name) || name == IGNORE;
        if !self.names.is_empty() {
            scans.iter_mut().for_each(|scan| scan.masks.retain(|mask| wanted(&mask.name)));
        }
    }

    /// Takes out other structures, and says which.
    ///
    /// # Errors
    /// A wanted name that nothing in the folder has.
    pub(super) fn keep_structures(
        &self,
        structures: &mut Vec<StructureSpec>,
        folder: &Path,
    ) -> Result<Option<String>, IoError> {
        if self.names.is_empty() {
            return Ok(None);
        }
        let mut known = self.labels.clone();
        known.extend(structures.iter().map(|s| s.name.clone()));
        if let Some(unknown) = self.names.iter().find(|name| !known.contains(*name)) {
            let meant = did_you_mean(unknown, known.iter().map(String::as_str));
            let known: Vec<String> = known.into_iter().collect();
            let what = format!(
                "`{}` is no name of a structure and no value of a label map here{meant}",
                unknown.escape_debug()
            );
            let mut advice = format!("there are {}", few(&known, ", "));
            if let Some(value) = self.value {
                advice.push_str(&format!("; --label {value}=NAME names a value"));
            }
            return Err(IoError::input(folder, "--only", what, advice));
        }
        structures.retain(|structure| self.names.contains(&structure.name));
        let others: Vec<String> = known.difference(&self.names).cloned().collect();
        let (some, list) = (structures_of(others.len()), few(&others, ", "));
        Ok((!others.is_empty()).then(|| format!("{some} that --only does not name: {list}")))
    }
}
