//! Which model is meant: a file, or a name that folders of models or the program itself know.

use crate::session::Failure;
use crate::session::built_in_models::{BUILT_IN_MODELS, BuiltInModel};
use pbt_volume::nearest;
use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// Folders of models, separated as those of `PATH` are.
const VARIABLE: &str = "PBT_MODELS";

/// The name of a folder of models, in the current folder and beside the program.
const FOLDER: &str = "models";

/// So many names are listed where one is not found.
const LISTED: usize = 12;

/// Where a model is.
#[derive(Debug)]
pub enum ModelPlace {
    /// In a file.
    File(PathBuf),
    /// In the program.
    BuiltIn(&'static BuiltInModel),
}

/// Finds a model. A file is meant before a name, also without its `.pbt`. A name, with or without
/// `.pbt`, is sought in `models` of the current folder, in the folders that the variable `PBT_MODELS` lists, in `models` beside the
/// program, and in the program.
///
/// # Errors
/// Exit code 4 for a folder, and for a name that is nowhere: the line says where it was sought.
pub fn find_model(wanted: &Path) -> Result<ModelPlace, Failure> {
    find_in(wanted, &folders())
}

fn folders() -> Vec<PathBuf> {
    let listed = env::var_os(VARIABLE).unwrap_or_default();
    let listed = env::split_paths(&listed).filter(|folder| !folder.as_os_str().is_empty());
    let program = env::current_exe().ok();
    let beside = program.as_deref().and_then(Path::parent).map(|folder| folder.join(FOLDER));
    std::iter::once(PathBuf::from(FOLDER)).chain(listed).chain(beside).collect()
}

fn find_in(wanted: &Path, folders: &[PathBuf]) -> Result<ModelPlace, Failure> {
    let is_folder = wanted.is_dir();
    let Some(name) = name_of(wanted).filter(|_| is_folder || !wanted.exists()) else {
        if is_folder {
            return Err(Failure::input(wanted, "file: is a folder (give a model file)"));
        }
        // What is not there, or cannot be read, is told by who reads it.
        return Ok(ModelPlace::File(wanted.to_path_buf()));
    };
    let with_extension = format!("{name}.pbt");
    let named = folders.iter().flat_map(|folder| [folder.join(name), folder.join(&with_extension)]);
    let mut files = std::iter::once(PathBuf::from(&with_extension)).chain(named);
    if let Some(file) = files.find(|file| file.is_file()) {
        return Ok(ModelPlace::File(file));
    }
    let stem = name.strip_suffix(".pbt").unwrap_or(name);
    if let Some(model) = BUILT_IN_MODELS.iter().find(|model| model.name == stem) {
        return Ok(ModelPlace::BuiltIn(model));
    }
    if is_folder {
        return Err(Failure::input(wanted, "file: is a folder (give a model file)"));
    }
    if let Some(card) = card_of(stem, folders) {
        let what = format!(
            "model: only its card is there, {} (which says how to train the model)",
            card.display()
        );
        return Err(Failure::input(wanted, what));
    }
    let what = format!(
        "model: there is no such file, nor a model of that name in {} or the program ({})",
        listed(folders),
        advice(stem, folders)
    );
    Err(Failure::input(wanted, what))
}

/// The card of a model that is not there itself: `models` of the source code holds some whose data do
/// not allow more.
fn card_of(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let file = |folder: &PathBuf, extension: &str| folder.join(format!("{name}.{extension}"));
    let folder = folders.iter().find(|folder| file(folder, "json").is_file())?;
    Some(file(folder, "md")).filter(|card| card.is_file())
}

/// The text of a path that is no more than a name.
fn name_of(path: &Path) -> Option<&str> {
    let mut components = path.components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(name)), None) => name.to_str(),
        _ => None,
    }
}

/// `models, /opt/models (PBT_MODELS is not set)`
fn listed(folders: &[PathBuf]) -> String {
    let names: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let unset = env::var_os(VARIABLE).is_none_or(|value| value.is_empty());
    format!("{}{}", names.join(", "), if unset { " (PBT_MODELS is not set)" } else { "" })
}

/// The name that was probably meant, or all that there are.
fn advice(wanted: &str, folders: &[PathBuf]) -> String {
    let names = names_in(folders);
    match nearest(wanted, names.iter().map(String::as_str)) {
        Some(name) => format!("did you mean `{name}`?"),
        None => {
            let shown: Vec<&str> = names.iter().take(LISTED).map(String::as_str).collect();
            let more = if names.len() > LISTED { ", …" } else { "" };
            format!("there are: {}{more}", shown.join(", "))
        }
    }
}

/// The names of all models that are there, sorted.
fn names_in(folders: &[PathBuf]) -> BTreeSet<String> {
    let files = folders.iter().filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
    let models = files
        .map(|entry| entry.path())
        .filter(|path| path.extension() == Some(OsStr::new("pbt")) && path.is_file());
    let names = models.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    names.chain(BUILT_IN_MODELS.iter().map(|model| model.name.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn file_of(place: Result<ModelPlace, Failure>) -> PathBuf {
        match place.unwrap() {
            ModelPlace::File(path) => path,
            ModelPlace::BuiltIn(model) => panic!("{} is built in", model.name),
        }
    }

    #[test]
    fn the_first_folder_that_has_the_name_counts() {
        let root = tempfile::tempdir().unwrap();
        let folders = ["a", "b"].map(|name| root.path().join(name));
        folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        for file in ["a/liver.pbt", "b/liver.pbt", "b/spleen.pbt", "b/phantom-ct.pbt"] {
            fs::write(root.path().join(file), "").unwrap();
        }
        // A folder is no model.
        fs::create_dir(root.path().join("a/spleen.pbt")).unwrap();
        let found = |name: &str| file_of(find_in(Path::new(name), &folders));
        assert_eq!(found("liver"), folders[0].join("liver.pbt"));
        assert_eq!(found("liver.pbt"), folders[0].join("liver.pbt"));
        assert_eq!(found("spleen"), folders[1].join("spleen.pbt"));
        // A model of the user's own goes before one of the program.
        assert_eq!(found("phantom-ct"), folders[1].join("phantom-ct.pbt"));
        let built_in = find_in(Path::new("phantom-us.pbt"), &folders).unwrap();
        assert!(matches!(built_in, ModelPlace::BuiltIn(model) if model.name == "phantom-us"));
        // What has a folder, or is there, is a path and no name.
        let path = folders[1].join("spleen.pbt");
        assert_eq!(file_of(find_in(&path, &folders)), path);
        assert_eq!(found("./liver"), Path::new("./liver"));
    }

    #[test]
    fn a_name_that_is_nowhere_is_told_with_the_nearest_one() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("hippocampus.pbt"), "").unwrap();
        let folders = [root.path().to_path_buf()];
        let told = |name: &str| find_in(Path::new(name), &folders).unwrap_err().to_string();
        let line = told("hipocampus");
        assert!(
            line.starts_with("hipocampus: model: ") && line.contains("`hippocampus`"),
            "{line}"
        );
        assert!(line.contains(&root.path().display().to_string()), "{line}");
        let line = told("xyz");
        assert!(
            line.ends_with("(there are: hippocampus, phantom-ct, phantom-mr, phantom-us)"),
            "{line}"
        );
        // Its card alone: a card has both files.
        fs::write(root.path().join("liver.md"), "").unwrap();
        assert!(told("liver").contains("there are: hippocampus"), "{}", told("liver"));
        fs::write(root.path().join("liver.json"), "").unwrap();
        let line = told("liver.pbt");
        assert!(line.starts_with("liver.pbt: model: only its card is there, "), "{line}");
        assert!(line.contains("liver.md"), "{line}");
        let folder = find_in(root.path(), &folders).unwrap_err().to_string();
        assert!(folder.contains("is a folder"), "{folder}");
    }
}
