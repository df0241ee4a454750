//! What a model knows of its regions.

use crate::DetectError;
use crate::segment::data::RegionName;
use crate::working::spec::{MORE_MEMORY, check_size, working_bytes};
use pbt_tree::{ChannelBank, LabelForest};
use pbt_volume::{
    Geometry, IntensityPolicy, Padding, RealVolume, Volume, canonical_geometry, check_memory,
    resample,
};

/// A forest that labels regions. Class 0 is the background, class `n + 1` the region `n`.
#[derive(Debug, Clone, PartialEq)]
pub struct RegionForest {
    /// The regions.
    pub regions: Vec<RegionName>,
    /// Number of its training cases.
    pub cases: usize,
    /// How intensities become 12 bits.
    pub intensity: IntensityPolicy,
    /// The channels, and the spacing of the working grid.
    pub bank: ChannelBank,
    /// The trees.
    pub forest: LabelForest,
}

/// The working image of the voxels: 12 bits on the image's own axes in the order of LPS, see
/// [`canonical_geometry`].
///
/// # Errors
/// [`DetectError::Image`] when the image is constant or without finite voxels, or when the grid would
/// be absurdly large or more than the memory.
pub(crate) fn working_image(
    image: &RealVolume,
    intensity: &IntensityPolicy,
    spacing_mm: f64,
) -> Result<Volume<u16>, DetectError> {
    let grid = working_grid(image.geometry(), spacing_mm)?;
    check_memory(working_bytes(image.geometry(), grid.shape(), 1))
        .map_err(|e| DetectError::image("memory", format!("{e} ({MORE_MEMORY})")))?;
    let range = intensity.range(image).map_err(|e| DetectError::image("voxels", e.to_string()))?;
    Ok(resample(&range.of(image), &grid, Padding::Edge))
}

/// The grid of [`working_image`], of a size that can be.
///
/// # Errors
/// [`DetectError::Image`] when it would be absurdly large.
pub(crate) fn working_grid(image: &Geometry, spacing_mm: f64) -> Result<Geometry, DetectError> {
    let grid = canonical_geometry(image, spacing_mm);
    check_size(grid.shape(), spacing_mm)?;
    Ok(grid)
}
