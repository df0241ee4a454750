//! What lies in a folder and below it: images, annotations and tables.

use crate::result::is_result;
use crate::{IoError, is_dicom_path, is_image_path};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Extensions of files that say nothing here, so that their first bytes need not be read.
const OTHERS: [&str; 9] = ["json", "txt", "md", "pdf", "xml", "toml", "pbt", "svg", "html"];

/// What a folder and all folders within it hold, each list sorted by path.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Image files, zip archives of DICOM files, and folders that hold DICOM files.
    pub(super) images: Vec<PathBuf>,
    /// Slicer markups.
    pub(super) markups: Vec<PathBuf>,
    /// `.fcsv`, `.csv`, `.tsv` and `.tps`.
    pub(super) tables: Vec<PathBuf>,
    /// Markups and label maps that lie beside a result of the same name: what was detected there.
    pub(super) detected: Vec<PathBuf>,
}

impl Listing {
    /// Lists a folder. Hidden files and folders are left out, and so are links to folders, which may go
    /// in circles, and the folder `own`, which holds what an earlier run has written.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub(super) fn of(folder: &Path, own: &Path) -> Result<Self, IoError> {
        let mut listing = Self::default();
        let mut results = BTreeSet::new();
        let mut folders = vec![folder.to_path_buf()];
        while let Some(below) = folders.pop() {
            let mut dicom = false;
            let unreadable = |error| IoError::unreadable(&below, &error);
            for entry in std::fs::read_dir(&below).map_err(unreadable)? {
                let entry = entry.map_err(unreadable)?;
                let path = entry.path();
                let name = entry.file_name().to_string_lossy().to_ascii_lowercase();
                if name.starts_with('.') || path == own {
                    continue;
                }
                if entry.file_type().map_err(unreadable)?.is_dir() {
                    folders.push(path);
                } else if name.ends_with(".mrk.json") {
                    listing.markups.push(path);
                } else if name.ends_with(".json") && is_result(&path) {
                    results.insert(path.with_extension(""));
                } else if [".csv", ".tsv", ".fcsv", ".tps"].iter().any(|end| name.ends_with(end)) {
                    listing.tables.push(path);
                } else if is_image_path(&path) || name.ends_with(".zip") {
                    listing.images.push(path);
                } else if !OTHERS.iter().any(|end| name.ends_with(&format!(".{end}"))) {
                    dicom = dicom || is_dicom_path(&path);
                }
            }
            if dicom {
                listing.images.push(below);
            }
        }
        let detected = |path: &mut PathBuf| was_detected(path, &results);
        for list in [&mut listing.images, &mut listing.markups] {
            listing.detected.extend(list.extract_if(.., detected));
        }
        let Self { images, markups, tables, detected } = &mut listing;
        [images, markups, tables, detected].into_iter().for_each(|list| list.sort());
        Ok(listing)
    }
}

/// Files that are written beside a result `CASE.json`, after `CASE.`.
const BESIDE_RESULTS: [&str; 6] = [
    "mrk.json",
    "pbt.seg.nrrd",
    "labels.nii.gz",
    "probabilities.nii.gz",
    "leaves.nii.gz",
    "first-tree-leaf.nii.gz",
];

/// Whether a file was written with one of the results, paths without `.json`.
fn was_detected(path: &Path, results: &BTreeSet<PathBuf>) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    BESIDE_RESULTS.iter().any(|end| {
        let case = name.strip_suffix(end).and_then(|case| case.strip_suffix('.'));
        case.is_some_and(|case| results.contains(&path.with_file_name(case)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_with_a_result_is_told_from_the_image() {
        let results = BTreeSet::from([PathBuf::from("found/a.1")]);
        let detected = |path: &str| was_detected(Path::new(path), &results);
        assert!(detected("found/a.1.mrk.json") && detected("found/a.1.labels.nii.gz"));
        for other in ["found/a.1.nii.gz", "found/a.10.mrk.json", "a.1.mrk.json", "found/a.mrk.json"]
        {
            assert!(!detected(other), "{other}");
        }
    }
}
