//! `pbt batch`

use super::crop::CropChoice;
use super::voxel_file::VoxelFile;
use crate::session::VoxelOutput;
use crate::shard::Shard;
use clap::Args;
use std::path::PathBuf;

/// `pbt batch`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  pbt batch -m liver.pbt -i scans -o found
  pbt batch -m liver.pbt -i list.csv -o found --resume
  pbt batch -m liver.pbt -i scans -o found --shard 2/4

Of a folder, every image file, every zip archive and every folder that holds DICOM files is a case. The list is a CSV file with the columns \
case_id and path (relative to the list), and, where they are needed, series and frame. For each case this writes FOLDER/CASE.json (the result) \
and FOLDER/CASE.mrk.json (for 3D Slicer); for all of them FOLDER/detections.csv and FOLDER/detections.parquet, one row a detection, and \
FOLDER/run.json. A case that cannot be read or used is a row with the status `failed` and the reason, and the exit code is 3 at the end.

Parts (--shard) may share one folder; the tables then show what all parts have found so far. After the last one, --resume without \
--shard tries failed cases once more and writes the tables of the whole list.")]
pub struct Batch {
    /// Model: a file, or the name of one in the folder `models` or in the program
    #[arg(short, long, value_name = "MODEL.pbt")]
    pub model: PathBuf,
    /// Folder, of which all images are taken, those in folders within too; or a CSV file with the
    /// columns case_id and path
    #[arg(short, long, value_name = "MANIFEST_OR_FOLDER")]
    pub input: PathBuf,
    /// Folder for the results; made if missing
    #[arg(short, long, value_name = "FOLDER")]
    pub output: PathBuf,
    /// Only the i-th of n parts of the list, to share the work among machines
    #[arg(long, value_name = "i/n")]
    pub shard: Option<Shard>,
    /// Leave out cases that have a result of this very model
    #[arg(long)]
    pub resume: bool,
    /// Write a label map of each case, too: the labels that the model has learned, else boxes and
    /// landmarks as numbered voxels
    #[arg(long)]
    pub labels: bool,
    /// Write how probable each label is at each voxel, too: FOLDER/CASE.probabilities.nii.gz; with
    /// labels
    #[arg(long)]
    pub probabilities: bool,
    /// Files of voxels to write, separated by commas: labels and probabilities as above; of a model
    /// of regions, leaves, the leaf of each tree that a voxel arrives at, and that of the first tree
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FILES")]
    pub voxel_output: Vec<VoxelFile>,
    /// Leave paths out of results and tables: of a file that is named after a patient, only what the
    /// list calls it remains
    #[arg(long)]
    pub no_paths: bool,
    /// What is cut out.
    #[command(flatten)]
    pub crop: CropChoice,
}

impl Batch {
    /// What is wanted of the voxels.
    pub fn voxels(&self) -> VoxelOutput {
        let files = self.voxel_output.iter().map(|&file| file.into());
        VoxelOutput::new(self.labels, self.probabilities).with(files)
    }
}
