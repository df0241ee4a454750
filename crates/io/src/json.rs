//! Walking through a JSON file with the path of every value at hand, so that each error names its
//! field.

use crate::IoError;
use crate::regular_file::{FileKind, read_file};
use pbt_volume::{did_you_mean, nearest};
use serde_json::{Map, Value};
use std::path::Path;

/// A value, its file, and where in the file it is: `cases[3].image`.
#[derive(Clone)]
pub(crate) struct Node<'a> {
    file: &'a Path,
    path: String,
    value: &'a Value,
}

/// The value that a file holds.
pub(crate) fn parse(file: &Path) -> Result<Value, IoError> {
    parse_bytes(file, &read_file(file, FileKind::Document)?)
}

/// The value in the content of a file.
pub(crate) fn parse_bytes(file: &Path, bytes: &[u8]) -> Result<Value, IoError> {
    serde_json::from_slice(bytes)
        .map_err(|error| IoError::input(file, "JSON", error.to_string(), "repair the file"))
}

impl<'a> Node<'a> {
    /// The whole content of a file.
    pub(crate) fn root(file: &'a Path, value: &'a Value) -> Self {
        Self { file, path: String::new(), value }
    }

    /// An error about this value.
    pub(crate) fn error(&self, problem: impl Into<String>, advice: impl Into<String>) -> IoError {
        let field = if self.path.is_empty() { "JSON" } else { &self.path };
        IoError::input(self.file, field, problem, advice)
    }

    /// An error about the value of a key, which may be missing.
    pub(crate) fn child_error(
        &self,
        key: &str,
        problem: impl Into<String>,
        advice: impl Into<String>,
    ) -> IoError {
        self.child(key, &Value::Null).error(problem, advice)
    }

    fn expected(&self, what: &str) -> IoError {
        let found = match self.value {
            Value::Null => "null".to_owned(),
            Value::Array(items) => format!("a list of {}", items.len()),
            Value::Object(_) => "an object".to_owned(),
            other => other.to_string().chars().take(60).collect(),
        };
        self.error(format!("is {found}, not {what}"), "see the format's description")
    }

    fn child(&self, key: &str, value: &'a Value) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self { file: self.file, path: format!("{}{dot}{key}", self.path), value }
    }

    fn object(&self) -> Result<&'a Map<String, Value>, IoError> {
        self.value.as_object().ok_or_else(|| self.expected("an object"))
    }

    /// The value of a key that must be there.
    pub(crate) fn get(&self, key: &str) -> Result<Self, IoError> {
        self.optional(key)?
            .ok_or_else(|| self.child_error(key, "is missing", "see the format's description"))
    }

    /// As [`Node::get`] for an object of which all keys are known: names the key that is there in place
    /// of a missing one.
    pub(crate) fn get_among(&self, key: &str, known: &[&str]) -> Result<Self, IoError> {
        if let Some(value) = self.optional(key)? {
            return Ok(value);
        }
        let strangers = self.object()?.keys().map(String::as_str).filter(|k| !known.contains(k));
        Err(match nearest(key, strangers) {
            Some(slip) => {
                let advice = format!("`{slip}` is there; write `{key}`");
                self.child_error(key, "is missing", advice)
            }
            None => self.child_error(key, "is missing", "see the format's description"),
        })
    }

    /// The value of a key that may be missing or null.
    pub(crate) fn optional(&self, key: &str) -> Result<Option<Self>, IoError> {
        Ok(self
            .object()?
            .get(key)
            .filter(|value| !value.is_null())
            .map(|value| self.child(key, value)))
    }

    fn has(&self, key: &str) -> bool {
        self.value.get(key).is_some()
    }

    /// Keys and values.
    pub(crate) fn entries(&self) -> Result<Vec<(&'a str, Self)>, IoError> {
        Ok(self
            .object()?
            .iter()
            .map(|(key, value)| (key.as_str(), self.child(key, value)))
            .collect())
    }

    /// The items of a list.
    pub(crate) fn items(&self) -> Result<Vec<Self>, IoError> {
        let items = self.value.as_array().ok_or_else(|| self.expected("a list"))?;
        let item =
            |(n, value)| Self { file: self.file, path: format!("{}[{n}]", self.path), value };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// A text with something in it.
    pub(crate) fn text(&self) -> Result<&'a str, IoError> {
        self.value.as_str().filter(|text| !text.is_empty()).ok_or_else(|| self.expected("a text"))
    }

    /// The value itself, where it may have several types.
    pub(crate) fn raw(&self) -> &'a Value {
        self.value
    }

    /// Exactly `N` finite numbers.
    pub(crate) fn numbers<const N: usize>(&self) -> Result<[f64; N], IoError> {
        let numbers: Option<Vec<f64>> =
            self.value.as_array().and_then(|items| items.iter().map(Value::as_f64).collect());
        let numbers = numbers.and_then(|v| <[f64; N]>::try_from(v).ok());
        numbers
            .filter(|v| v.iter().all(|x| x.is_finite()))
            .ok_or_else(|| self.expected(&format!("a list of {N} numbers")))
    }

    /// A warning for each key that is not among the known ones: most often a slip of the pen.
    pub(crate) fn warn_unknown(
        &self,
        known: &[&str],
        warnings: &mut Vec<String>,
    ) -> Result<(), IoError> {
        for (key, node) in self.entries()? {
            if !known.contains(&key) {
                let missing = known.iter().copied().filter(|known| !self.has(known));
                warnings.push(format!(
                    "{}: {}: is not a known key and is ignored{}",
                    self.file.display(),
                    node.path,
                    did_you_mean(key, missing)
                ));
            }
        }
        Ok(())
    }
}
