//! A file of an image in two steps: the header, which says what the voxels will take, and then the
//! voxels.

use crate::dicom::DicomImage;
use crate::file_names::{EXTENSIONS, extension, is_dicom_path};
use crate::loaded::{Loaded, ReadOptions};
use crate::memory_plan::MemoryPlan;
use crate::photo::Photo;
use crate::raw::RawImage;
use crate::stored::{StoredImage, Volumes};
use crate::{IoError, dicom, metaimage, nifti, nrrd};
use pbt_volume::{Geometry, LengthUnit};
use std::path::{Path, PathBuf};

/// A file, or a DICOM series, of which the header was read and checked, and no voxel yet.
pub(crate) struct OpenFile {
    path: PathBuf,
    content: Content,
}

enum Content {
    Stored(StoredImage),
    Dicom(DicomImage),
    Photo(Photo),
}

impl OpenFile {
    /// Reads the header of a file of any format that [`crate::read_image`] takes.
    pub(crate) fn open(
        path: &Path,
        options: &ReadOptions,
        volumes: Volumes,
    ) -> Result<Self, IoError> {
        Ok(Self { path: path.to_path_buf(), content: content(path, options, volumes)? })
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Shape and placement.
    pub(crate) fn geometry(&self) -> &Geometry {
        match &self.content {
            Content::Stored(image) => image.geometry(),
            Content::Dicom(image) => image.geometry(),
            Content::Photo(image) => image.geometry(),
        }
    }

    /// What the wanted volume takes.
    pub(crate) fn plan(&self) -> MemoryPlan {
        match &self.content {
            Content::Stored(image) => image.plan(),
            Content::Dicom(image) => image.plan(),
            Content::Photo(image) => image.plan(),
        }
    }

    /// Number of volumes or colours in it.
    pub(crate) fn volumes(&self) -> usize {
        match &self.content {
            Content::Stored(image) => image.volumes(),
            Content::Dicom(_) => 1,
            Content::Photo(image) => image.colours(),
        }
    }

    /// What lengths count: a photograph has no scale.
    pub(crate) fn unit(&self) -> LengthUnit {
        match self.content {
            Content::Photo(_) => LengthUnit::Pixels,
            Content::Stored(_) | Content::Dicom(_) => LengthUnit::Mm,
        }
    }

    /// The hash of its bytes, without the voxels where they are not needed for it.
    pub(crate) fn sha256(self) -> Result<String, IoError> {
        match self.content {
            Content::Stored(image) => Ok(image.sha256()),
            Content::Photo(image) => Ok(image.sha256()),
            Content::Dicom(image) => Ok(image.load()?.sha256),
        }
    }

    /// The wanted volume.
    pub(crate) fn load(self) -> Result<Loaded, IoError> {
        match self.content {
            Content::Stored(image) => image.load(),
            Content::Dicom(image) => image.load(),
            Content::Photo(image) => image.load(),
        }
    }

    /// All volumes or colours, and warnings.
    pub(crate) fn load_all(self) -> Result<(Vec<RawImage>, Vec<String>), IoError> {
        match self.content {
            Content::Stored(image) => image.load_all(),
            Content::Photo(image) => image.load_colours(),
            Content::Dicom(image) => {
                let Loaded { raw, warnings, .. } = image.load()?;
                Ok((vec![raw], warnings))
            }
        }
    }
}

fn content(path: &Path, options: &ReadOptions, volumes: Volumes) -> Result<Content, IoError> {
    if path.is_dir() {
        return dicom::open(path, options).map(Content::Dicom);
    }
    let format = extension(path, &[&EXTENSIONS[..], &["img.gz", "img"]].concat());
    if let (Some(_), Some(series)) = (format, &options.series) {
        let problem = format!("there is no series {series}: this is no DICOM");
        return Err(IoError::input(path, "series", problem, "leave out --series"));
    }
    match format {
        Some("mha" | "mhd") => metaimage::open(path, volumes).map(Content::Stored),
        Some("png" | "jpg" | "jpeg" | "tif" | "tiff") => {
            Photo::open(path, volumes).map(Content::Photo)
        }
        Some("nrrd" | "nhdr") => nrrd::open(path, volumes).map(Content::Stored),
        Some(_) => nifti::open(path, volumes).map(Content::Stored),
        None if is_dicom_path(path) => dicom::open(path, options).map(Content::Dicom),
        None if !path.exists() => {
            Err(IoError::unreadable(path, &std::io::ErrorKind::NotFound.into()))
        }
        None if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("pbt")) => {
            let problem = "is a model, not an image";
            Err(IoError::input(path, "file", problem, "give the model to -m, and an image here"))
        }
        None => Err(IoError::input(
            path,
            "file",
            "has no extension of a known image format and is no DICOM",
            "give a .nii, .nii.gz, .hdr, .mha, .mhd, .nrrd, .nhdr, .png, .jpg or .tif file, a DICOM file or folder, or a .zip of one",
        )),
    }
}
