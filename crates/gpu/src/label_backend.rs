//! Forests that label voxels: what training and labelling ask for, on the device.

use crate::gpu::Gpu;
use crate::label::{GpuBoosting, GpuChannels, GpuLabelMatrix, block_edge};
use pbt_features::BoxMeanFeature;
use pbt_tree::{
    BinTree, Block, ChannelBank, DeviceError, Edges, GrownNode, LabelBackend, LabelBooster,
    LabelForest, LabelMatrix, Layered, Split, SplitTask, Splitter, TreeTask,
};

impl LabelBackend for Gpu {
    type Channels = GpuChannels;

    fn block_edge(&self, bank: &ChannelBank, classes: usize) -> usize {
        block_edge(&self.device, bank, classes)
    }

    fn channels(
        &self,
        image: Layered<'_>,
        bank: &ChannelBank,
        block: &Block,
    ) -> Result<GpuChannels, DeviceError> {
        Ok(self.label_channels(image, bank, block)?)
    }

    fn respond(
        &self,
        channels: &GpuChannels,
        features: &[BoxMeanFeature],
        voxels: &[[usize; 3]],
        out: &mut [i64],
    ) -> Result<(), DeviceError> {
        if features.is_empty() || voxels.is_empty() {
            return Ok(());
        }
        let responses = self.label.voxels.respond(&self.device, channels, features, voxels)?;
        self.device.read(&responses, out)?;
        Ok(())
    }

    fn bins(
        &self,
        channels: &GpuChannels,
        features: &[BoxMeanFeature],
        edges: &[Edges],
        voxels: &[[usize; 3]],
        out: &mut [u8],
    ) -> Result<(), DeviceError> {
        if features.is_empty() || voxels.is_empty() {
            return Ok(());
        }
        let of = (features, edges);
        let bins = self.label.voxels.bins(&self.device, channels, of, voxels)?;
        self.device.read(&bins, out)?;
        Ok(())
    }

    fn distributions(
        &self,
        channels: &GpuChannels,
        forest: &LabelForest,
    ) -> Result<Vec<u32>, DeviceError> {
        let forest = self.label.forest(&self.device, forest)?;
        let sums = self.label_distributions(channels, &forest)?;
        let mut out = vec![0; channels.block.len() * forest.classes()];
        self.device.read(&sums, &mut out)?;
        Ok(out)
    }

    fn distributions_at(
        &self,
        channels: &GpuChannels,
        forest: &LabelForest,
        voxels: &[[usize; 3]],
    ) -> Result<Vec<u32>, DeviceError> {
        if voxels.is_empty() {
            return Ok(Vec::new());
        }
        let forest = self.label.forest(&self.device, forest)?;
        let sums = self.label.distributions.of_voxels(&self.device, channels, &forest, voxels)?;
        let mut out = vec![0; voxels.len() * forest.classes()];
        self.device.read(&sums, &mut out)?;
        Ok(out)
    }
}

impl Splitter for Gpu {
    type Matrix<'a> = GpuLabelMatrix;

    fn matrix(&self, matrix: &LabelMatrix) -> Result<GpuLabelMatrix, DeviceError> {
        Ok(GpuLabelMatrix::new(&self.device, matrix)?)
    }

    fn best_splits(
        &self,
        matrix: &GpuLabelMatrix,
        tasks: &[SplitTask<'_>],
        min_leaf: u32,
    ) -> Result<Vec<Option<Split>>, DeviceError> {
        Ok(self.label.splits.best(&self.device, matrix, tasks, min_leaf)?)
    }
}

impl LabelBooster for Gpu {
    type Boosting<'a> = GpuBoosting;

    fn boosting(&self, matrix: &LabelMatrix, start: &[i32]) -> Result<GpuBoosting, DeviceError> {
        Ok(GpuBoosting::new(&self.device, matrix, start)?)
    }

    fn grow(
        &self,
        boosting: &mut GpuBoosting,
        task: &TreeTask<'_>,
    ) -> Result<Vec<Vec<GrownNode>>, DeviceError> {
        Ok(self.label.boosted.grow(&self.device, boosting, task)?)
    }

    fn add(&self, boosting: &mut GpuBoosting, tree: &BinTree) -> Result<(), DeviceError> {
        Ok(self.label.boosted.add(&self.device, boosting, tree)?)
    }
}
