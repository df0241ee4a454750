//! Reading images of any known format.

use crate::IoError;
use crate::dicom;
use crate::loaded::{Loaded, ReadOptions};
use crate::open_image::OpenImage;
use crate::regular_file::read_start;
use pbt_volume::{Volume, hex};
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::path::Path;

/// An image with what is known about its file.
#[derive(Debug, Clone)]
pub struct Image {
    /// Real values (scaling applied) in LPS millimetres. Voxels may be NaN or infinite; a warning
    /// then says how many.
    pub volume: Volume<f32>,
    /// SHA-256 of the file's bytes, lower-case hexadecimal; of header and data file one after the
    /// other where there are two. Of a DICOM series it is that of the list of its files' hashes,
    /// slice by slice, so that names, folders and packing do not count.
    pub sha256: String,
    /// What the user should know about the file, `FIELD: text` each.
    pub warnings: Vec<String>,
    /// Whether places are pixels, since the file has no scale: a photograph.
    pub in_pixels: bool,
}

impl Image {
    /// With a warning where voxels are not finite.
    pub(crate) fn new(volume: Volume<f32>, sha256: String, mut warnings: Vec<String>) -> Self {
        let not_finite = volume.data().par_iter().filter(|v| !v.is_finite()).count();
        if not_finite > 0 {
            warnings.push(format!(
                "voxel data: {not_finite} of {} voxels are NaN or infinite",
                volume.data().len()
            ));
        }
        Self { volume, sha256, warnings, in_pixels: false }
    }

    /// An image that is in no file. Its hash is that of 16 numbers of 8 bytes, the affine to LPS mm
    /// row by row, and of the voxels as numbers of 4 bytes, i fastest, all little-endian.
    pub fn in_memory(volume: Volume<f32>) -> Self {
        let affine = volume.geometry().affine().transpose();
        let mut hasher = Sha256::new();
        affine.iter().for_each(|number| hasher.update(number.to_le_bytes()));
        for part in volume.data().chunks(1 << 14) {
            let bytes: Vec<u8> = part.iter().flat_map(|voxel| voxel.to_le_bytes()).collect();
            hasher.update(bytes);
        }
        Self::new(volume, hex(&hasher.finalize()), Vec::new())
    }
}

/// File name extensions of images, longest first where one ends another.
pub(crate) const EXTENSIONS: [&str; 13] = [
    "nii.gz", "nii", "hdr.gz", "hdr", "mha", "mhd", "nrrd", "nhdr", "png", "jpg", "jpeg", "tif",
    "tiff",
];

/// What [`case_name`] takes off a file name.
const CASE_EXTENSIONS: [&str; 12] =
    ["nii", "gz", "mha", "mhd", "nrrd", "nhdr", "zip", "png", "jpg", "jpeg", "tif", "tiff"];

/// Reads an image: NIfTI-1 or -2 (`.nii`, `.nii.gz`, `.hdr` with `.img`), MetaImage (`.mha`,
/// `.mhd`), NRRD (`.nrrd`, `.nhdr`), DICOM (a file, a folder with all below it, or a zip archive),
/// or a 2D image in pixels: PNG, JPEG, TIFF.
///
/// # Errors
/// [`IoError`] (an input error) when the file cannot be read, is damaged, is not one 3D volume of
/// real numbers, or does not say where its voxels lie in the patient.
pub fn read_image(path: &Path) -> Result<Image, IoError> {
    read_image_with(path, &ReadOptions::default())
}

/// As [`read_image`], one of several volumes.
///
/// # Errors
/// As [`read_image`], and when there is no such series or time point.
pub fn read_image_with(path: &Path, options: &ReadOptions) -> Result<Image, IoError> {
    OpenImage::open(path, options)?.read()
}

/// Reads an image with the voxel type of its file, to write it again without loss.
///
/// # Errors
/// As [`read_image`].
pub fn read_raw(path: &Path) -> Result<Loaded, IoError> {
    read_raw_with(path, &ReadOptions::default())
}

/// As [`read_raw`], one of several volumes.
///
/// # Errors
/// As [`read_image_with`].
pub fn read_raw_with(path: &Path, options: &ReadOptions) -> Result<Loaded, IoError> {
    OpenImage::open(path, options)?.read_raw()
}

/// Whether a file is DICOM, or a zip archive of such files, by its first bytes or its name; for
/// files without an extension that says more.
pub fn is_dicom_path(path: &Path) -> bool {
    let named = extension(path, &["dcm", "ima", "zip"]).is_some();
    read_start(path, 132).is_some_and(|start| named || dicom::is_dicom(&start))
}

/// Reads a label map, of any format and voxel type that [`read_image`] takes.
///
/// # Errors
/// As [`read_image`], and when a voxel is not an integer from 0 to 65535.
pub fn read_labels(path: &Path) -> Result<Volume<u16>, IoError> {
    let image = OpenImage::open(path, &ReadOptions::default())?;
    image.check_memory()?;
    image.load()?.raw.to_labels().map_err(|value| no_label(path, value, u16::MAX.into()))
}

/// A voxel of a label map that holds something else.
pub(crate) fn no_label(path: &Path, value: f64, most: u32) -> IoError {
    let problem = format!("a voxel has the value {value}, which is no label");
    let advice = format!("a label map holds integers from 0 to {most}; is this an image?");
    IoError::input(path, "voxel data", problem, advice)
}

/// Whether the file's name is that of an image (an `.img` file is only a part of one).
pub fn is_image_path(path: &Path) -> bool {
    extension(path, &EXTENSIONS).is_some()
}

/// The name of a case: the file's name without `.nii`, `.gz`, `.mha`, `.mhd`, `.nrrd`, `.nhdr`,
/// `.zip`, `.png`, `.jpg`, `.jpeg`, `.tif`, `.tiff`.
pub fn case_name(path: &Path) -> String {
    // A path such as `.` has a name only once it is resolved.
    let resolved = if path.file_name().is_none() { path.canonicalize().ok() } else { None };
    let name =
        resolved.as_deref().unwrap_or(path).file_name().unwrap_or_default().to_string_lossy();
    let mut stem: &str = &name;
    while let Some(extension) = CASE_EXTENSIONS.iter().find(|e| ends_with_extension(stem, e)) {
        stem = &stem[..stem.len() - extension.len() - 1];
    }
    // It becomes the name of files and is printed.
    stem.replace(char::is_control, "_")
}

pub(crate) fn extension<'a>(path: &Path, known: &[&'a str]) -> Option<&'a str> {
    let name = path.file_name()?.to_string_lossy();
    known.iter().find(|e| ends_with_extension(&name, e)).copied()
}

/// Whether `name` is something, a dot and the extension, in any case.
pub(crate) fn ends_with_extension(name: &str, extension: &str) -> bool {
    let Some(at) = name.len().checked_sub(extension.len() + 1).filter(|&at| at > 0) else {
        return false;
    };
    name.is_char_boundary(at)
        && name.as_bytes()[at] == b'.'
        && name[at + 1..].eq_ignore_ascii_case(extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_cases() {
        for (file, case) in [
            ("a/b/head.nii.gz", "head"),
            ("head.NII.GZ", "head"),
            ("head.t1.nrrd", "head.t1"),
            ("x.mha", "x"),
            ("x.mhd", "x"),
            ("x.nhdr", "x"),
            ("series.zip", "series"),
            ("wing.JPG", "wing"),
            ("head", "head"),
            (".nii", ".nii"),
            ("é.nii", "é"),
        ] {
            assert_eq!(case_name(Path::new(file)), case);
        }
    }

    #[test]
    fn images_by_name() {
        for name in ["a.nii", "a.nii.gz", "a.hdr", "a.MHA", "a.nrrd"] {
            assert!(is_image_path(Path::new(name)), "{name}");
        }
        for name in ["a.img", "a.json", "a.gz", "nii", "a.mrk.json", ""] {
            assert!(!is_image_path(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn folders_strangers_and_missing_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let stranger = folder.path().join("notes.txt");
        std::fs::write(&stranger, "x").unwrap();
        for (path, word) in [
            (folder.path().to_path_buf(), "folder"),
            (stranger, "extension"),
            (folder.path().join("a.nii"), "cannot be read"),
        ] {
            let error = read_image(&path).unwrap_err();
            assert!(error.is_input() && error.to_string().contains(word), "{error}");
        }
    }
}
