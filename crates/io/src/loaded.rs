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

/// What reading an image takes, bytes, told from its header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryPlan {
    pub(crate) voxels: u64,
    /// The voxels as they are stored.
    pub(crate) stored: u64,
    /// What is held while they are taken out: files, other time points.
    pub(crate) beside: u64,
}

impl MemoryPlan {
    /// Stored voxels alone.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.stored.saturating_add(self.beside)
    }

    /// And then 32 bits a voxel made of them.
    pub(crate) fn image_bytes(&self) -> u64 {
        self.raw_bytes().max(self.stored.saturating_add(self.voxels.saturating_mul(4)))
    }
}
