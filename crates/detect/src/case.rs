//! A case brought to the working grid: 12 bits, one spacing, a pyramid.

use crate::DetectError;
use pbt_volume::{
    Geometry, IntensityPolicy, Padding, Pose, Pyramid, Volume, VoxelIndex, resample,
    working_geometry,
};
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

/// The largest working volume, voxels: 4 GB of channels. A larger image in relation to the working
/// spacing is refused.
const MOST_VOXELS: f64 = 512.0 * 1024.0 * 1024.0;

/// Most voxels along an axis.
const MOST_ACROSS: usize = 65_000;

impl WorkingSpec {
    /// The working pyramid of an image.
    ///
    /// # Errors
    /// [`DetectError::Image`] when the image is constant or without finite voxels, or when the
    /// working grid would be absurdly large.
    pub fn pyramid(&self, image: &Volume<f32>) -> Result<Pyramid, DetectError> {
        self.pyramid_on(image, &self.grid(image.geometry())?)
    }

    /// The working grid over all of an image. A model file may say anything of its spacing.
    fn grid(&self, image: &Geometry) -> Result<Geometry, DetectError> {
        if !(1e-6..=1e6).contains(&self.spacing_mm) {
            return Err(DetectError::image(
                "spacing",
                format!("the model's working spacing of {} mm is absurd", self.spacing_mm as f32),
            ));
        }
        Ok(working_geometry(image, self.spacing_mm))
    }

    /// The part of the working pyramid that holds these boxes, or the nearest voxels where they lie
    /// outside; its voxels are those of the whole.
    ///
    /// # Errors
    /// Those of [`WorkingSpec::pyramid`].
    pub(crate) fn pyramid_of(
        &self,
        image: &Volume<f32>,
        boxes: &[Pose],
    ) -> Result<Pyramid, DetectError> {
        let whole = self.grid(image.geometry())?;
        // Blocks of voxels that are one on the coarsest level.
        let block = 1 << (self.levels - 1);
        let corners: Vec<VoxelIndex> =
            boxes.iter().flat_map(Pose::corners).map(|corner| whole.to_index(corner)).collect();
        let ends = [0, 1, 2].map(|a| {
            let last = (whole.shape()[a] - 1) as f64;
            let places = || corners.iter().map(|corner| corner.0[a].clamp(0.0, last));
            let low = places().fold(last, f64::min) as usize / block * block;
            let high = (places().fold(0.0, f64::max).ceil() as usize / block + 1) * block;
            (low, high.min(whole.shape()[a]) - low)
        });
        self.pyramid_on(image, &whole.part(ends.map(|(low, _)| low), ends.map(|(_, count)| count)))
    }

    fn pyramid_on(&self, image: &Volume<f32>, grid: &Geometry) -> Result<Pyramid, DetectError> {
        let shape = grid.shape();
        if shape.iter().map(|&n| n as f64).product::<f64>() > MOST_VOXELS
            || shape.iter().any(|&n| n > MOST_ACROSS)
        {
            return Err(DetectError::image(
                "spacing",
                format!(
                    "the image covers {} x {} x {} voxels of the model's {} mm (check the spacing in the header)",
                    shape[0], shape[1], shape[2], self.spacing_mm as f32
                ),
            ));
        }
        let range =
            self.intensity.range(image).map_err(|e| DetectError::image("voxels", e.to_string()))?;
        Ok(Pyramid::new(resample(&range.quantise(image), grid, self.padding), self.levels))
    }
}

/// One annotated case ready for training.
#[derive(Debug, Clone)]
pub(crate) struct TrainingCase {
    /// Working pyramid.
    pub(crate) pyramid: Arc<Pyramid>,
    /// Truth.
    pub(crate) pose: Pose,
    /// Cases of one group are copies of each other, so that what is held out is held out whole;
    /// numbered from 0.
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
