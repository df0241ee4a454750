//! The tables of a BIDS data set: names of label values, and splits of subjects.

use super::files::Named;
use crate::IoError;
use crate::regular_file::{FileKind, read_file};
use std::collections::BTreeMap;
use std::path::Path;

/// Adds the names of a label map's values: those of the table of its name, or of the nearest folder
/// above whose table `…dseg.tsv` has no entity that the label map lacks.
pub(super) fn add_names(
    names: &mut BTreeMap<u16, String>,
    map: &Named,
    root: &Path,
) -> Result<(), IoError> {
    let applies = |table: &Named| {
        table.suffix == "dseg"
            && table.entities.iter().all(|(key, value)| map.entities.get(key) == Some(value))
    };
    for folder in map.path.ancestors().skip(1) {
        let entries =
            std::fs::read_dir(folder).map_err(|error| IoError::unreadable(folder, &error))?;
        let tables = entries.filter_map(|entry| Named::of(&entry.ok()?.path(), &[".tsv"]));
        let mut tables: Vec<Named> = tables.filter(applies).collect();
        tables.sort_by(|a, b| b.entities.len().cmp(&a.entities.len()).then(a.path.cmp(&b.path)));
        if let [first, second, ..] = &tables[..]
            && first.entities.len() == second.entities.len()
        {
            let other = first.path.file_name().unwrap_or_default().display();
            return Err(IoError::input(
                &second.path,
                "file",
                format!("names the labels of {}, as does {other}", map.stem),
                "keep one of the two, or name one as the label map",
            ));
        }
        if let Some(table) = tables.first() {
            return read_names(names, &table.path);
        }
        if folder == root {
            break;
        }
    }
    let advice = "write a table with the columns index and name";
    Err(IoError::input(
        &map.beside(".tsv"),
        "file",
        "is missing, so the label map's values have no names",
        advice,
    ))
}

fn read_names(names: &mut BTreeMap<u16, String>, path: &Path) -> Result<(), IoError> {
    let bad = |what: String| {
        IoError::input(path, "table", what, "repair the table: index and name of each label")
    };
    for row in table(path, &["index", "name"])? {
        let (line, [index, name]) = row?;
        let value: u16 = index.parse().map_err(|_| {
            bad(format!("line {line}: `{index}` is no label value from 0 to 65535"))
        })?;
        if name.is_empty() {
            return Err(bad(format!("line {line}: the name is empty")));
        }
        // 0 is the background.
        if value > 0
            && let Some(other) = names.insert(value, name.clone())
            && other != name
        {
            return Err(bad(format!(
                "line {line}: the value {value} is `{name}` here and `{other}` elsewhere"
            )));
        }
    }
    Ok(())
}

/// Subject and split, where `participants.tsv` has a column for it.
pub(super) fn splits(root: &Path) -> Result<Option<BTreeMap<String, String>>, IoError> {
    let path = root.join("participants.tsv");
    if !path.is_file() {
        return Ok(None);
    }
    let first = read_file(&path, FileKind::Document)?;
    let header = first.split(|&byte| byte == b'\n').next().unwrap_or_default();
    if !header.split(|&byte| byte == b'\t').any(|column| column.trim_ascii() == b"split") {
        return Ok(None);
    }
    table(&path, &["participant_id", "split"])?
        .map(|row| row.map(|(_, [id, split])| (id, split)))
        .collect::<Result<_, _>>()
        .map(Some)
}

pub(super) fn split_of(
    image: &Named,
    splits: &Option<BTreeMap<String, String>>,
    root: &Path,
) -> Result<String, IoError> {
    let Some(splits) = splits else { return Ok("train".to_owned()) };
    let subject = image.subject().unwrap_or_default();
    splits.get(&subject).filter(|split| !split.is_empty()).cloned().ok_or_else(|| {
        let problem = format!("has no split for `{subject}`");
        IoError::input(
            &root.join("participants.tsv"),
            "split",
            problem,
            "give each subject with a label map a split, such as train",
        )
    })
}

type Row<const N: usize> = Result<(u64, [String; N]), IoError>;

/// Line number and these columns of each row of a table with tabs.
fn table<const N: usize>(
    path: &Path,
    columns: &[&str; N],
) -> Result<std::vec::IntoIter<Row<N>>, IoError> {
    let bytes = read_file(path, FileKind::Document)?;
    let bad = |what: String| IoError::input(path, "table", what, "repair the table");
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let mut reader =
        csv::ReaderBuilder::new().delimiter(b'\t').trim(csv::Trim::All).from_reader(bytes);
    let headers = reader.headers().map_err(|error| bad(error.to_string()))?.clone();
    let mut places = [0; N];
    for (place, column) in places.iter_mut().zip(columns) {
        let found = headers.iter().position(|header| header == *column);
        *place = found.ok_or_else(|| bad(format!("has no column `{column}`")))?;
    }
    let row = |record: Result<csv::StringRecord, csv::Error>| {
        let record = record.map_err(|error| bad(error.to_string()))?;
        let line = record.position().map_or(0, csv::Position::line);
        Ok((line, places.map(|place| record.get(place).unwrap_or_default().to_owned())))
    };
    Ok(reader.records().map(row).collect::<Vec<_>>().into_iter())
}
