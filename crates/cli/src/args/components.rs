//! `pbt components`

use super::number::from_zero;
use super::volume::VolumeChoice;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// `pbt components`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  pbt components nuclei.nii.gz numbered.nii.gz --min-mm3 50 --table nuclei.csv
  pbt components bones.nii.gz largest.nii.gz --largest 1
  pbt components vessels.nrrd parts.nrrd --connectivity 6 --intensity ct.nrrd --step 40

Every voxel that is not 0 is foreground. Components are numbered from 1 in the order of their first voxels (i fastest, then j, then k), as \
scipy does, after what is not kept was left out. OUT has the grid of IN and as many bits a voxel as the numbers need (8, 16 or 32). The table \
has a row a component: voxels, volume, box, centroid, with --labels the label, with --intensity sum and mean of the intensities.")]
pub struct Components {
    /// Mask or label map: an image whose voxels are integers from 0 on
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Label map to write; the extension says the format, as for `pbt convert`
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// Which volume of the input
    #[command(flatten)]
    pub volume: VolumeChoice,
    /// Which voxels are neighbours
    #[arg(long, value_name = "N", default_value = "26")]
    pub connectivity: Connectivity,
    /// Join only voxels of the same label [default: all that are not 0]
    #[arg(long)]
    pub labels: bool,
    /// Join only neighbours whose intensities in this image, on the same grid, differ by at most
    /// --step
    #[arg(long, value_name = "IMAGE", requires = "step")]
    pub intensity: Option<PathBuf>,
    /// Largest difference of intensity between neighbours of one component
    #[arg(long, value_name = "X", requires = "intensity", value_parser = from_zero, allow_negative_numbers = true)]
    pub step: Option<f64>,
    /// Keep the N components with the most voxels
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    pub largest: Option<u32>,
    /// Keep components of at least V mm³
    #[arg(long, value_name = "V", value_parser = from_zero, allow_negative_numbers = true)]
    pub min_mm3: Option<f64>,
    /// Write a table with a row a component, too
    #[arg(long, value_name = "T.csv")]
    pub table: Option<PathBuf>,
}

/// Which voxels are neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Connectivity {
    /// Those that share a face
    #[value(name = "6")]
    Six,
    /// Those that share a face or an edge
    #[value(name = "18")]
    Eighteen,
    /// Those that share a face, an edge or a corner
    #[value(name = "26")]
    TwentySix,
}

impl From<Connectivity> for pbt_volume::Connectivity {
    fn from(connectivity: Connectivity) -> Self {
        match connectivity {
            Connectivity::Six => Self::Six,
            Connectivity::Eighteen => Self::Eighteen,
            Connectivity::TwentySix => Self::TwentySix,
        }
    }
}
