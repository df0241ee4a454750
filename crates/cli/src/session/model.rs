//! A model with the file that it came from.

use crate::session::built_in_models::BuiltInModel;
use crate::session::find_model::{ModelPlace, find_model};
use crate::session::{Failure, VoxelOutput};
use pbt_detect::Model;
use pbt_io::{FileKind, ModelRecord, is_image_path, read_file};
use pbt_volume::{Geometry, sha256_hex};
use std::path::{Path, PathBuf};

/// A model with the file that it came from.
pub struct LoadedModel {
    /// The model.
    pub model: Model,
    /// Its file; of a model that is in the program its name.
    pub path: PathBuf,
    /// Hash of its file.
    pub sha256: String,
    /// Length of its file.
    pub bytes: usize,
    /// Where it is in the program.
    pub built_in: Option<&'static BuiltInModel>,
}

impl LoadedModel {
    /// Reads and checks a model: a file, or one that has this name ([`find_model`]).
    ///
    /// # Errors
    /// Exit code 4 when there is none or its file cannot be read, 5 when it is not a model that this
    /// version can use.
    pub fn open(wanted: &Path) -> Result<Self, Failure> {
        match find_model(wanted)? {
            ModelPlace::File(path) => Self::of(&read_file(&path, FileKind::Model)?, path, None),
            ModelPlace::BuiltIn(model) => Self::of(model.bytes, model.name.into(), Some(model)),
        }
    }

    fn of(
        bytes: &[u8],
        path: PathBuf,
        built_in: Option<&'static BuiltInModel>,
    ) -> Result<Self, Failure> {
        let model = Model::from_bytes(bytes).map_err(|e| {
            // What a parser says of an image tells nobody that two options were swapped.
            if is_image_path(&path) {
                return Failure::model(&path, "file: is an image, not a model (give a model)");
            }
            Failure::from(e).about(&path)
        })?;
        Ok(Self { model, path, sha256: sha256_hex(&[bytes]), bytes: bytes.len(), built_in })
    }

    /// The most bytes that a search in an image of so many bytes a voxel and channel takes, the image
    /// itself among them.
    ///
    /// # Errors
    /// Exit code 4 for an image that cannot be searched, too large or too small.
    pub fn memory_bytes(&self, geometry: &Geometry, voxel_bytes: u64) -> Result<u64, Failure> {
        let needed = match &self.model.regions {
            Some(regions) => regions.memory_bytes(geometry, voxel_bytes),
            None => self.model.memory_bytes(geometry, voxel_bytes),
        };
        Ok(needed?)
    }

    /// Whether it can give what is wanted of the voxels.
    ///
    /// # Errors
    /// Exit code 2 where probabilities are wanted and it has learned no labels, or leaves and it has
    /// learned no regions.
    pub fn check_output(&self, output: VoxelOutput) -> Result<(), Failure> {
        if output.probabilities() && !self.has_labels() {
            let what =
                "--probabilities: the model has learned no labels (train it with label maps)";
            return Err(Failure::usage(what));
        }
        if output.trees() > 0 && self.model.regions.is_none() {
            let what = "--voxel-output: the model has no forest of regions, so there are no leaves (leave \
                        out leaves and first-tree-leaf)";
            return Err(Failure::usage(what));
        }
        Ok(())
    }

    /// Whether it has learned what voxels belong to.
    pub fn has_labels(&self) -> bool {
        self.model.regions.is_some() || !self.model.masks.is_empty()
    }

    /// How results name it.
    pub fn record(&self) -> ModelRecord {
        let name =
            self.path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
        ModelRecord {
            name,
            sha256: self.sha256.clone(),
            version: self.model.provenance.pbt_version.clone(),
        }
    }
}
