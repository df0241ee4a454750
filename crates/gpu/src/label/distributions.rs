//! What a forest says of all voxels of a block, on the device.

use crate::constants::{DISTRIBUTION_CHUNK, DISTRIBUTION_THREADS};
use crate::device::{Context, GpuError, launch, module};
use crate::label::channels::GpuChannels;
use crate::label::forest::{GpuLabelForest, Nodes, Number, factors, leaf_stride};
use cudarc::driver::sys::CUfunction_attribute;
use cudarc::driver::{CudaFunction, CudaSlice, DevicePtr, DeviceRepr, LaunchConfig};
use pbt_tree::Vote;

/// Bytes of shared memory that features may take: the rest of it caches the tables.
const MOST_FEATURE_BYTES: usize = 96 << 10;
/// The same for sums, of all classes of a block's voxels.
const MOST_SUM_BYTES: usize = 32 << 10;

/// Most threads of a block that labels some voxels: they are few, and blocks should be many.
const LIST_THREADS: usize = 256;
/// Threads that a multiprocessor keeps at work.
const RESIDENT_THREADS: usize = 2048;
/// Most blocks that share the trees of the same voxels.
const MOST_SHARES: usize = 16;

/// The kernels of `distributions.cu`.
pub(crate) struct DistributionsKernels {
    narrow: CudaFunction,
    wide: CudaFunction,
    shared_bytes: usize,
}

/// `Feature` of `distributions.cu`.
#[repr(C, align(16))]
#[derive(Debug, Clone, Copy)]
struct Feature<N> {
    corners: [u64; 2],
    sizes: [u32; 2],
    factors: [N; 2],
}

// SAFETY: plain numbers in the order and with the sizes of the kernel's structure.
unsafe impl<N: Number> DeviceRepr for Feature<N> {}

/// `Range` of `distributions.cu`.
#[repr(C, align(16))]
#[derive(Debug, Clone, Copy)]
struct Range {
    low: [i32; 4],
    high: [i32; 4],
}

// SAFETY: as above.
unsafe impl DeviceRepr for Range {}

/// `Forest` of `distributions.cu`; the first five are addresses.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Forest {
    features: u64,
    ranges: u64,
    nodes: u64,
    trees: u64,
    leaves: u64,
    feature_count: u32,
    tree_count: u32,
    classes: u32,
    leaf_stride: u32,
    majority: u32,
    in_shared: u32,
    all: Range,
    min: [i32; 4],
    shape: [i32; 4],
    voxels: u64,
    voxel_count: u32,
    _unused: u32,
}

// SAFETY: as above.
unsafe impl DeviceRepr for Forest {}

/// Threads of a block: the more the better, as long as there is room for their sums.
fn threads(classes: usize) -> usize {
    let mut threads = DISTRIBUTION_THREADS as usize;
    while threads > 128 && threads * classes * size_of::<u32>() > MOST_SUM_BYTES {
        threads /= 2;
    }
    threads
}

impl DistributionsKernels {
    pub(super) fn load(device: &Context) -> Result<Self, GpuError> {
        let module = module!(device, "distributions")?;
        let shared_bytes = (MOST_FEATURE_BYTES + MOST_SUM_BYTES).min(device.shared_bytes);
        let load = |name| -> Result<CudaFunction, GpuError> {
            let kernel = module.load_function(name)?;
            kernel.set_attribute(
                CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                shared_bytes as i32,
            )?;
            Ok(kernel)
        };
        Ok(Self {
            narrow: load("distributions_32")?,
            wide: load("distributions_64")?,
            shared_bytes,
        })
    }

    /// The distribution of every voxel of the channels' block, i fastest, classes together.
    pub(crate) fn of_block(
        &self,
        device: &Context,
        channels: &GpuChannels,
        forest: &GpuLabelForest,
    ) -> Result<CudaSlice<u32>, GpuError> {
        self.of(device, channels, forest, None)
    }

    /// The same of these voxels of the block, in their order.
    pub(crate) fn of_voxels(
        &self,
        device: &Context,
        channels: &GpuChannels,
        forest: &GpuLabelForest,
        voxels: &[[usize; 3]],
    ) -> Result<CudaSlice<u32>, GpuError> {
        let (min, [nx, ny, _]) = (channels.block.min, channels.block.shape());
        let number =
            |[i, j, k]: &[usize; 3]| (((k - min[2]) * ny + j - min[1]) * nx + i - min[0]) as u32;
        let numbers: Vec<u32> = voxels.iter().map(number).collect();
        self.of(device, channels, forest, Some(&numbers))
    }

    fn of(
        &self,
        device: &Context,
        channels: &GpuChannels,
        forest: &GpuLabelForest,
        voxels: Option<&[u32]>,
    ) -> Result<CudaSlice<u32>, GpuError> {
        let stream = &device.stream;
        match &forest.nodes {
            Nodes::Narrow(nodes) => {
                let kernel = (&self.narrow, nodes.device_ptr(stream).0);
                self.of_numbers::<i32>(device, kernel, channels, forest, voxels)
            }
            Nodes::Wide(nodes) => {
                let kernel = (&self.wide, nodes.device_ptr(stream).0);
                self.of_numbers::<i64>(device, kernel, channels, forest, voxels)
            }
        }
    }

    fn of_numbers<N: Number>(
        &self,
        device: &Context,
        (kernel, nodes): (&CudaFunction, u64),
        channels: &GpuChannels,
        forest: &GpuLabelForest,
        voxels: Option<&[u32]>,
    ) -> Result<CudaSlice<u32>, GpuError> {
        let bound = channels.bind(device, &forest.features);
        let features = bound.iter().zip(&forest.features).map(|(bound, feature)| Feature {
            corners: bound.corners(),
            sizes: bound.sizes(),
            factors: factors(feature).0.map(N::of),
        });
        let features = device.upload(&features.collect::<Vec<Feature<N>>>())?;
        let ranges: Vec<Range> = bound
            .iter()
            .map(|bound| bound.range())
            .map(|[low, high]| Range { low, high })
            .collect();
        // Where nothing is missing, whatever is asked.
        let mut all = Range { low: [i32::MIN; 4], high: [i32::MAX; 4] };
        for range in &ranges {
            for a in 0..3 {
                all.low[a] = all.low[a].max(range.low[a]);
                all.high[a] = all.high[a].min(range.high[a]);
            }
        }
        let ranges = device.upload(&ranges)?;
        let block = &channels.block;
        let four = |[x, y, z]: [usize; 3]| [x as i32, y as i32, z as i32, 0];
        let chunks: usize = block.shape().iter().map(|n| n.div_ceil(DISTRIBUTION_CHUNK)).product();
        let (count, threads, all_threads) = match voxels {
            None => {
                let threads = threads(forest.classes);
                (block.len(), threads, chunks * DISTRIBUTION_CHUNK.pow(3))
            }
            Some(voxels) => {
                let threads = threads(forest.classes).min(LIST_THREADS);
                (voxels.len(), threads, voxels.len().next_multiple_of(threads))
            }
        };
        // Few voxels would leave a device idle, where each goes through one tree after the other.
        let shares = (RESIDENT_THREADS * device.multiprocessors / all_threads)
            .clamp(1, forest.trees.clamp(1, MOST_SHARES));
        let voxels = voxels.map(|voxels| device.upload(voxels)).transpose()?;
        let sum_bytes = threads * forest.classes * size_of::<u32>();
        let feature_bytes = size_of::<Feature<N>>() * forest.features.len();
        let in_shared =
            feature_bytes <= MOST_FEATURE_BYTES && feature_bytes + sum_bytes <= self.shared_bytes;
        let stream = &device.stream;
        let argument = Forest {
            features: features.device_ptr(stream).0,
            ranges: ranges.device_ptr(stream).0,
            nodes,
            trees: forest.roots.device_ptr(stream).0,
            leaves: forest.leaves.device_ptr(stream).0,
            feature_count: forest.features.len() as u32,
            tree_count: forest.trees as u32,
            classes: forest.classes as u32,
            leaf_stride: leaf_stride(forest.classes) as u32,
            majority: u32::from(forest.vote == Vote::Majority),
            in_shared: u32::from(in_shared),
            all,
            min: four(block.min),
            shape: four(block.shape()),
            voxels: voxels.as_ref().map_or(0, |voxels| voxels.device_ptr(stream).0),
            voxel_count: count as u32,
            _unused: 0,
        };
        let mut out = if shares > 1 {
            device.zeros::<u32>(count * forest.classes)?
        } else {
            // SAFETY: the kernel writes all of them.
            unsafe { device.alloc::<u32>(count * forest.classes) }?
        };
        let config = LaunchConfig {
            grid_dim: ((all_threads / threads) as u32, shares as u32, 1),
            block_dim: (threads as u32, 1, 1),
            shared_mem_bytes: (sum_bytes + if in_shared { feature_bytes } else { 0 }) as u32,
        };
        launch!(device, kernel, config, &channels.tables(), &argument, &mut out)?;
        Ok(out)
    }
}
