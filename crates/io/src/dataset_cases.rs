//! Reads the cases of a data set's file.

use crate::dataset::CaseSpec;
use crate::json::Node;
use crate::{IoError, ReadOptions};
use pbt_volume::{StructureKind, StructureSpec};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Keys of a case.
const CASE_KEYS: &[&str] =
    &["id", "image", "series", "frame", "split", "subject", "annotations", "labels", "not_drawn"];

/// What a case is read with.
pub(crate) struct Around<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) structures: &'a [StructureSpec],
    /// Names of the channels of every image, where there are several; else none.
    pub(crate) channels: &'a [String],
}

/// The cases of the list, without what is wrong, which becomes a fault.
pub(crate) fn cases(
    list: &Node,
    around: &Around<'_>,
    warnings: &mut Vec<String>,
    faults: &mut Vec<IoError>,
) -> Result<Vec<CaseSpec>, IoError> {
    let items = list.items()?;
    if items.is_empty() {
        return Err(list.error("is empty", "list the cases"));
    }
    let mut seen = BTreeMap::new();
    let read = items.iter().enumerate().map(|(n, node)| case(n, node, around, &mut seen, warnings));
    Ok(read.filter_map(|result| kept(result, faults)).collect())
}

fn case(
    n: usize,
    node: &Node,
    &Around { folder, structures, channels }: &Around<'_>,
    seen: &mut BTreeMap<String, usize>,
    warnings: &mut Vec<String>,
) -> Result<CaseSpec, IoError> {
    node.warn_unknown(CASE_KEYS, warnings)?;
    let get = |key| node.get_among(key, CASE_KEYS);
    let id = get("id")?;
    let name = id.text()?;
    // The name of a case becomes the name of its result files.
    if name.contains(['/', '\\']) || name.contains(char::is_control) || name == "." || name == ".."
    {
        return Err(id.error(
            format!("`{name}` is no file name"),
            "leave out slashes and control characters",
        ));
    }
    if let Some(first) = seen.insert(name.to_owned(), n) {
        return Err(id.error(
            format!("`{name}` is the id of cases[{first}], too"),
            "give each case its own id",
        ));
    }
    let optional_file =
        |key| node.optional(key)?.map(|value| existing_file(&value, folder)).transpose();
    let (image, further) = images(&get("image")?, folder, channels)?;
    Ok(CaseSpec {
        id: name.to_owned(),
        image,
        options: ReadOptions {
            series: optional_text(node, "series")?,
            frame: optional_frame(node)?,
            channels: channels.to_vec(),
            further,
        },
        split: get("split")?.text()?.to_owned(),
        subject: optional_text(node, "subject")?,
        annotations: existing_files(node, "annotations", folder)?,
        labels: optional_file("labels")?,
        not_drawn: not_drawn(node, structures)?,
    })
}

/// Names of regions.
fn not_drawn(node: &Node, structures: &[StructureSpec]) -> Result<Vec<String>, IoError> {
    let Some(list) = node.optional("not_drawn")? else { return Ok(Vec::new()) };
    let name = |node: &Node| {
        let name = node.text()?;
        if structures.iter().any(|s| s.name == name && s.kind == StructureKind::Region) {
            return Ok(name.to_owned());
        }
        let problem = format!("`{name}` is no structure of the kind `region`");
        Err(node.error(problem, "name regions that the case's label map leaves out"))
    };
    list.items()?.iter().map(name).collect()
}

fn existing_file(node: &Node, folder: &Path) -> Result<PathBuf, IoError> {
    let path = folder.join(node.text()?);
    if !path.is_file() {
        let what = if path.is_dir() { "is a folder, not a file" } else { "does not exist" };
        return Err(node.error(
            format!("`{}` {what}", path.display()),
            "paths are relative to the data set's file",
        ));
    }
    Ok(path)
}

/// A file, several in a list, or none.
fn existing_files(node: &Node, key: &str, folder: &Path) -> Result<Vec<PathBuf>, IoError> {
    let Some(value) = node.optional(key)? else { return Ok(Vec::new()) };
    let files = if value.raw().is_array() { value.items()? } else { vec![value] };
    files.iter().map(|file| existing_file(file, folder)).collect()
}

/// The file of an image, or of its first channel, and those of the others.
fn images(
    node: &Node,
    folder: &Path,
    channels: &[String],
) -> Result<(PathBuf, Vec<PathBuf>), IoError> {
    if !node.raw().is_array() {
        return Ok((existing_image(node, folder)?, Vec::new()));
    }
    let files = node.items()?;
    if let ([], [_, _, ..]) = (channels, &files[..]) {
        let problem = format!("is a list of {}, and the data set names no channels", files.len());
        return Err(
            node.error(problem, "add their names to the data set: \"channels\": [\"T1\", \"T2\"]")
        );
    }
    let count = channels.len().max(1);
    if let Some(lacking) = channels.get(files.len()) {
        let problem =
            format!("channel `{lacking}` is missing: {} of {count} are listed", files.len());
        return Err(node.error(problem, "list a file of each channel, in the order of `channels`"));
    }
    if files.len() != count {
        let problem = format!("is a list of {}, and there are {count} channels", files.len());
        return Err(node.error(problem, "list a file of each channel, in the order of `channels`"));
    }
    let mut found = files.iter().enumerate().map(|(n, file)| {
        existing_image(file, folder).map_err(|e| match channels.get(n) {
            Some(name) => e.of_channel(name),
            None => e,
        })
    });
    let first = found.next().unwrap_or_else(|| existing_image(node, folder))?;
    Ok((first, found.collect::<Result<_, _>>()?))
}

/// A file, or a folder, which then is a DICOM series.
fn existing_image(node: &Node, folder: &Path) -> Result<PathBuf, IoError> {
    let path = folder.join(node.text()?);
    if path.is_dir() { Ok(path) } else { existing_file(node, folder) }
}

fn optional_frame(node: &Node) -> Result<Option<usize>, IoError> {
    let Some(frame) = node.optional("frame")? else { return Ok(None) };
    let number = frame.raw().as_u64().and_then(|n| usize::try_from(n).ok());
    number.map(Some).ok_or_else(|| frame.error("is no time point", "count time points from 0"))
}

/// The value, or none and one fault more.
pub(crate) fn kept<T>(result: Result<T, IoError>, faults: &mut Vec<IoError>) -> Option<T> {
    result.map_err(|fault| faults.push(fault)).ok()
}

/// The text of a key; none where it is empty or not there.
pub(crate) fn optional_text(node: &Node, key: &str) -> Result<Option<String>, IoError> {
    match node.optional(key)? {
        Some(value) if value.raw() == &Value::String(String::new()) => Ok(None),
        Some(value) => Ok(Some(value.text()?.to_owned())),
        None => Ok(None),
    }
}
