//! Going on from a checkpoint: the stages that an interrupted training had finished. A checkpoint is a
//! model file some of whose structures lack stages.

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
    let Ok(Contents { provenance: found, checkpoints, .. }) = read(bytes) else {
        let what = "is damaged or of another version of pbt (remove it to begin anew)";
        return Err(DetectError::model("checkpoint", what));
    };
    // Whether there are copies may be found out later.
    let expected = Provenance { copies: found.copies, ..expected.clone() };
    let Some(what) = found.difference_from(&expected) else { return Ok(checkpoints) };
    Err(DetectError::model(
        "provenance",
        format!(
            "the checkpoint was made with {what} (go on with the same, or remove it to begin anew)"
        ),
    ))
}
