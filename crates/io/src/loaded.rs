//! What every reader gives, and what it may be asked for.

use crate::raw::RawImage;
use std::path::PathBuf;

/// An image as its file holds it.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// Stored voxels, scaling and geometry.
    pub raw: RawImage,
    /// As [`crate::Image::sha256`].
    pub sha256: String,
    /// As [`crate::Image::warnings`].
    pub warnings: Vec<String>,
}

/// Which of the volumes of a file or folder is meant, where there are several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// DICOM: the label that [`crate::list_series`] gives a series, or its UID.
    pub series: Option<String>,
    /// The time point, from 0, of a 4D NIfTI, MetaImage or NRRD file or of a DICOM series with
    /// several images at each place.
    pub frame: Option<usize>,
    /// Names of the channels of the image, in order, where there are several; else none, or one.
    pub channels: Vec<String>,
    /// The files of the channels after the first. Without any, the volumes of a 4D file and the
    /// colours of a photograph are the channels, and `CASE_0001`, … beside a file `CASE_0000` of one
    /// volume.
    pub further: Vec<PathBuf>,
}
