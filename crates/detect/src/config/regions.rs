//! Settings of voxel forests.

use crate::DetectError;
use crate::config::range::within;
use pbt_features::MOST_FILTER_VOXELS;
use pbt_tree::{LabelBoostParams, LabelForestParams, Outside, TrainError, Vote};
use serde::{Deserialize, Serialize};

/// Which voxels of an image a forest learns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sampling {
    /// As many of each region that the image has, of the background near regions as of all of them
    /// together, and half as many of the rest; as far as there are so many.
    #[default]
    ClassUniform,
    /// Any of them alike.
    VoxelUniform,
}

/// What labels voxels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegionClassifier {
    /// A random forest: the table `forest`.
    #[default]
    Forest,
    /// Trees that are boosted one after the other: the table `boosted`.
    Boosted,
}

/// Cards of models leave out what was not chosen, so that new settings do not change them.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The forest that labels regions voxel by voxel. Grid and intensities are those of the table
/// `working`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RegionsConfig {
    /// Standard deviations of the Gaussians and Laplacians among the channels, mm. Automatic: 1, 2
    /// and 4 voxels of the working grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scales_mm: Option<Vec<f64>>,
    /// Whether the place in the image is a channel: for images that are cut out alike.
    pub place: bool,
    /// What lies outside the image.
    pub outside: Outside,
    /// Number of features to choose from.
    pub features: usize,
    /// Boxes' middles lie up to so far from the voxel, mm. Automatic: 16 voxels of the working grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub radius_mm: Option<f64>,
    /// Longest edge of a box, mm. Automatic: 9 voxels of the working grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edge_mm: Option<f64>,
    /// Background this near to a region counts as near, voxels of the working grid.
    pub near: usize,
    /// Voxels to learn from, all cases together.
    pub samples: usize,
    /// Which voxels of an image.
    pub sampling: Sampling,
    /// Whether each image is learned from mirrored left to right, too. A pair of mirrored voxels goes
    /// through trees together until a test parts it.
    #[serde(skip_serializing_if = "is_default")]
    pub mirrored: bool,
    /// Whether leaves are brought to the shares that the classes have in the training images
    /// (CURFIL's `useLabelsPrior`); without, to those among the drawn voxels.
    pub label_prior: bool,
    /// What labels voxels.
    #[serde(skip_serializing_if = "is_default")]
    pub classifier: RegionClassifier,
    /// How the forest grows.
    pub forest: LabelForestParams,
    /// How trees are boosted.
    #[serde(skip_serializing_if = "is_default")]
    pub boosted: LabelBoostParams,
}

impl Default for RegionsConfig {
    fn default() -> Self {
        Self {
            scales_mm: None,
            place: false,
            outside: Outside::Missing,
            features: 1000,
            radius_mm: None,
            edge_mm: None,
            near: 4,
            samples: 200_000,
            sampling: Sampling::ClassUniform,
            mirrored: false,
            label_prior: true,
            classifier: RegionClassifier::Forest,
            forest: LabelForestParams::default(),
            boosted: LabelBoostParams::default(),
        }
    }
}

impl RegionsConfig {
    /// Checks that every value lies in its range.
    pub(crate) fn check(&self) -> Result<(), DetectError> {
        if let Some(scales) = &self.scales_mm {
            within("regions.scales_mm", scales.len() as f64, 0.0, 16.0)?;
            scales.iter().try_for_each(|&mm| within("regions.scales_mm", mm, 1e-6, 1e6))?;
        }
        within("regions.features", self.features as f64, 1.0, 1e5)?;
        for (key, mm) in [("radius_mm", self.radius_mm), ("edge_mm", self.edge_mm)] {
            mm.map_or(Ok(()), |mm| within(&format!("regions.{key}"), mm, 0.0, 1e6))?;
        }
        within("regions.near", self.near as f64, 0.0, 100.0)?;
        within("regions.samples", self.samples as f64, 100.0, 5e7)?;
        let wrong = |table: &str, e: TrainError| DetectError::config(table, e.to_string());
        self.boosted.check().map_err(|e| wrong("regions.boosted", e))?;
        if self.forest.vote == Vote::Scores {
            let what = "`scores` are those of boosted trees (choose mean or majority)";
            return Err(DetectError::config("regions.forest.vote", what));
        }
        self.forest.check().map_err(|e| wrong("regions.forest", e))
    }

    /// Standard deviations of the filters on a grid of this spacing, mm.
    ///
    /// # Errors
    /// [`DetectError::Config`] where one is too wide for the grid.
    pub(crate) fn scales_mm(&self, spacing_mm: f64) -> Result<Vec<f64>, DetectError> {
        let voxels = [1.0, 2.0, 4.0].map(|voxels| voxels * spacing_mm);
        let scales = self.scales_mm.clone().unwrap_or(voxels.to_vec());
        let widest = (MOST_FILTER_VOXELS - 1) as f64 / 3.0 * spacing_mm;
        scales.iter().try_for_each(|&mm| within("regions.scales_mm", mm, 1e-6, widest))?;
        Ok(scales)
    }
}
