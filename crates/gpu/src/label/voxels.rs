//! Responses and labels of voxels on the device.

use crate::constants::LABEL_THREADS;
use crate::device::{Context, GpuError, launch, module};
use crate::label::channels::GpuChannels;
use cudarc::driver::{CudaFunction, CudaSlice, DeviceRepr, LaunchConfig};
use pbt_features::BoxMeanFeature;
use pbt_tree::{Edges, LEAF, LabelForest, LabelNode, Vote};

/// The kernels of `voxels.cu`.
pub(crate) struct VoxelsKernels {
    respond: CudaFunction,
    bins: CudaFunction,
    distributions: CudaFunction,
}

/// `Node` of `voxels.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct DeviceNode {
    feature: u32,
    next: u32,
    low: i64,
    high: i64,
    _unused: u64,
}

// SAFETY: plain numbers in the order and with the sizes of the kernel's structure.
unsafe impl DeviceRepr for DeviceNode {}

/// `int3` of CUDA.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Int3([i32; 3]);

// SAFETY: as above.
unsafe impl DeviceRepr for Int3 {}

/// A forest on the device. Nodes and leaves of all trees are numbered through.
pub struct GpuLabelForest {
    features: Vec<BoxMeanFeature>,
    nodes: CudaSlice<DeviceNode>,
    roots: CudaSlice<u32>,
    leaves: CudaSlice<u16>,
    trees: usize,
    classes: usize,
    vote: Vote,
}

impl GpuLabelForest {
    pub(crate) fn new(device: &Context, forest: &LabelForest) -> Result<Self, GpuError> {
        let (mut nodes, mut roots, mut leaves) = (Vec::new(), Vec::new(), Vec::new());
        for tree in &forest.trees {
            let (first_node, first_leaf) =
                (nodes.len() as u32, (leaves.len() / forest.classes) as u32);
            roots.push(first_node);
            nodes.extend(tree.nodes.iter().map(|&LabelNode { feature, next, low, high }| {
                let first = if feature == LEAF { first_leaf } else { first_node };
                DeviceNode { feature, next: next + first, low, high, _unused: 0 }
            }));
            leaves.extend(&tree.leaves);
        }
        Ok(Self {
            features: forest.features.clone(),
            nodes: device.upload(&nodes)?,
            roots: device.upload(&roots)?,
            leaves: device.upload(&leaves)?,
            trees: forest.trees.len(),
            classes: forest.classes,
            vote: forest.vote,
        })
    }

    /// Number of classes.
    pub(crate) fn classes(&self) -> usize {
        self.classes
    }
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
            distributions: module.load_function("voxels_distributions")?,
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

    /// The distribution of every voxel of the channels' block, i fastest, classes together.
    pub(crate) fn distributions(
        &self,
        device: &Context,
        channels: &GpuChannels,
        forest: &GpuLabelForest,
    ) -> Result<CudaSlice<u32>, GpuError> {
        let block = &channels.block;
        let bound = device.upload(&channels.bind(device, &forest.features))?;
        // SAFETY: the kernel writes all of them.
        let mut out = unsafe { device.alloc::<u32>(block.len() * forest.classes) }?;
        let [nx, ny, nz] = block.shape().map(|n| n as u32);
        let rows = LABEL_THREADS / 32;
        let config = LaunchConfig {
            grid_dim: (nx.div_ceil(32), ny.div_ceil(rows), nz),
            block_dim: (32, rows, 1),
            shared_mem_bytes: LABEL_THREADS * 4 * forest.classes as u32,
        };
        launch!(
            device,
            &self.distributions,
            config,
            &channels.tables(),
            &Int3(block.min.map(|n| n as i32)),
            &Int3(block.shape().map(|n| n as i32)),
            &bound,
            &forest.nodes,
            &forest.roots,
            &(forest.trees as u32),
            &forest.leaves,
            &(forest.classes as u32),
            &u32::from(forest.vote == Vote::Majority),
            &mut out
        )?;
        Ok(out)
    }
}
