//! What a model is for, on which data it was trained, how accurate it is and where it fails: the card
//! that lies beside it, or is in the program with it.

use crate::session::train::beside;
use crate::session::{Failure, LoadedModel};
use pbt_io::{FileKind, read_file};
use serde_json::Value;
use std::path::Path;

/// The schema of cards for programs.
pub const CARD_SCHEMA: &str = "pbt-model-card/1";

/// A card in both forms.
#[derive(Debug, Clone)]
pub struct ModelCard {
    /// For people: Markdown.
    pub text: String,
    /// For programs.
    pub record: Value,
}

impl ModelCard {
    /// The card of a model; `None` where there is none. A model `liver.pbt` has the card `liver.md`
    /// with `liver.json`, of the schema `pbt-model-card/1`.
    ///
    /// # Errors
    /// Exit code 4 when one of the two cannot be read, and for a card of another model.
    pub fn of(loaded: &LoadedModel) -> Result<Option<Self>, Failure> {
        if let Some(model) = loaded.built_in {
            let record = serde_json::from_str(model.record).map_err(Failure::other)?;
            return Ok(Some(Self { text: model.card.to_owned(), record }));
        }
        let [path, text_path] = ["json", "md"].map(|e| beside(&loaded.path, e));
        // Whatever else has such a name is not ours to judge.
        let Some(record) = read_record(&path)? else { return Ok(None) };
        let sha256 = record["model"]["sha256"].as_str().unwrap_or_default();
        if sha256 != loaded.sha256 {
            let what = format!(
                "model.sha256: is not that of {} (make the card again: cargo xtask models)",
                loaded.path.display()
            );
            return Err(Failure::input(&path, what));
        }
        let text = read_file(&text_path, FileKind::Document)?;
        Ok(Some(Self { text: String::from_utf8_lossy(&text).into_owned(), record }))
    }
}

/// The card of a file; `None` where there is no such file, or one of something else.
fn read_record(path: &Path) -> Result<Option<Value>, Failure> {
    if !path.is_file() {
        return Ok(None);
    }
    let bytes = read_file(path, FileKind::Document)?;
    let record = serde_json::from_slice::<Value>(&bytes).ok();
    Ok(record.filter(|record| record["schema"] == CARD_SCHEMA))
}
