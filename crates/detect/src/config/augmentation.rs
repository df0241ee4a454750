//! What a user may set for copies of the training cases.

use crate::DetectError;
use crate::config::range::within;
use serde::{Deserialize, Serialize};

/// Copies of training cases. Every stage draws poses about the true ones anyhow, and turned copies
/// where a structure may lie in any orientation; copies add what that cannot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AugmentationConfig {
    /// Copies of each case. Automatic: a mirrored one where landmarks come in pairs, or where there
    /// are none and it helps on held-out cases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<usize>,
    /// Whether the first copy, the third and so on are mirrored left to right. Right where the body
    /// is, wrong for the heart.
    pub flips: bool,
    /// Copies are turned about any axis by up to this, degrees.
    pub degrees: f64,
    /// Copies are larger or smaller by a factor up to 1 + this.
    pub scale: f64,
    /// The contrast of copies follows a power of 1 / (1 + this) to 1 + this.
    pub gamma: f64,
}

impl Default for AugmentationConfig {
    fn default() -> Self {
        Self { copies: None, flips: true, degrees: 0.0, scale: 0.0, gamma: 0.0 }
    }
}

impl AugmentationConfig {
    /// Checks that every value lies in its range.
    pub(crate) fn check(&self) -> Result<(), DetectError> {
        within("augmentation.copies", self.copies.unwrap_or(0) as f64, 0.0, 100.0)?;
        within("augmentation.degrees", self.degrees, 0.0, 180.0)?;
        within("augmentation.scale", self.scale, 0.0, 1.0)?;
        within("augmentation.gamma", self.gamma, 0.0, 3.0)
    }
}
