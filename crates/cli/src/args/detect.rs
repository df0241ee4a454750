//! `pbt detect`

use super::crop::CropChoice;
use super::volume::VolumeChoice;
use super::voxel_file::VoxelFile;
use crate::session::VoxelOutput;
use clap::Args;
use std::path::PathBuf;

/// `pbt detect`
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Examples:\n  pbt detect -m liver.pbt -i scan.nii.gz -o found\n  pbt detect -m liver.pbt -i scan.nii.gz -o found --explain\n  pbt detect -m brain.pbt -i t1.nii.gz -i t2.nii.gz -o found\n\n\
Writes found/scan.json (the result) and found/scan.mrk.json (for 3D Slicer); --labels adds found/scan.pbt.seg.nrrd, a label map that Slicer \
opens as a segmentation, and of learned labels found/scan.labels.nii.gz; --explain adds found/scan.explain.json (what every stage \
considered, the path through the verification trees, the features that decided) and found/scan.explain.svg, which draws it."
)]
pub struct Detect {
    /// Model: a file, or the name of one in the folder `models` or in the program
    #[arg(short, long, value_name = "MODEL.pbt")]
    pub model: PathBuf,
    /// Image: a NIfTI, MetaImage or NRRD file, or a DICOM file, folder or zip archive; for a model of 2D
    /// images a PNG, JPEG or TIFF file or a single slice, too. For a model of several channels a 4D file, nnU-Net's CASE_0000 with the others beside it, or -i for each
    #[arg(short, long, value_name = "IMAGE", required = true)]
    pub input: Vec<PathBuf>,
    /// Which volume of the image
    #[command(flatten)]
    pub volume: VolumeChoice,
    /// Folder for the results; made if missing
    #[arg(short, long, value_name = "FOLDER")]
    pub output: PathBuf,
    /// Write a label map, too, on the image's grid: the labels that the model has learned, else boxes
    /// and landmarks as numbered voxels
    #[arg(long)]
    pub labels: bool,
    /// Write how probable each label is at each voxel, too: FOLDER/CASE.probabilities.nii.gz, with a
    /// fourth axis; with labels
    #[arg(long)]
    pub probabilities: bool,
    /// Files of voxels to write, separated by commas: labels and probabilities as above; of a model
    /// of regions, leaves, the leaf of each tree that a voxel arrives at, and that of the first tree
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "FILES",
        conflicts_with = "explain"
    )]
    pub voxel_output: Vec<VoxelFile>,
    /// Leave the paths of image and model out of the result
    #[arg(long)]
    pub no_paths: bool,
    /// Write why each structure was found where it was, too: FOLDER/CASE.explain.json and .svg
    #[arg(long)]
    pub explain: bool,
    /// What is cut out.
    #[command(flatten)]
    pub crop: CropChoice,
}

impl Detect {
    /// What is wanted of the voxels.
    pub fn voxels(&self) -> VoxelOutput {
        let files = self.voxel_output.iter().map(|&file| file.into());
        VoxelOutput::new(self.labels, self.probabilities).with(files)
    }
}
