//! What the text headers of MetaImage and NRRD have in common: lines, numbers, and a data file that
//! must lie beside the header.

use crate::IoError;
use crate::stored::FileBytes;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Headers are a few hundred bytes, those of segmentations with many names some hundred thousand; a
/// longer one is no header.
const MAX_HEADER_BYTES: usize = 1 << 20;

/// The fields of a header, keys in lower case, and where the header ends.
pub(crate) struct TextHeader<'a> {
    path: &'a Path,
    fields: BTreeMap<String, String>,
}

/// One line of a file, without its end, and the offset of the next one.
pub(crate) fn line_at(bytes: &[u8], start: usize) -> Option<(&[u8], usize)> {
    let rest = bytes.get(start..).filter(|rest| !rest.is_empty())?;
    let length = rest.iter().take(MAX_HEADER_BYTES).position(|&b| b == b'\n')?;
    Some((rest[..length].trim_ascii(), start + length + 1))
}

/// Whether a header that goes on at `offset` is too long to be one.
pub(crate) fn too_long(offset: usize) -> bool {
    offset > MAX_HEADER_BYTES
}

impl<'a> TextHeader<'a> {
    pub(crate) fn new(path: &'a Path) -> Self {
        Self { path, fields: BTreeMap::new() }
    }

    /// Adds a field.
    ///
    /// # Errors
    /// When it is there already: two values would leave open which one counts.
    pub(crate) fn insert(&mut self, key: &str, value: &str) -> Result<(), IoError> {
        match self.fields.insert(key.to_ascii_lowercase(), value.to_owned()) {
            None => Ok(()),
            Some(_) => Err(self.error(key, "is there twice")),
        }
    }

    pub(crate) fn error(&self, field: &str, problem: impl Into<String>) -> IoError {
        IoError::input(self.path, field, problem, "repair the header or export the volume again")
    }

    /// The value of the first of several names of a field that is there, with that name.
    pub(crate) fn any<'k>(&self, keys: &[&'k str]) -> Option<(&'k str, &str)> {
        keys.iter()
            .find_map(|&key| Some((key, self.fields.get(&key.to_ascii_lowercase())?.as_str())))
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.fields.get(&key.to_ascii_lowercase()).map(String::as_str)
    }

    pub(crate) fn required(&self, key: &str) -> Result<&str, IoError> {
        self.get(key).ok_or_else(|| self.error(key, "is missing"))
    }

    /// Exactly `N` numbers separated by white space.
    pub(crate) fn numbers<T: FromStr + Copy, const N: usize>(
        &self,
        key: &str,
        text: &str,
    ) -> Result<[T; N], IoError> {
        let numbers: Option<Vec<T>> =
            text.split_whitespace().map(|word| word.parse().ok()).collect();
        numbers
            .and_then(|v| v.try_into().ok())
            .ok_or_else(|| self.error(key, format!("`{text}` is not {N} numbers")))
    }

    /// `count` numbers separated by white space.
    pub(crate) fn floats(&self, key: &str, text: &str, count: usize) -> Result<Vec<f64>, IoError> {
        let numbers: Option<Vec<f64>> =
            text.split_whitespace().map(|word| word.parse().ok()).collect();
        let numbers = numbers.filter(|numbers| numbers.len() == count);
        numbers.ok_or_else(|| self.error(key, format!("`{text}` is not {count} numbers")))
    }

    /// The data file, which must lie in the header's folder: a header from elsewhere may not make
    /// us read any file of the system.
    pub(crate) fn data_file(&self, key: &str, name: &str) -> Result<FileBytes, IoError> {
        let plain = !name.is_empty()
            && !name.contains(['/', '\\', '\0', '%'])
            && name != "."
            && name != "..";
        if !plain {
            let problem = format!("`{name}` is not the name of one file in the same folder");
            return Err(IoError::input(
                self.path,
                key,
                problem,
                "move the data file beside the header and name it alone",
            ));
        }
        let file: PathBuf = self.path.with_file_name(name);
        if !file.is_file() {
            return Err(IoError::input(
                self.path,
                key,
                format!("`{name}` does not exist beside it"),
                "keep header and data file together",
            ));
        }
        FileBytes::read(&file)
    }
}
