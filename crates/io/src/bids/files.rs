//! The files of a BIDS data set: where they lie, and what their names say.

use crate::IoError;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Entities that a label map adds to those of its image, or that say how either was made. What
/// remains must be the same in both.
const ADDED: [&str; 7] = ["seg", "atlas", "scale", "label", "desc", "den", "hemi"];

/// Folders in the folder of a subject: sessions and types of data, and some room.
const MAX_DEPTH: usize = 4;

/// A file of a subject, by its name: `sub-01_ses-2_T1w.nii.gz`.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) path: PathBuf,
    pub(super) stem: String,
    pub(super) entities: BTreeMap<String, String>,
    pub(super) suffix: String,
}

impl Named {
    /// `None` for names that are no list of `key-value` and a suffix.
    pub(super) fn of(path: &Path, endings: &[&str]) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let stem = endings.iter().find_map(|ending| name.strip_suffix(ending))?;
        let mut parts: Vec<&str> = stem.split('_').collect();
        let suffix = parts.pop()?;
        let pairs = parts.into_iter().map(|part| {
            part.split_once('-').map(|(key, value)| (key.to_owned(), value.to_owned()))
        });
        let entities = pairs.collect::<Option<_>>()?;
        Some(Self {
            path: path.to_path_buf(),
            stem: stem.to_owned(),
            entities,
            suffix: suffix.to_owned(),
        })
    }

    /// The folder of its subject, as `participants.tsv` names it.
    pub(super) fn subject(&self) -> Option<String> {
        self.entities.get("sub").map(|sub| format!("sub-{sub}"))
    }

    /// What an image and its label map have in common. `space-orig` says that no transformation
    /// took place.
    pub(super) fn key(&self) -> BTreeMap<&str, &str> {
        let pairs = self.entities.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        pairs
            .filter(|(key, value)| !ADDED.contains(key) && (*key, *value) != ("space", "orig"))
            .collect()
    }

    pub(super) fn beside(&self, ending: &str) -> PathBuf {
        self.path.with_file_name(format!("{}{ending}", self.stem))
    }
}

/// Where images and label maps lie: one folder, or a data set and its derivatives.
pub(super) struct Roots {
    pub(super) images: Vec<PathBuf>,
    pub(super) label_maps: Vec<PathBuf>,
}

impl Roots {
    pub(super) fn of(folder: &Path) -> Result<Self, IoError> {
        // A derivative inside its data set: the choice of one of several.
        let absolute =
            std::path::absolute(folder).map_err(|error| IoError::unreadable(folder, &error))?;
        let parent = absolute
            .parent()
            .filter(|parent| parent.file_name().is_some_and(|name| name == "derivatives"));
        if let Some(raw) = parent.and_then(Path::parent) {
            return Ok(Self {
                images: vec![raw.to_path_buf(), folder.to_path_buf()],
                label_maps: vec![folder.to_path_buf()],
            });
        }
        let mut label_maps = vec![folder.to_path_buf()];
        let derivatives = folder.join("derivatives");
        if derivatives.is_dir() {
            label_maps.extend(folders(&derivatives)?);
        }
        Ok(Self { images: label_maps.clone(), label_maps })
    }
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>, IoError> {
    let entries = std::fs::read_dir(folder).map_err(|error| IoError::unreadable(folder, &error))?;
    let mut folders: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect();
    folders.sort();
    Ok(folders)
}

/// The files with one of these endings below the folders `sub-*`, in the order of their paths.
pub(super) fn files(root: &Path, endings: &[&str]) -> Result<Vec<Named>, IoError> {
    let mut found = Vec::new();
    let is_subject = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("sub-"))
    };
    for subject in folders(root)?.into_iter().filter(is_subject) {
        list(&subject, endings, &mut found, 0)?;
    }
    Ok(found)
}

fn list(
    folder: &Path,
    endings: &[&str],
    found: &mut Vec<Named>,
    depth: usize,
) -> Result<(), IoError> {
    if depth > MAX_DEPTH {
        return Err(IoError::input(
            folder,
            "folder",
            format!("is more than {MAX_DEPTH} folders deep"),
            "keep to the layout of BIDS",
        ));
    }
    let entries = std::fs::read_dir(folder).map_err(|error| IoError::unreadable(folder, &error))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            list(&path, endings, found, depth + 1)?;
        } else {
            found.extend(Named::of(&path, endings));
        }
    }
    Ok(())
}
