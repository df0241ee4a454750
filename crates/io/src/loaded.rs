//! What every reader gives, and what it may be asked for.

use crate::raw::RawImage;

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
}
