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

/// So many frames, those of 40 boxes, share [`SegmentationConfig::samples`]; of more frames each has as
/// many as each of these (`docs/experiments/masks.md`).
const FRAMES_THAT_SHARE: usize = 80;

/// All frames together have at most so many times [`SegmentationConfig::samples`]: memory has bounds.
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
    /// Voxels to learn from in each of so many frames.
    pub(crate) fn samples_of_each(&self, frames: usize) -> usize {
        let each = self.samples.div_ceil(frames.clamp(1, FRAMES_THAT_SHARE));
        each.min((MOST_SHARES * self.samples).div_ceil(frames.max(1)))
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
    fn many_frames_have_more_voxels_together() {
        let config = SegmentationConfig::default();
        let each = [0, 1, 64, 80, 412, 8000].map(|frames| config.samples_of_each(frames));
        assert_eq!(each, [200_000, 200_000, 3125, 2500, 2500, 250]);
    }
}
