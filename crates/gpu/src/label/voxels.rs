//! Responses at voxels on the device.

use crate::constants::LABEL_THREADS;
use crate::device::{Context, GpuError, launch, module};
use crate::label::channels::GpuChannels;
use cudarc::driver::{CudaFunction, CudaSlice, LaunchConfig};
use pbt_features::BoxMeanFeature;
use pbt_tree::Edges;

/// The kernels of `voxels.cu`.
pub(crate) struct VoxelsKernels {
    respond: CudaFunction,
    bins: CudaFunction,
}

/// Most features of a launch: blocks along y.
const MOST_BLOCKS: usize = 1 << 15;

fn upload_voxels(device: &Context, voxels: &[[usize; 3]]) -> Result<CudaSlice<i32>, GpuError> {
    let places: Vec<i32> = voxels.iter().flatten().map(|&n| n as i32).collect();
    device.upload(&places)
}

/// A thread for each voxel, blocks along y for features.
fn by_feature(features: &[BoxMeanFeature], voxels: &[[usize; 3]]) -> LaunchConfig {
    let along_voxels = voxels.len().div_ceil(LABEL_THREADS as usize);
    LaunchConfig {
        grid_dim: (along_voxels as u32, features.len().min(MOST_BLOCKS) as u32, 1),
        block_dim: (LABEL_THREADS, 1, 1),
        shared_mem_bytes: 0,
    }
}

impl VoxelsKernels {
    pub(super) fn load(device: &Context) -> Result<Self, GpuError> {
        let module = module!(device, "voxels")?;
        Ok(Self {
            respond: module.load_function("voxels_respond")?,
            bins: module.load_function("voxels_bins")?,
        })
    }

    /// Responses of features at voxels, `[feature][voxel]`.
    pub(crate) fn respond(
        &self,
        device: &Context,
        channels: &GpuChannels,
        features: &[BoxMeanFeature],
        voxels: &[[usize; 3]],
    ) -> Result<CudaSlice<i64>, GpuError> {
        let places = upload_voxels(device, voxels)?;
        let bound = device.upload(&channels.bind(device, features))?;
        // SAFETY: the kernel writes all of them.
        let mut out = unsafe { device.alloc::<i64>(features.len() * voxels.len()) }?;
        launch!(
            device,
            &self.respond,
            by_feature(features, voxels),
            &channels.tables(),
            &bound,
            &(features.len() as u32),
            &places,
            &(voxels.len() as u32),
            &mut out
        )?;
        Ok(out)
    }

    /// Bins of the same, `[feature][voxel]`.
    pub(crate) fn bins(
        &self,
        device: &Context,
        channels: &GpuChannels,
        (features, edges): (&[BoxMeanFeature], &[Edges]),
        voxels: &[[usize; 3]],
    ) -> Result<CudaSlice<u8>, GpuError> {
        let places = upload_voxels(device, voxels)?;
        let bound = device.upload(&channels.bind(device, features))?;
        let (mut first_edges, mut all_edges) = (vec![0u32], Vec::new());
        for edges in edges {
            all_edges.extend_from_slice(edges.as_slice());
            first_edges.push(all_edges.len() as u32);
        }
        let (first_edges, all_edges) = (device.upload(&first_edges)?, device.upload(&all_edges)?);
        // SAFETY: the kernel writes all of them.
        let mut out = unsafe { device.alloc::<u8>(features.len() * voxels.len()) }?;
        launch!(
            device,
            &self.bins,
            by_feature(features, voxels),
            &channels.tables(),
            &bound,
            &(features.len() as u32),
            &all_edges,
            &first_edges,
            &places,
            &(voxels.len() as u32),
            &mut out
        )?;
        Ok(out)
    }
}
