//! What lies in a folder and below it: images, annotations and tables.

use crate::{IoError, is_dicom_path, is_image_path};
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
    /// `.fcsv`, `.csv` and `.tsv`.
    pub(super) tables: Vec<PathBuf>,
}

impl Listing {
    /// Lists a folder. Hidden files and folders are left out, and so are links to folders, which may go
    /// in circles, and the folder `own`, which holds what an earlier run has written.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub(super) fn of(folder: &Path, own: &Path) -> Result<Self, IoError> {
        let mut listing = Self::default();
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
                } else if [".csv", ".tsv", ".fcsv"].iter().any(|end| name.ends_with(end)) {
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
        for list in [&mut listing.images, &mut listing.markups, &mut listing.tables] {
            list.sort();
        }
        Ok(listing)
    }
}
