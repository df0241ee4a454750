//! Which structures are cut out.

use super::number::from_zero;
use crate::session::Crops;
use clap::Args;

/// Which structures are cut out of an image.
#[derive(Debug, Clone, Default, Args)]
pub struct CropChoice {
    /// Write the part of the image that holds this structure, too: FOLDER/CASE.NAME.nii.gz (may be
    /// given several times)
    #[arg(long, value_name = "NAME")]
    pub crop: Vec<String>,
    /// Cut out so much around it
    #[arg(long, value_name = "MM", default_value_t = 0.0, value_parser = from_zero, requires = "crop", allow_negative_numbers = true)]
    pub margin_mm: f64,
}

impl From<&CropChoice> for Crops {
    fn from(choice: &CropChoice) -> Self {
        Self { names: choice.crop.clone(), margin_mm: choice.margin_mm }
    }
}
