//! Images in two steps: the header, which says what the voxels will take, and then the voxels. All
//! images of `pbt` come in by this door.

use crate::dicom::DicomImage;
use crate::loaded::{Loaded, ReadOptions};
use crate::memory_plan::MemoryPlan;
use crate::photo::Photo;
use crate::read_image::{EXTENSIONS, Image, extension, is_dicom_path, no_label};
use crate::stored::StoredImage;
use crate::{IoError, dicom, metaimage, nifti, nrrd};
use pbt_volume::{Geometry, Volume, check_memory};
use std::path::{Path, PathBuf};

/// An image of which the header was read and checked, and no voxel yet.
pub struct OpenImage {
    path: PathBuf,
    content: Content,
}

enum Content {
    Stored(StoredImage),
    Dicom(DicomImage),
    Photo(Photo),
}

impl OpenImage {
    /// Reads the header of an image, of any format that [`crate::read_image`] takes.
    ///
    /// # Errors
    /// [`IoError`] (an input error) when the file cannot be read, its header is damaged or asks for
    /// more than the file can hold, it is not one 3D volume of real numbers, or does not say where
    /// its voxels lie in the patient.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self, IoError> {
        Ok(Self { path: path.to_path_buf(), content: Self::content(path, options)? })
    }

    fn content(path: &Path, options: &ReadOptions) -> Result<Content, IoError> {
        if path.is_dir() {
            return dicom::open(path, options).map(Content::Dicom);
        }
        let format = extension(path, &[&EXTENSIONS[..], &["img.gz", "img"]].concat());
        if let (Some(_), Some(series)) = (format, &options.series) {
            let problem = format!("there is no series {series}: this is no DICOM");
            return Err(IoError::input(path, "series", problem, "leave out --series"));
        }
        match format {
            Some("mha" | "mhd") => metaimage::open(path, options.frame).map(Content::Stored),
            Some("png" | "jpg" | "jpeg" | "tif" | "tiff") => {
                Photo::open(path, options.frame).map(Content::Photo)
            }
            Some("nrrd" | "nhdr") => nrrd::open(path, options.frame).map(Content::Stored),
            Some(_) => nifti::open(path, options.frame).map(Content::Stored),
            None if is_dicom_path(path) => dicom::open(path, options).map(Content::Dicom),
            None if !path.exists() => {
                Err(IoError::unreadable(path, &std::io::ErrorKind::NotFound.into()))
            }
            None => Err(IoError::input(
                path,
                "file",
                "has no extension of a known image format and is no DICOM",
                "give a .nii, .nii.gz, .hdr, .mha, .mhd, .nrrd, .nhdr, .png, .jpg or .tif file, a DICOM file or folder, or a .zip of one",
            )),
        }
    }

    /// Shape and placement.
    pub fn geometry(&self) -> &Geometry {
        match &self.content {
            Content::Stored(image) => image.geometry(),
            Content::Dicom(image) => image.geometry(),
            Content::Photo(image) => image.geometry(),
        }
    }

    fn plan(&self) -> MemoryPlan {
        match &self.content {
            Content::Stored(image) => image.plan(),
            Content::Dicom(image) => image.plan(),
            Content::Photo(image) => image.plan(),
        }
    }

    /// The most bytes that [`OpenImage::read`] holds at a time.
    pub fn memory_bytes(&self) -> u64 {
        self.plan().image_bytes()
    }

    /// Whether [`OpenImage::read`] may take what it needs.
    pub(crate) fn check_memory(&self) -> Result<(), IoError> {
        self.check(self.memory_bytes())
    }

    fn check(&self, bytes: u64) -> Result<(), IoError> {
        check_memory(bytes).map_err(|error| IoError::memory(&self.path, &error))
    }

    /// The image as real values.
    ///
    /// # Errors
    /// [`IoError`] (an input error) when there is no memory for it, or the voxels are damaged.
    pub fn read(self) -> Result<Image, IoError> {
        self.check_memory()?;
        let path = self.path.clone();
        let in_pixels = matches!(self.content, Content::Photo(_));
        let Loaded { raw, sha256, warnings } = self.load()?;
        let volume = raw.to_f32().map_err(|error| IoError::memory(&path, &error))?;
        Ok(Image { in_pixels, ..Image::new(volume, sha256, warnings) })
    }

    /// The image with the voxel type of its file.
    ///
    /// # Errors
    /// As [`OpenImage::read`].
    pub fn read_raw(self) -> Result<Loaded, IoError> {
        self.check(self.plan().raw_bytes())?;
        let in_pixels = matches!(self.content, Content::Photo(_));
        let mut loaded = self.load()?;
        if in_pixels {
            loaded.warnings.push("spacing: the file has no scale; a pixel counts as 1 mm".into());
        }
        Ok(loaded)
    }

    /// The image as labels of up to 32 bits, and its warnings.
    ///
    /// # Errors
    /// As [`OpenImage::read`], and when a voxel is not an integer from 0 to 2³² − 1.
    pub fn read_labels(self) -> Result<(Volume<u32>, Vec<String>), IoError> {
        self.check_memory()?;
        let path = self.path.clone();
        let Loaded { raw, warnings, .. } = self.load()?;
        let labels = raw.to_wide_labels().map_err(|value| no_label(&path, value, u32::MAX))?;
        Ok((labels, warnings))
    }

    /// The hash that [`Image::sha256`] has, without the voxels where they are not needed for it.
    ///
    /// # Errors
    /// As [`OpenImage::read`].
    pub fn sha256(self) -> Result<String, IoError> {
        match self.content {
            Content::Stored(image) => Ok(image.sha256()),
            Content::Photo(image) => Ok(image.sha256()),
            Content::Dicom(_) => Ok(self.read_raw()?.sha256),
        }
    }

    pub(crate) fn load(self) -> Result<Loaded, IoError> {
        match self.content {
            Content::Stored(image) => image.load(),
            Content::Dicom(image) => image.load(),
            Content::Photo(image) => image.load(),
        }
    }
}
