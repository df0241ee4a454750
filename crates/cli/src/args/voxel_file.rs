//! Files of voxels that a detection writes.

use crate::session;
use clap::ValueEnum;

/// A file of `--voxel-output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum VoxelFile {
    /// FOLDER/CASE.labels.nii.gz and FOLDER/CASE.pbt.seg.nrrd
    Labels,
    /// FOLDER/CASE.probabilities.nii.gz, with a fourth axis; with labels
    Probabilities,
    /// FOLDER/CASE.leaves.nii.gz, whose fourth axis runs over the trees
    Leaves,
    /// FOLDER/CASE.first-tree-leaf.nii.gz
    FirstTreeLeaf,
}

impl From<VoxelFile> for session::VoxelFile {
    fn from(file: VoxelFile) -> Self {
        match file {
            VoxelFile::Labels => Self::Labels,
            VoxelFile::Probabilities => Self::Probabilities,
            VoxelFile::Leaves => Self::Leaves,
            VoxelFile::FirstTreeLeaf => Self::FirstTreeLeaf,
        }
    }
}
