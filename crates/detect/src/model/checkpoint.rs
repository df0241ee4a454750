//! Going on from a checkpoint: the stages that an interrupted training had finished. A checkpoint is a
//! model file whose last structures lack stages.

use crate::DetectError;
use crate::model::Provenance;
use crate::model::file::{Contents, read};
use crate::model::unfinished::StructureCheckpoint;

/// The stages of a checkpoint, which must come from the same data, configuration, seed and version.
///
/// # Errors
/// [`DetectError::Model`] when it does not, or the file is damaged.
pub(crate) fn finished_stages(
    bytes: &[u8],
    expected: &Provenance,
) -> Result<Vec<StructureCheckpoint>, DetectError> {
    let Contents { provenance: found, checkpoints, .. } = read(bytes)?;
    let what = if found.training_sha256 != expected.training_sha256 {
        "training cases"
    } else if found.config != expected.config {
        "configuration"
    } else if found.seed != expected.seed {
        "seed"
    } else if found != *expected {
        "version"
    } else {
        return Ok(checkpoints);
    };
    Err(DetectError::model(
        "provenance",
        format!("the checkpoint was made with another {what} (train without --resume)"),
    ))
}
