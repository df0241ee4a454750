//! What earlier runs left in the folder of results.

use super::cases::BatchCase;
use super::state::FailedCase;
use crate::session::{
    Failure, LeafFile, LoadedModel, VoxelOutput, admit, chosen, label_map_path, leaves_path,
    probabilities_path, region_labels_path,
};
use pbt_io::{FileKind, ModelRecord, OpenImage, ResultFile, read_file, read_result};
use serde::Deserialize;
use std::path::Path;

/// The result that a case has from this model, if its files are complete.
pub(super) fn earlier_result(
    folder: &Path,
    case: &BatchCase,
    model: &LoadedModel,
    output: VoxelOutput,
) -> Option<ResultFile> {
    let result = read_result(&folder.join(format!("{}.json", case.id))).ok()?;
    let usable = result.model.sha256 == model.sha256 && result.case_id == case.id;
    let regions = model.model.regions.is_some();
    let labels = output.labels() && model.has_labels();
    let complete = folder.join(format!("{}.mrk.json", case.id)).is_file()
        && (!(output.labels() || regions) || label_map_path(folder, &case.id).is_file())
        && (!(labels || regions) || region_labels_path(folder, &case.id).is_file())
        && (!output.probabilities() || probabilities_path(folder, &case.id).is_file())
        && (!output.leaves() || leaves_path(folder, &case.id, LeafFile::All).is_file())
        && (!output.first_tree_leaf() || leaves_path(folder, &case.id, LeafFile::First).is_file());
    (usable && complete).then_some(result)
}

/// Whether a case's image is the one that a result is about. Only the hash tells: files are replaced
/// by older ones, and folders by others with the same names.
pub(super) fn is_of_this_image(case: &BatchCase, model: &LoadedModel, result: &ResultFile) -> bool {
    let options = chosen(&case.options);
    let same_volume =
        ["series", "frame"].iter().all(|&key| result.run.options.get(key) == options.get(key));
    let hash = || -> Result<String, Failure> {
        // Only the voxels of all channels tell, whatever files they are in.
        match model.model.channels() {
            [] => Ok(OpenImage::open(&case.path, &case.options).and_then(OpenImage::sha256)?),
            _ => Ok(admit(model, case.input())?.read()?.sha256),
        }
    };
    same_volume && hash().is_ok_and(|hash| hash == result.input.sha256)
}

/// What an earlier run recorded.
#[derive(Deserialize)]
pub(super) struct EarlierRun {
    model: ModelRecord,
    failed: Vec<FailedCase>,
}

impl EarlierRun {
    /// Reads the record of a run; none where there is no such file.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let bytes = read_file(path, FileKind::Document).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Whether a case failed: a result that it has all the same is older.
    pub(super) fn has_failed(&self, case_id: &str) -> bool {
        self.failed.iter().any(|failed| failed.case_id == case_id)
    }

    /// The cases that failed with this model.
    pub(super) fn failures(self, model_sha256: &str) -> Vec<FailedCase> {
        if self.model.sha256 == model_sha256 { self.failed } else { Vec::new() }
    }
}
