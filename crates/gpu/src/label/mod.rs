//! Forests that label voxels, on the device.

mod channels;
mod filters;
mod splits;
mod voxels;

pub use channels::GpuChannels;
pub use splits::GpuLabelMatrix;

use crate::device::{Context, GpuError};
use crate::gpu::Gpu;
use cudarc::driver::CudaSlice;
use filters::FiltersKernels;
use pbt_features::BoxMeanFeature;
use pbt_tree::{
    BLOCK_EDGE, Block, ChannelBank, DeviceError, Edges, LabelBackend, LabelForest, LabelMatrix,
    MOST_SUM_BYTES, Split, SplitTask, Splitter,
};
use pbt_volume::Volume;
use splits::SplitsKernels;
use voxels::{DeviceLabelForest, VoxelsKernels};

/// The kernels of forests that label voxels.
pub(crate) struct LabelKernels {
    filters: FiltersKernels,
    voxels: VoxelsKernels,
    splits: SplitsKernels,
}

impl LabelKernels {
    pub(crate) fn load(device: &Context) -> Result<Self, GpuError> {
        Ok(Self {
            filters: FiltersKernels::load(device)?,
            voxels: VoxelsKernels::load(device)?,
            splits: SplitsKernels::load(device)?,
        })
    }
}

/// A forest that labels voxels, on the device.
pub struct GpuLabelForest {
    features: Vec<BoxMeanFeature>,
    tables: DeviceLabelForest,
}

/// Edges of blocks, the best first: the larger a block, the fewer voxels are read twice.
const BLOCK_EDGES: [usize; 4] = [256, 192, 128, BLOCK_EDGE];
/// A block may fill one part in so many of the memory that is free.
const BLOCK_SHARE: usize = 2;

impl Gpu {
    /// The channels of a part of an image.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn label_channels(
        &self,
        image: &Volume<u16>,
        bank: &ChannelBank,
        block: &Block,
    ) -> Result<GpuChannels, GpuError> {
        let kernels = (&self.label.filters, &self.images.integral);
        GpuChannels::new(&self.device, kernels, image, bank, block)
    }

    /// A forest, brought to the device.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn upload_label_forest(&self, forest: &LabelForest) -> Result<GpuLabelForest, GpuError> {
        let tables = DeviceLabelForest::new(&self.device, forest)?;
        Ok(GpuLabelForest { features: forest.features.clone(), tables })
    }

    /// The [distribution](LabelForest::distribution) at every voxel of the channels' block, which
    /// stays on the device.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn label_distributions(
        &self,
        channels: &GpuChannels,
        forest: &GpuLabelForest,
    ) -> Result<CudaSlice<u32>, GpuError> {
        let GpuLabelForest { features, tables } = forest;
        self.label.voxels.distributions(&self.device, channels, features, tables)
    }
}

impl LabelBackend for Gpu {
    type Channels = GpuChannels;

    fn block_edge(&self, bank: &ChannelBank, classes: usize) -> usize {
        let free = match self.device.memory_limit {
            Some(limit) => limit,
            None => self.device.free_memory().unwrap_or(0),
        };
        let fits = |edge: &usize| {
            let sums = (edge + 1).pow(3) * 4 * classes;
            sums <= MOST_SUM_BYTES && channels::bytes(bank, *edge) + sums <= free / BLOCK_SHARE
        };
        BLOCK_EDGES.into_iter().find(fits).unwrap_or(BLOCK_EDGE)
    }

    fn channels(
        &self,
        image: &Volume<u16>,
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
        let forest = self.upload_label_forest(forest)?;
        let sums = self.label_distributions(channels, &forest)?;
        let mut out = vec![0; channels.block.len() * forest.tables.classes()];
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
