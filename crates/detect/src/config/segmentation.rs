//! Settings of the masks about boxes.

use crate::DetectError;
use crate::config::range::within;
use pbt_tree::LabelBoostParams;
use serde::{Deserialize, Serialize};

/// The boosted trees that label the voxels about a box.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SegmentationConfig {
    /// Whether masks are trained where cases have label maps.
    pub trained: bool,
    /// Voxels to learn from in a round, of 40 boxes or fewer together. More boxes add as many each, up to
    /// ten times this.
    pub samples: usize,
    /// Number of features to choose from, those of single voxels beside.
    pub features: usize,
    /// The trees of the first round, which brings the frame to the structure.
    pub first: LabelBoostParams,
    /// Those of the second.
    pub second: LabelBoostParams,
}

/// So many boxes, or fewer, share [`SegmentationConfig::samples`] (`docs/experiments/masks.md`).
const BOXES_THAT_SHARE: usize = 40;

/// More boxes add as many each, up to so many times [`SegmentationConfig::samples`]: memory has bounds.
const MOST_SHARES: usize = 10;

impl Default for SegmentationConfig {
    fn default() -> Self {
        let params = LabelBoostParams { depth: 8, ..LabelBoostParams::default() };
        Self {
            trained: true,
            samples: 200_000,
            features: 200,
            first: LabelBoostParams { trees: 60, ..params.clone() },
            second: LabelBoostParams { trees: 100, ..params },
        }
    }
}

impl SegmentationConfig {
    /// Voxels to learn from in a round in the frames of so many boxes.
    pub(crate) fn samples_of(&self, boxes: usize) -> usize {
        let counted = boxes.clamp(BOXES_THAT_SHARE, MOST_SHARES * BOXES_THAT_SHARE);
        (self.samples * counted).div_ceil(BOXES_THAT_SHARE)
    }

    /// Checks that every value lies in its range.
    pub(crate) fn check(&self) -> Result<(), DetectError> {
        within("segmentation.samples", self.samples as f64, 1000.0, 5e7)?;
        within("segmentation.features", self.features as f64, 0.0, 1e5)?;
        for (key, params) in [("first", &self.first), ("second", &self.second)] {
            params
                .check()
                .map_err(|e| DetectError::config(format!("segmentation.{key}"), e.to_string()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_boxes_have_more_voxels_together() {
        let config = SegmentationConfig::default();
        let samples = [0, 1, 31, 40, 160, 4000].map(|boxes| config.samples_of(boxes));
        assert_eq!(samples, [200_000, 200_000, 200_000, 200_000, 800_000, 2_000_000]);
    }
}
