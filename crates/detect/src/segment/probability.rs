//! How probable labels are, voxel by voxel.

use crate::DetectError;
use crate::segment::data::RegionName;
use pbt_volume::{Geometry, Volume, check_memory};

/// How probable a label is at each voxel of an image.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelProbability {
    /// Name of the label.
    pub name: String,
    /// Its value in label maps.
    pub value: u16,
    /// In 255ths, on the grid of the image.
    pub voxels: Volume<u8>,
}

impl LabelProbability {
    /// Of labels that are nowhere, by rising value, each once.
    ///
    /// # Errors
    /// [`DetectError::Image`] where there is not as much memory.
    pub(crate) fn of_nothing<'a>(
        image: &Geometry,
        labels: impl Iterator<Item = &'a RegionName>,
    ) -> Result<Vec<Self>, DetectError> {
        let mut labels: Vec<&RegionName> = labels.collect();
        labels.sort_by_key(|label| label.value);
        labels.dedup_by_key(|label| label.value);
        check_memory((labels.len() * image.len()) as u64)
            .map_err(|e| DetectError::image("memory", format!("{e} (leave out probabilities)")))?;
        let nowhere = |label: &RegionName| Self {
            name: label.name.clone(),
            value: label.value,
            voxels: Volume::filled(image.clone(), 0),
        };
        Ok(labels.into_iter().map(nowhere).collect())
    }
}
