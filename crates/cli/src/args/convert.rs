//! `pbt convert`

use super::volume::VolumeChoice;
use clap::Args;
use std::path::PathBuf;

/// `pbt convert`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  pbt convert scan.mha scan.nii.gz
  pbt convert dicom_folder scan.nrrd --series 3

Reads .nii, .nii.gz, .hdr with .img, .mha, .mhd, .nrrd, .nhdr and DICOM files, folders and zip archives; writes .nii, .nii.gz, .mha, .mhd \
(with .raw), .nrrd and .nhdr (with .raw). The voxel type and its bits stay; \
voxels with a scaling become 64-bit numbers in MetaImage and NRRD, which have no field for it. NIfTI keeps 32 bits of each number of the \
affine and of a scaling; a warning says when that changes them.")]
pub struct Convert {
    /// Image to read
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Image to write; the extension says the format
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// Which volume of the input
    #[command(flatten)]
    pub volume: VolumeChoice,
}
