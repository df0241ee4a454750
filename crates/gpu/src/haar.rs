//! Haar responses and dense scores: the twin of `haar.rs` and `voxels.rs` of `pbt-cpu`.

use crate::classifier::{Cache, DeviceForest};
use crate::gpu::launch;
use crate::image::{DeviceTable, GpuImage, blocks_of};
use crate::{Gpu, GpuError};
use cudarc::driver::sys::CUfunction_attribute;
use cudarc::driver::{CudaFunction, CudaModule, CudaSlice, CudaViewMut, DeviceRepr, LaunchConfig};
use pbt_features::HaarFeature;
use pbt_tree::{Classifier, Score, VoxelSite};
use std::ops::Range;
use std::sync::Arc;

/// Features of a block of `haar_responses`.
const FEATURES_A_BLOCK: usize = 8;
/// Threads of a block that scores; where it alone fills a multiprocessor's shared memory, twice as many.
const THREADS: u32 = 512;
/// Shared memory that the kernels of scoring use beside what they are given, with some to spare.
const STATIC_SHARED: usize = 2048;
/// Bytes of shared memory that a voxel's sums take.
const SUMS_BYTES: usize = 20;
/// Edge lengths of blocks of voxels, as powers of two, the most wanted first. Smaller blocks would read more for their tiles than they save.
const BLOCK_BITS: [[i32; 3]; 2] = [[5, 3, 3], [5, 3, 2]];
/// The same for walks, compact: neighbours take the same path more often.
const WALK_BITS: [[i32; 3]; 3] = [[3, 3, 4], [3, 3, 3], [3, 2, 2]];
/// Below so many weak classifiers a node, grouping costs more than divergence.
const WEAKS_FOR_WAVES: f64 = 4.0;

/// How a classifier is evaluated at every voxel. All give the same scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// A thread a voxel, each with its own stack, on the table in memory: the patent's kernel.
    Walks,
    /// The same on the part of the table that a block of voxels reads, in shared memory.
    TiledWalks,
    /// A block takes its voxels through the tree together, node by node.
    Waves,
    /// The same on the part of the table that it reads, in shared memory.
    TiledWaves,
}

/// The kernels of `haar.cu`.
pub(crate) struct HaarKernels {
    responses: CudaFunction,
    bind: CudaFunction,
    walks: CudaFunction,
    walks_tiled: CudaFunction,
    waves: CudaFunction,
    waves_tiled: CudaFunction,
    pub(crate) classifiers: Cache<HaarFeature, HaarForest>,
}

impl HaarKernels {
    pub(crate) fn load(module: &Arc<CudaModule>, shared_bytes: usize) -> Result<Self, GpuError> {
        let scoring = |name| -> Result<CudaFunction, GpuError> {
            let function = module.load_function(name)?;
            let most = (shared_bytes - STATIC_SHARED) as i32;
            function.set_attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most)?;
            Ok(function)
        };
        Ok(Self {
            responses: module.load_function("haar_responses")?,
            bind: module.load_function("haar_bind")?,
            walks: scoring("haar_walks")?,
            walks_tiled: scoring("haar_walks_tiled")?,
            waves: scoring("haar_waves")?,
            waves_tiled: scoring("haar_waves_tiled")?,
            classifiers: Cache::default(),
        })
    }
}

/// A classifier with the taps of its features.
pub(crate) struct HaarForest {
    forest: DeviceForest,
    /// x, y, z, weight; an even number a feature.
    taps: CudaSlice<[i32; 4]>,
    tap_count: usize,
    /// Lowest and highest offset of a tap on each axis.
    low: [i32; 3],
    high: [i32; 3],
}

impl HaarForest {
    fn new(gpu: &Gpu, features: &[HaarFeature], classifier: &Classifier) -> Result<Self, GpuError> {
        let mut taps = Vec::new();
        let mut pairs = Vec::with_capacity(features.len());
        let (mut low, mut high) = ([0; 3], [0; 3]);
        for feature in features {
            let first = taps.len();
            for ([x, y, z], weight) in feature.taps() {
                taps.push([x, y, z, weight]);
                low = std::array::from_fn(|a| low[a].min([x, y, z][a]));
                high = std::array::from_fn(|a| high[a].max([x, y, z][a]));
            }
            if taps.len() % 2 == 1 {
                taps.push([0; 4]);
            }
            pairs.push([(first / 2) as u32, ((taps.len() - first) / 2) as u32]);
        }
        let forest = DeviceForest::new(gpu, classifier, |feature| pairs[feature as usize])?;
        Ok(Self { forest, tap_count: taps.len(), taps: gpu.upload(&taps)?, low, high })
    }
}

/// `Site` of `haar.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Site {
    image: u32,
    voxel: [i32; 3],
}

// SAFETY: plain numbers in the order and with the sizes of the kernel's structure.
unsafe impl DeviceRepr for Site {}

/// `Blocks` of `haar.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Blocks {
    shape: [i32; 3],
    bits: [i32; 3],
    blocks: [i32; 3],
    low: [i32; 3],
    extent: [i32; 3],
}

// SAFETY: as above.
unsafe impl DeviceRepr for Blocks {}

impl Blocks {
    fn new(shape: [usize; 3], bits: [i32; 3], forest: &HaarForest) -> Self {
        let shape = shape.map(|n| n as i32);
        Self {
            shape,
            bits,
            blocks: std::array::from_fn(|a| (shape[a] + (1 << bits[a]) - 1) >> bits[a]),
            low: forest.low,
            extent: std::array::from_fn(|a| (1 << bits[a]) + forest.high[a] - forest.low[a]),
        }
    }

    /// Voxels of a block.
    fn capacity(&self) -> usize {
        1 << self.bits.iter().sum::<i32>()
    }

    fn count(&self) -> usize {
        self.blocks.iter().map(|&n| n as usize).product()
    }

    fn tile_bytes(&self) -> usize {
        self.extent.iter().map(|&n| n as usize).product::<usize>() * size_of::<u32>()
    }
}

/// Haar features and voxels, ready for responses.
pub(crate) struct HaarSites<'a> {
    gpu: &'a Gpu,
    tables: CudaSlice<DeviceTable>,
    sites: CudaSlice<Site>,
    taps: CudaSlice<[i32; 4]>,
    first_taps: CudaSlice<u32>,
}

impl<'a> HaarSites<'a> {
    pub(crate) fn new(gpu: &'a Gpu, images: &[&GpuImage], features: &[HaarFeature], sites: &[VoxelSite]) -> Result<Self, GpuError> {
        let of_image = |s: &VoxelSite| images[s.image as usize].integral();
        let pad = sites.iter().map(|s| of_image(s).pad).min().unwrap_or(usize::MAX);
        assert!(features.iter().all(|f| f.radius() <= pad), "a feature reaches beyond the padding");
        let inside = |s: &VoxelSite| (0..3).all(|a| s.voxel[a] >= 0 && (s.voxel[a] as usize) < of_image(s).shape[a]);
        assert!(sites.iter().all(inside), "a site lies outside its image");
        let (mut taps, mut first_taps) = (Vec::new(), vec![0]);
        for feature in features {
            taps.extend(feature.taps().into_iter().map(|([x, y, z], weight)| [x, y, z, weight]));
            first_taps.push(taps.len() as u32);
        }
        let sites: Vec<Site> = sites.iter().map(|s| Site { image: s.image, voxel: s.voxel }).collect();
        // Images that no site is in may be without an integral volume, but none is asked for then.
        let tables: Vec<DeviceTable> = images.iter().map(|i| i.integral().device_table(gpu)).collect();
        Ok(Self {
            gpu,
            tables: gpu.upload(&tables)?,
            sites: gpu.upload(&sites)?,
            taps: gpu.upload(&taps)?,
            first_taps: gpu.upload(&first_taps)?,
        })
    }

    /// The responses of some of the features at some of the sites, `[feature][site]`.
    pub(crate) fn respond(&self, features: Range<usize>, sites: Range<usize>, out: &mut CudaViewMut<'_, i32>) -> Result<(), GpuError> {
        if features.is_empty() || sites.is_empty() {
            return Ok(());
        }
        let config = LaunchConfig {
            grid_dim: (sites.len().div_ceil(128) as u32, features.len().div_ceil(FEATURES_A_BLOCK) as u32, 1),
            block_dim: (128, 1, 1),
            shared_mem_bytes: 0,
        };
        let (site_count, feature_count, per_block) = (sites.len() as u32, features.len() as u32, FEATURES_A_BLOCK as u32);
        let (sites, first_taps) = (self.sites.slice(sites), self.first_taps.slice(features.start..features.end + 1));
        let (gpu, kernel) = (self.gpu, &self.gpu.haar.responses);
        launch!(gpu, kernel, config, &self.tables, &sites, &site_count, &self.taps, &first_taps, &feature_count, &per_block, out)
    }
}

impl Gpu {
    /// Scores of all voxels, evaluated in one of the ways; `None` where blocks do not fit into shared memory. The scores stay on the device.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn voxel_scores(
        &self,
        image: &GpuImage,
        features: &[HaarFeature],
        classifier: &Classifier,
        strategy: Strategy,
    ) -> Result<Option<CudaSlice<i64>>, GpuError> {
        let forest = self.haar_forest(features, classifier)?;
        let integral = image.integral();
        assert!(features.iter().all(|f| f.radius() <= integral.pad), "a feature reaches beyond the padding");
        let tiled = matches!(strategy, Strategy::TiledWalks | Strategy::TiledWaves);
        let waves = matches!(strategy, Strategy::Waves | Strategy::TiledWaves);
        let shared = |b: &Blocks| if waves { b.capacity() * SUMS_BYTES } else { 0 } + if tiled { b.tile_bytes() } else { 0 };
        let candidates: &[[i32; 3]] = match strategy {
            // The patent's kernel has a voxel a thread.
            Strategy::Walks => &[[5, 2, 2]],
            Strategy::TiledWalks => &WALK_BITS,
            Strategy::Waves | Strategy::TiledWaves => &BLOCK_BITS,
        };
        let mut candidates = candidates.iter().map(|&bits| Blocks::new(integral.shape, bits, &forest));
        let Some(blocks) = candidates.find(|b| shared(b) + STATIC_SHARED <= self.shared_bytes) else { return Ok(None) };

        let argument = forest.forest.argument(self);
        // SAFETY: kernels write them before they are read: the taps here, a score each voxel.
        let (mut taps, mut scores) =
            unsafe { (self.alloc::<[i32; 2]>(forest.tap_count)?, self.alloc::<i64>(integral.shape.iter().product())?) };
        let (row, plane) = match tiled {
            true => (blocks.extent[0], blocks.extent[0] * blocks.extent[1]),
            false => (integral.row as i32, integral.plane as i32),
        };
        let bind = blocks_of(128, forest.tap_count);
        launch!(self, &self.haar.bind, bind, &forest.taps, &(forest.tap_count as u32), &row, &plane, &mut taps)?;
        let kernel = match strategy {
            Strategy::Walks => &self.haar.walks,
            Strategy::TiledWalks => &self.haar.walks_tiled,
            Strategy::Waves => &self.haar.waves,
            Strategy::TiledWaves => &self.haar.waves_tiled,
        };
        let shared_bytes = shared(&blocks);
        let threads = if strategy == Strategy::TiledWaves { 2 * THREADS } else { THREADS };
        let resident = kernel.occupancy_max_active_blocks_per_multiprocessor(threads, shared_bytes, None)?.max(1) as usize;
        let grid = if waves || tiled { blocks.count().min(resident * self.multiprocessors) } else { blocks.count() };
        let config =
            LaunchConfig { grid_dim: (grid.max(1) as u32, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: shared_bytes as u32 };
        let table = integral.device_table(self);
        if waves {
            let lists = grid * (2 * argument.depth as usize + 2) * blocks.capacity();
            // SAFETY: what is read of a list was written to it.
            let (mut places, mut weights) = unsafe { (self.alloc::<u32>(lists)?, self.alloc::<u64>(lists)?) };
            launch!(self, kernel, config, &argument, &table, &blocks, &taps, &mut places, &mut weights, &mut scores)?;
        } else {
            launch!(self, kernel, config, &argument, &table, &blocks, &taps, &mut scores)?;
        }
        Ok(Some(scores))
    }

    /// [`Gpu::voxel_scores`] in the way that is the fastest for the classifier, on the host.
    pub(crate) fn score_voxels(&self, image: &GpuImage, features: &[HaarFeature], classifier: &Classifier) -> Result<Vec<Score>, GpuError> {
        let waves = self.haar_forest(features, classifier)?.forest.weaks_a_node >= WEAKS_FOR_WAVES;
        let order: &[Strategy] = if waves { &[Strategy::TiledWaves, Strategy::Waves] } else { &[Strategy::Walks] };
        for &strategy in order {
            if let Some(scores) = self.voxel_scores(image, features, classifier, strategy)? {
                return self.read_scores(&scores);
            }
        }
        unreachable!("the whole table needs no tile")
    }

    fn haar_forest(&self, features: &[HaarFeature], classifier: &Classifier) -> Result<Arc<HaarForest>, GpuError> {
        self.haar.classifiers.get(classifier, features, || HaarForest::new(self, features, classifier))
    }
}
