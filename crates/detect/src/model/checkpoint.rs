//! Going on from a checkpoint: the stages that an interrupted training had finished. A checkpoint is a
//! model file some of whose structures lack stages.

use crate::DetectError;
use crate::model::Provenance;
use crate::model::file::{Contents, read};
use crate::model::unfinished::StructureCheckpoint;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

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
        "other training cases".to_owned()
    } else if found.config != expected.config {
        let difference = [&found.config, &expected.config].map(serde_json::to_value);
        let difference = match difference {
            [Ok(found), Ok(expected)] => first_difference("", &found, &expected),
            _ => None,
        };
        match difference {
            Some(difference) => format!("another configuration: {difference}"),
            None => "another configuration".to_owned(),
        }
    } else if found.seed != expected.seed {
        format!("another seed: {}, now {}", found.seed, expected.seed)
    // Whether there are copies may be found out later.
    } else if found != (Provenance { copies: found.copies, ..expected.clone() }) {
        format!("another version: {}", found.pbt_version)
    } else {
        return Ok(checkpoints);
    };
    Err(DetectError::model(
        "provenance",
        format!(
            "the checkpoint was made with {what} (go on with the same, or train without --resume, which \
             replaces it)"
        ),
    ))
}

/// The first key, in alphabetical order, whose value differs, with both values.
fn first_difference(key: &str, found: &Value, expected: &Value) -> Option<String> {
    if found == expected {
        return None;
    }
    let (Value::Object(a), Value::Object(b)) = (found, expected) else {
        return Some(format!("`{key}` is {found}, now {expected}"));
    };
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    keys.into_iter().find_map(|name| {
        let of = |map: &Map<String, Value>| map.get(name).cloned().unwrap_or(Value::Null);
        let dot = if key.is_empty() { "" } else { "." };
        first_difference(&format!("{key}{dot}{name}"), &of(a), &of(b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_key_that_differs_is_named() {
        let config = |depth: u32, copies: u32| json!({ "classifier": { "pbt": { "depth": depth } }, "position": { "copies": copies } });
        let said = first_difference("", &config(2, 3), &config(4, 5));
        assert_eq!(said.unwrap(), "`classifier.pbt.depth` is 2, now 4");
        assert_eq!(first_difference("", &config(2, 3), &config(2, 3)), None);
        let missing = first_difference("", &json!({ "a": 1 }), &json!({ "a": 1, "b": [2] }));
        assert_eq!(missing.unwrap(), "`b` is null, now [2]");
    }
}
