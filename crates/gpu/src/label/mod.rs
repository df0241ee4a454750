//! Forests that label voxels, on the device.

mod boosted;
mod channels;
mod distributions;
mod filters;
mod forest;
mod splits;
mod voxels;

pub use boosted::GpuBoosting;
pub use channels::GpuChannels;
pub use forest::GpuLabelForest;
pub use splits::GpuLabelMatrix;

use crate::device::{Context, GpuError};
use crate::forest::Cache;
use crate::integral::IntegralKernels;
use boosted::BoostedKernels;
use distributions::DistributionsKernels;
use filters::FiltersKernels;
use pbt_tree::{BLOCK_EDGE, Block, ChannelBank, LabelForest, Layered, MOST_SUM_BYTES};
use splits::SplitsKernels;
use std::sync::Arc;
use voxels::VoxelsKernels;

/// The kernels of forests that label voxels.
pub(crate) struct LabelKernels {
    filters: FiltersKernels,
    pub(crate) voxels: VoxelsKernels,
    pub(crate) distributions: DistributionsKernels,
    pub(crate) splits: SplitsKernels,
    pub(crate) boosted: BoostedKernels,
    forests: Cache<LabelForest, GpuLabelForest>,
}

/// Edges of blocks, the best first: the larger a block, the fewer voxels are read twice.
const BLOCK_EDGES: [usize; 4] = [256, 192, 128, BLOCK_EDGE];
/// A block may fill one part in so many of the memory that is free.
const BLOCK_SHARE: usize = 2;

impl LabelKernels {
    pub(crate) fn load(device: &Context) -> Result<Self, GpuError> {
        Ok(Self {
            filters: FiltersKernels::load(device)?,
            voxels: VoxelsKernels::load(device)?,
            distributions: DistributionsKernels::load(device)?,
            splits: SplitsKernels::load(device)?,
            boosted: BoostedKernels::load(device)?,
            forests: Cache::default(),
        })
    }

    /// A forest on the device, where it stays for a while.
    pub(crate) fn forest(
        &self,
        device: &Context,
        forest: &LabelForest,
    ) -> Result<Arc<GpuLabelForest>, GpuError> {
        self.forests.get(
            |other| other == forest,
            || Ok((forest.clone(), GpuLabelForest::new(device, forest)?)),
        )
    }

    /// The channels of a part of an image.
    pub(crate) fn channels(
        &self,
        device: &Context,
        integrals: &IntegralKernels,
        image: Layered<'_>,
        bank: &ChannelBank,
        block: &Block,
    ) -> Result<GpuChannels, GpuError> {
        GpuChannels::new(device, (&self.filters, integrals), image, bank, block)
    }
}

/// The edge of blocks for a forest with so many classes, voxels.
pub(crate) fn block_edge(device: &Context, bank: &ChannelBank, classes: usize) -> usize {
    let free = match device.memory_limit {
        Some(limit) => limit,
        None => device.free_memory().unwrap_or(0),
    };
    let fits = |edge: &usize| {
        let sums = (edge + 1).pow(3) * 4 * classes;
        sums <= MOST_SUM_BYTES && channels::bytes(bank, *edge) + sums <= free / BLOCK_SHARE
    };
    BLOCK_EDGES.into_iter().find(fits).unwrap_or(BLOCK_EDGE)
}
