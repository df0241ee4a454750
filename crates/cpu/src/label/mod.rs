//! Forests that label voxels, on the CPU.

mod channels;
mod evaluation;
mod filters;
mod voxels;

pub use channels::CpuChannels;

use crate::device::Cpu;
use pbt_features::BoxMeanFeature;
use pbt_tree::{
    BinTree, Block, ChannelBank, DeviceError, Edges, Gain, GrownNode, HostBoosting, LabelBackend,
    LabelBooster, LabelForest, LabelMatrix, Layered, Split, SplitRule, SplitTask, Splitter,
    TreeTask, splits_on_host,
};

impl LabelBackend for Cpu {
    type Channels = CpuChannels;

    fn channels(
        &self,
        image: Layered<'_>,
        bank: &ChannelBank,
        block: &Block,
    ) -> Result<CpuChannels, DeviceError> {
        Ok(CpuChannels::new(image, bank, block))
    }

    fn respond(
        &self,
        channels: &CpuChannels,
        features: &[BoxMeanFeature],
        voxels: &[[usize; 3]],
        out: &mut [i64],
    ) -> Result<(), DeviceError> {
        voxels::respond(channels, features, voxels, out);
        Ok(())
    }

    fn bins(
        &self,
        channels: &CpuChannels,
        features: &[BoxMeanFeature],
        edges: &[Edges],
        voxels: &[[usize; 3]],
        out: &mut [u8],
    ) -> Result<(), DeviceError> {
        voxels::bins(channels, features, edges, voxels, out);
        Ok(())
    }

    fn distributions(
        &self,
        channels: &CpuChannels,
        forest: &LabelForest,
    ) -> Result<Vec<u32>, DeviceError> {
        Ok(evaluation::distributions(channels, forest))
    }

    fn distributions_at(
        &self,
        channels: &CpuChannels,
        forest: &LabelForest,
        voxels: &[[usize; 3]],
    ) -> Result<Vec<u32>, DeviceError> {
        Ok(evaluation::distributions_at(channels, forest, voxels))
    }
}

impl Splitter for Cpu {
    type Matrix<'a> = &'a LabelMatrix;

    fn matrix<'a>(&self, matrix: &'a LabelMatrix) -> Result<&'a LabelMatrix, DeviceError> {
        Ok(matrix)
    }

    fn best_splits(
        &self,
        matrix: &&LabelMatrix,
        tasks: &[SplitTask<'_>],
        min_leaf: u32,
    ) -> Result<Vec<Option<Split>>, DeviceError> {
        let rule = SplitRule { min_leaf, gain: Gain::Information };
        Ok(splits_on_host(matrix, tasks, &[], &rule))
    }
}

impl LabelBooster for Cpu {
    type Boosting<'a> = HostBoosting<'a>;

    fn boosting<'a>(
        &self,
        matrix: &'a LabelMatrix,
        start: &[i32],
    ) -> Result<HostBoosting<'a>, DeviceError> {
        Ok(HostBoosting::new(matrix, start))
    }

    fn grow(
        &self,
        boosting: &mut HostBoosting<'_>,
        task: &TreeTask<'_>,
    ) -> Result<Vec<Vec<GrownNode>>, DeviceError> {
        Ok(boosting.grow(task))
    }

    fn add(&self, boosting: &mut HostBoosting<'_>, tree: &BinTree) -> Result<(), DeviceError> {
        boosting.add(tree);
        Ok(())
    }
}
