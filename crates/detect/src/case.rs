//! A case brought to the working grid: 12 bits, one spacing, a pyramid.

use crate::DetectError;
use pbt_volume::{IntensityPolicy, Padding, Pose, Pyramid, Volume, resample, working_geometry};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How an image becomes a working pyramid. Part of the model: training and detection use the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkingSpec {
    /// Spacing of the finest level, mm.
    pub spacing_mm: f64,
    /// Number of levels; each has twice the spacing of the one before.
    pub levels: usize,
    /// What lies outside the image.
    pub padding: Padding,
    /// How intensities become 12 bits.
    pub intensity: IntensityPolicy,
}

/// The largest working volume, voxels: 4 GB of channels. A larger image in relation to the working spacing is refused.
const MOST_VOXELS: f64 = 512.0 * 1024.0 * 1024.0;

impl WorkingSpec {
    /// The working pyramid of an image.
    ///
    /// # Errors
    /// [`DetectError::Image`] when the image is constant or without finite voxels, or when the working grid would be absurdly large
    /// or smaller than two voxels along an axis.
    pub fn pyramid(&self, image: &Volume<f32>) -> Result<Pyramid, DetectError> {
        let geometry = image.geometry();
        let spacing = geometry.spacing_mm();
        let extent: Vec<f64> = (0..3).map(|a| spacing[a] * geometry.shape()[a] as f64 / self.spacing_mm).collect();
        if extent.iter().map(|e| e.max(1.0)).product::<f64>() > MOST_VOXELS || extent.iter().any(|&e| e > 65_000.0) {
            return Err(DetectError::image(
                "spacing",
                format!(
                    "the image covers {:.0} x {:.0} x {:.0} voxels of the model's {} mm (check the spacing in the header)",
                    extent[0], extent[1], extent[2], self.spacing_mm
                ),
            ));
        }
        let range = self.intensity.range(image).map_err(|e| DetectError::image("voxels", e.to_string()))?;
        let quantised = range.quantise(image);
        let grid = working_geometry(geometry, self.spacing_mm);
        Ok(Pyramid::new(resample(&quantised, &grid, self.padding), self.levels))
    }
}

/// One annotated case ready for training.
#[derive(Debug, Clone)]
pub(crate) struct TrainingCase {
    /// Working pyramid.
    pub(crate) pyramid: Arc<Pyramid>,
    /// Truth.
    pub(crate) pose: Pose,
    /// Cases of one group are copies of each other, so that what is held out is held out whole; numbered from 0.
    pub(crate) group: usize,
    /// Not a case as annotated, but made from one.
    pub(crate) copy: bool,
    /// Where structures of the same size and kind lie: the finish learns from them too.
    pub(crate) look_alikes: Vec<Pose>,
}

impl TrainingCase {
    /// The truth, then the look-alikes.
    pub(crate) fn all(&self) -> impl Iterator<Item = Pose> {
        std::iter::once(self.pose).chain(self.look_alikes.iter().copied())
    }
}

/// Number of groups.
pub(crate) fn groups(cases: &[TrainingCase]) -> usize {
    cases.iter().map(|case| case.group + 1).max().unwrap_or(0)
}
