//! Where the results that are evaluated come from.

use crate::session::{
    CrossValidation, Device, Failure, LoadedModel, Watcher, detect_file, label_map_path,
};
use pbt_io::{CaseSpec, Dataset, ResultFile, case_name, read_result, segment_names};
use pbt_volume::is_box_of_landmarks;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Where results come from.
pub enum Source {
    /// Detection with a model.
    Model(Box<LoadedModel>),
    /// Files `FOLDER/<case>.json`, or `FOLDER/<case>_0000.json` of nnU-Net's images.
    Folder(PathBuf),
    /// Detection with a model trained on cases of other subjects.
    CrossValidation(Box<CrossValidation>),
}

impl Source {
    /// A folder with results, or a model.
    ///
    /// # Errors
    /// A model that cannot be read.
    pub fn of_path(path: &Path) -> Result<Self, Failure> {
        if path.is_dir() {
            Ok(Self::Folder(path.to_path_buf()))
        } else {
            Ok(Self::Model(Box::new(LoadedModel::open(path)?)))
        }
    }

    /// The data set with boxes of label maps as they were in the training of the model, if there is one:
    /// with axes of its own, boxes that are found right would seem turned.
    pub(super) fn data_set_as_learned(&self, dataset: &Dataset) -> Dataset {
        match self {
            Self::Model(model) => dataset.with_label_shapes(&model.model.provenance.label_shapes),
            Self::Folder(_) | Self::CrossValidation(_) => dataset.clone(),
        }
    }

    /// Whether the ends of a structure are loose, where a model's scores rest on that.
    pub(super) fn has_loose_ends(&self, structure: &str) -> Option<bool> {
        let Self::Model(model) = self else { return None };
        let number = model.model.structures.iter().position(|s| s.name == structure)?;
        Some(model.model.certainty_of(number)?.loose_ends)
    }

    /// Names of the structures that the results speak of.
    pub fn structures(&self, cases: &[CaseSpec]) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = match self {
            Self::Model(model) => {
                let structures = &model.model.structures;
                let landmarks =
                    structures.iter().flat_map(|s| s.landmarks()).map(|l| l.name.clone());
                let regions = model.model.regions.iter().flat_map(|r| &r.regions);
                let regions = regions.map(|region| region.name.clone());
                structures.iter().map(|s| s.name.clone()).chain(landmarks).chain(regions).collect()
            }
            Self::Folder(folder) => {
                let read =
                    cases.iter().filter_map(|case| read_result(&result_path(folder, case)).ok());
                read.flat_map(|result| result.detections).map(|d| d.name).collect()
            }
            Self::CrossValidation(turns) => turns.structures().map(str::to_owned).collect(),
        };
        // What stands for landmarks is in no result.
        names.retain(|name| !is_box_of_landmarks(name));
        names
    }

    /// Names of the labels that the results hold; `None` where nothing says them.
    pub fn label_names(&self, cases: &[CaseSpec]) -> Option<BTreeSet<String>> {
        match self {
            Self::Model(model) => Some(model.model.label_names().map(str::to_owned).collect()),
            Self::Folder(folder) => {
                let of = |case: &CaseSpec| result_labels(folder, case).into_values();
                let names: BTreeSet<String> = cases.iter().flat_map(of).collect();
                Some(names).filter(|names| !names.is_empty())
            }
            Self::CrossValidation(_) => None,
        }
    }

    /// How many models are trained on the way to the results.
    pub fn trainings(&self) -> usize {
        match self {
            Self::Model(_) | Self::Folder(_) => 0,
            Self::CrossValidation(turns) => turns.trainings(),
        }
    }

    /// The result of a case; `None` when a folder has none.
    ///
    /// # Errors
    /// An image or a result file that cannot be read, and whatever ends a training.
    pub fn result(
        &self,
        dataset: &Dataset,
        case: &CaseSpec,
        device: &Device,
        watcher: &dyn Watcher,
    ) -> Result<Option<ResultFile>, Failure> {
        match self {
            Self::Model(model) => detect_file(model, case.into(), device).map(Some),
            Self::Folder(folder) => {
                let path = result_path(folder, case);
                if path.exists() { Ok(Some(read_result(&path)?)) } else { Ok(None) }
            }
            Self::CrossValidation(turns) => turns.result(dataset, case, device, watcher).map(Some),
        }
    }
}

/// Where a folder has the result of a case.
pub(super) fn result_path(folder: &Path, case: &CaseSpec) -> PathBuf {
    folder.join(format!("{}.json", result_name(folder, case)))
}

/// What the values of a case's labels mean, as the result says; empty where it does not.
pub(super) fn result_labels(folder: &Path, case: &CaseSpec) -> BTreeMap<u16, String> {
    segment_names(&label_map_path(folder, &result_name(folder, case)))
}

/// What the files of a case's result are called: its name, or that of its image, `CASE_0000`, which a
/// batch of the images of an nnU-Net folder gives them.
pub(super) fn result_name(folder: &Path, case: &CaseSpec) -> String {
    let of_image = case_name(&case.image);
    let is_there = |name: &str| folder.join(format!("{name}.json")).exists();
    let is_channel = of_image.strip_suffix("_0000") == Some(&case.id);
    if is_channel && !is_there(&case.id) && is_there(&of_image) {
        of_image
    } else {
        case.id.clone()
    }
}
