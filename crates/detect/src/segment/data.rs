//! The data of a training of regions, as the shells read them.

use crate::DetectError;
use crate::data::case_list::CaseList;
use pbt_volume::{RealVolume, Volume};

/// The class of a voxel that is neither trained nor scored.
pub const IGNORED: u8 = u8::MAX;

/// A region to train.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionName {
    /// Its name.
    pub name: String,
    /// Its value in label maps that are written.
    pub value: u16,
}

/// An image and the class of each of its voxels.
#[derive(Debug, Clone)]
pub struct LabelledImage {
    /// Real values.
    pub image: RealVolume,
    /// Class of each voxel, on the same grid: 0 for the background, `n + 1` for the region `n`,
    /// [`IGNORED`] for what does not count.
    pub classes: Volume<u8>,
}

/// The data of a training of regions.
pub trait RegionData: Sync {
    /// What can go wrong on reading.
    type Error: Send + From<DetectError>;

    /// The cases, each with the grid of its image.
    fn list(&self) -> &CaseList;

    /// The regions, in the order of their classes.
    fn regions(&self) -> &[RegionName];

    /// The region that a region is in a mirrored image: its partner, by default itself.
    fn partner(&self, region: usize) -> usize {
        region
    }

    /// Reads a case.
    ///
    /// # Errors
    /// Whatever the reader says.
    fn load(&self, case: usize) -> Result<LabelledImage, Self::Error>;
}
