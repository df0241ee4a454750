//! Reading images of any known format.

use crate::IoError;
use crate::loaded::{Loaded, ReadOptions};
use crate::open_image::OpenImage;
use pbt_volume::{LengthUnit, RealVolume, Volume, hex};
use sha2::{Digest, Sha256};
use std::path::Path;

/// An image with what is known about its file.
#[derive(Debug, Clone)]
pub struct Image {
    /// Real values (scaling applied) in LPS millimetres. Voxels may be NaN or infinite; a warning
    /// then says how many.
    pub volume: RealVolume,
    /// The channels after the first, which is [`Image::volume`]; each may have a grid of its own.
    pub further: Vec<RealVolume>,
    /// SHA-256 of the file's bytes, lower-case hexadecimal; of header and data file one after the
    /// other where there are two. Of a DICOM series it is that of the list of its files' hashes,
    /// slice by slice, so that names, folders and packing do not count. Of several channels that of
    /// the list of the channels' hashes as [`Image::in_memory`] has them, so that packing does not
    /// count there, either.
    pub sha256: String,
    /// What the user should know about the file, `FIELD: text` each.
    pub warnings: Vec<String>,
    /// What lengths count: pixels where the file has no scale, as a photograph.
    pub unit: LengthUnit,
}

impl Image {
    /// With a warning where voxels are not finite.
    pub(crate) fn new(volume: RealVolume, sha256: String, mut warnings: Vec<String>) -> Self {
        warnings.extend(not_finite(&volume));
        Self { volume, further: Vec::new(), sha256, warnings, unit: LengthUnit::Mm }
    }

    /// The channels of an image, at least one, in their order.
    ///
    /// # Panics
    /// Without channels.
    pub fn of_channels(channels: Vec<RealVolume>, mut warnings: Vec<String>) -> Self {
        let sha256 = sha256_of_channels(&channels);
        let mut channels = channels.into_iter();
        let first = channels.next().expect("an image has a channel");
        let further: Vec<RealVolume> = channels.collect();
        let own = further.iter().enumerate().filter_map(|(n, channel)| {
            not_finite(channel).map(|text| format!("channel {}: {text}", n + 2))
        });
        warnings.extend(own);
        Self { further, ..Self::new(first, sha256, warnings) }
    }

    /// All channels.
    pub fn channels(&self) -> Vec<RealVolume> {
        std::iter::once(&self.volume).chain(&self.further).cloned().collect()
    }

    /// The channels of these numbers, in this order.
    ///
    /// # Panics
    /// When there is no such channel, or none is wanted.
    pub fn with_channels(self, numbers: &[usize]) -> Self {
        if numbers.iter().copied().eq(0..=self.further.len()) {
            return self;
        }
        let all = self.channels();
        let mut chosen: Vec<RealVolume> = numbers.iter().map(|&n| all[n].clone()).collect();
        let sha256 = sha256_of_channels(&chosen);
        Self { volume: chosen.remove(0), further: chosen, sha256, ..self }
    }

    /// An image that is in no file. Its hash is that of 16 numbers of 8 bytes, the affine to LPS mm
    /// row by row, and of the voxels as numbers of 4 bytes, i fastest, all little-endian.
    pub fn in_memory(volume: RealVolume) -> Self {
        let sha256 = sha256_of(&volume);
        Self::new(volume, sha256, Vec::new())
    }
}

/// Hash of the list of the channels' hashes; of one channel its own.
fn sha256_of_channels(channels: &[RealVolume]) -> String {
    let hashes: Vec<String> = channels.iter().map(sha256_of).collect();
    match &hashes[..] {
        [only] => only.clone(),
        several => pbt_volume::sha256_hex(&[several.concat().as_bytes()]),
    }
}

/// A warning where voxels are not finite.
fn not_finite(volume: &RealVolume) -> Option<String> {
    let (count, all) = (volume.not_finite(), volume.geometry().len());
    (count > 0).then(|| format!("voxel data: {count} of {all} voxels are NaN or infinite"))
}

/// Hash of affine and voxels.
fn sha256_of(volume: &RealVolume) -> String {
    let affine = volume.geometry().affine().transpose();
    let mut hasher = Sha256::new();
    // A zero has no sign, whatever the way to LPS.
    affine.iter().for_each(|number| hasher.update((number + 0.0).to_le_bytes()));
    let [_, ny, nz] = volume.shape();
    let mut row = Vec::new();
    for (j, k) in (0..nz).flat_map(|k| (0..ny).map(move |j| (j, k))) {
        row.clear();
        volume.extend_with_row(&mut row, j, k);
        let bytes: Vec<u8> = row.iter().flat_map(|voxel| voxel.to_le_bytes()).collect();
        hasher.update(bytes);
    }
    hex(&hasher.finalize())
}

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

/// Reads a label map, of any format and voxel type that [`read_image`] takes.
///
/// # Errors
/// As [`read_image`], and when a voxel is not an integer from 0 to 65535.
pub fn read_labels(path: &Path) -> Result<Volume<u16>, IoError> {
    OpenImage::open(path, &ReadOptions::default())?.read_narrow_labels()
}

/// A voxel of a label map that holds something else.
pub(crate) fn no_label(path: &Path, value: f64, most: u32) -> IoError {
    let problem = format!("a voxel has the value {value}, which is no label");
    let advice = format!("a label map holds integers from 0 to {most}; is this an image?");
    IoError::input(path, "voxel data", problem, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

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
