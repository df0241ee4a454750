//! What lengths count.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What fields and figures that are called mm count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LengthUnit {
    /// Millimetres.
    #[default]
    Mm,
    /// Pixels of 2D images without a scale.
    Pixels,
}

impl LengthUnit {
    /// Pixels where all images count these and there is one, else millimetres.
    pub fn of_all(units: impl IntoIterator<Item = Self>) -> Self {
        let mut units = units.into_iter().peekable();
        match units.peek().is_some() && units.all(|unit| unit == Self::Pixels) {
            true => Self::Pixels,
            false => Self::Mm,
        }
    }

    /// Whether it is the millimetre, which files need not say.
    pub fn is_mm(&self) -> bool {
        *self == Self::Mm
    }

    /// `mm` or `pixels`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mm => "mm",
            Self::Pixels => "pixels",
        }
    }
}

impl fmt::Display for LengthUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
