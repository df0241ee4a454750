//! How probable labels are, as a file.

use crate::write_image::write_nifti_volumes;
use crate::{IoError, RawImage, Scaling, VoxelType};
use pbt_volume::Volume;
use std::path::Path;

/// Writes volumes of 255ths, all on one grid, as NIfTI (`.nii.gz`) with a fourth axis; programs that
/// read it see values from 0 to 1.
///
/// # Errors
/// [`IoError`] when a dimension does not fit the format or the file cannot be written; an older file
/// of that name is then untouched.
pub fn write_probabilities(path: &Path, volumes: &[&Volume<u8>]) -> Result<(), IoError> {
    let Some(first) = volumes.first() else {
        return Err(IoError::unwritable(path, "labels", "there are none", "leave it out"));
    };
    let scaling = Some(Scaling { slope: 1.0 / 255.0, intercept: 0.0 });
    let geometry = first.geometry().clone();
    let image = RawImage::new(geometry, VoxelType::U8, first.data().to_vec(), scaling)
        .ok_or_else(|| IoError::unwritable(path, "shape", "is too large", "use a part of it"))?;
    write_nifti_volumes(path, &image, volumes[1..].iter().map(|volume| volume.data()))
}
