//! Haar responses and dense scores: the twin of `haar.rs` of `pbt-cpu`.

use crate::backend::{DeviceFamily, Respond};
use crate::constants::{TILE_ROW, TILED_THREADS, WALK_THREADS, WAVE_THREADS};
use crate::device::{blocks_of, launch};
use crate::forest::{Cache, DeviceForest};
use crate::image::{Tables, images_with_sites};
use crate::integral::{DeviceTable, Integral};
use crate::paths::Forks;
use crate::{Gpu, GpuError, GpuImage};
use cudarc::driver::sys::CUfunction_attribute;
use cudarc::driver::{CudaFunction, CudaModule, CudaSlice, CudaViewMut, DeviceRepr, LaunchConfig};
use pbt_features::HaarFeature;
use pbt_tree::{AllVoxels, Classifier, Haar, VoxelSite};
use std::ops::Range;
use std::sync::Arc;

/// Features of a block of `haar_responses`.
const FEATURES_A_BLOCK: usize = 8;
/// Places in a tile (16 bits of a tap; the others are its weight).
const TILE_VALUES: usize = 1 << 16;
/// Shared memory that the kernels of scoring use beside what they are given, with some to spare.
const STATIC_SHARED: usize = 2048;
/// Bytes of shared memory that a voxel's sums take.
const SUMS_BYTES: usize = 20;
/// Edge lengths of blocks of voxels, as powers of two, the most wanted first. Smaller blocks would
/// read more for their tiles than they save.
const BLOCK_BITS: [[i32; 3]; 2] = [[5, 3, 3], [5, 3, 2]];
/// The same for walks.
const WALK_BITS: [i32; 3] = [5, 2, 2];
/// Below so many weak classifiers a node, grouping costs more than divergence.
const WEAKS_FOR_WAVES: f64 = 4.0;

/// How a classifier is evaluated at every voxel. All give the same scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// A thread a voxel, each with its own stack, on the table in memory: the patent's kernel.
    Walks,
    /// A block takes its voxels through the tree together, node by node.
    Waves,
    /// The same on the part of the table that it reads, in shared memory.
    TiledWaves,
    /// A thread a voxel, without a stack, on such a part: for hard trees with one threshold a node.
    Paths,
}

/// The kernels of `haar.cu`.
pub(crate) struct HaarKernels {
    responses: CudaFunction,
    bind_to_table: CudaFunction,
    bind_to_tile: CudaFunction,
    walks: CudaFunction,
    waves: CudaFunction,
    waves_tiled: CudaFunction,
    pub(crate) paths: CudaFunction,
    classifiers: Cache<HaarFeature, HaarForest>,
}

impl HaarKernels {
    /// From the modules of `haar.cu` and `paths.cu`.
    pub(crate) fn load(
        module: &Arc<CudaModule>,
        paths: &Arc<CudaModule>,
        shared_bytes: usize,
    ) -> Result<Self, GpuError> {
        let scoring = |module: &Arc<CudaModule>, name| -> Result<CudaFunction, GpuError> {
            let function = module.load_function(name)?;
            let most = (shared_bytes - STATIC_SHARED) as i32;
            function.set_attribute(
                CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                most,
            )?;
            Ok(function)
        };
        Ok(Self {
            responses: module.load_function("haar_responses")?,
            bind_to_table: module.load_function("haar_bind_to_table")?,
            bind_to_tile: module.load_function("haar_bind_to_tile")?,
            walks: scoring(module, "haar_walks")?,
            waves: scoring(module, "haar_waves")?,
            waves_tiled: scoring(module, "haar_waves_tiled")?,
            paths: scoring(paths, "paths_score")?,
            classifiers: Cache::default(),
        })
    }
}

/// A classifier with the taps of its features.
pub(crate) struct HaarForest {
    pub(crate) forest: DeviceForest,
    /// The nodes once more, where [`Strategy::Paths`] serves.
    pub(crate) paths: Option<Forks>,
    /// x, y, z, weight; a multiple of four a feature, and four more.
    taps: CudaSlice<[i32; 4]>,
    tap_count: usize,
    /// Whether the taps' weights have 16 bits, as a tile's have.
    small_weights: bool,
    /// Lowest and highest offset of a corner on each axis.
    low: [i32; 3],
    high: [i32; 3],
}

impl HaarForest {
    fn new(gpu: &Gpu, features: &[HaarFeature], classifier: &Classifier) -> Result<Self, GpuError> {
        let mut taps = Vec::new();
        let mut places = Vec::with_capacity(features.len());
        let (mut low, mut high) = ([0; 3], [0; 3]);
        for feature in features {
            let (first, own) = (taps.len(), feature.taps());
            taps.extend(own.iter().map(|&([x, y, z], weight)| [x, y, z, weight]));
            for cuboid in feature.cuboids() {
                low = std::array::from_fn(|a| low[a].min(cuboid.min[a].into()));
                high = std::array::from_fn(|a| {
                    high[a].max(i32::from(cuboid.min[a]) + i32::from(cuboid.size[a]))
                });
            }
            taps.resize(taps.len().next_multiple_of(4), [0; 4]);
            places.push(TapPlace { four: (first / 4) as u32, pairs: own.len().div_ceil(2) as u32 });
        }
        // Taps are read four ahead.
        taps.resize(taps.len() + 4, [0; 4]);
        let forest =
            DeviceForest::new(gpu, classifier, |feature| places[feature as usize].words())?;
        let small_weights = taps.iter().all(|tap| i16::try_from(tap[3]).is_ok());
        let paths = Forks::new(gpu, classifier, features)?;
        Ok(Self {
            forest,
            paths,
            tap_count: taps.len(),
            taps: gpu.device.upload(&taps)?,
            small_weights,
            low,
            high,
        })
    }

    /// The taps as the tile of a block needs them.
    fn bind_to_tile(&self, gpu: &Gpu, blocks: &Blocks) -> Result<CudaSlice<[i32; 2]>, GpuError> {
        // SAFETY: what is read of them is written here.
        let mut bound = unsafe { gpu.device.alloc::<[i32; 2]>(self.tap_count.div_ceil(2)) }?;
        let config = blocks_of(128, self.tap_count);
        launch!(
            gpu.device,
            &gpu.haar.bind_to_tile,
            config,
            &self.taps,
            &(self.tap_count as u32),
            blocks,
            &mut bound
        )?;
        Ok(bound)
    }

    fn bind_to_table(
        &self,
        gpu: &Gpu,
        integral: &Integral,
    ) -> Result<CudaSlice<[i32; 2]>, GpuError> {
        // SAFETY: as above.
        let mut bound = unsafe { gpu.device.alloc::<[i32; 2]>(self.tap_count) }?;
        let config = blocks_of(128, self.tap_count);
        let (row, plane) = (integral.row as i32, integral.plane as i32);
        launch!(
            gpu.device,
            &gpu.haar.bind_to_table,
            config,
            &self.taps,
            &(self.tap_count as u32),
            &row,
            &plane,
            &mut bound
        )?;
        Ok(bound)
    }
}

/// Where a feature's taps lie.
#[derive(Debug, Clone, Copy)]
struct TapPlace {
    /// Its first four.
    four: u32,
    /// How many pairs there are; the second of the last pair may have no weight.
    pairs: u32,
}

impl TapPlace {
    fn words(self) -> [u32; 2] {
        [self.four, self.pairs]
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
pub(crate) struct Blocks {
    shape: [i32; 3],
    bits: [i32; 3],
    blocks: [i32; 3],
    low: [i32; 3],
    extent: [i32; 3],
}

// SAFETY: as above.
unsafe impl DeviceRepr for Blocks {}

impl Blocks {
    pub(crate) fn new(shape: [usize; 3], bits: [i32; 3], forest: &HaarForest) -> Self {
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
    pub(crate) fn capacity(&self) -> usize {
        1 << self.bits.iter().sum::<i32>()
    }

    pub(crate) fn count(&self) -> usize {
        self.blocks.iter().map(|&n| n as usize).product()
    }

    /// Bytes of the tile of a block whose planes have `gap` values beside their rows, a multiple of
    /// 16; `None` where the forest's taps cannot be said in places of a tile.
    pub(crate) fn tile_bytes(&self, forest: &HaarForest, gap: usize) -> Option<usize> {
        let values = (TILE_ROW * self.extent[1] as usize + gap) * self.extent[2] as usize;
        let fits =
            self.extent[0] as usize <= TILE_ROW && values <= TILE_VALUES && forest.small_weights;
        fits.then_some(values.next_multiple_of(4) * size_of::<u32>())
    }
}

/// Haar features and voxels, ready for responses.
pub(crate) struct HaarSites<'a> {
    gpu: &'a Gpu,
    images: &'a [&'a GpuImage],
    image_of_site: Vec<u32>,
    sites: CudaSlice<Site>,
    taps: CudaSlice<[i32; 4]>,
    first_taps: CudaSlice<u32>,
}

impl<'a> HaarSites<'a> {
    pub(crate) fn new(
        gpu: &'a Gpu,
        images: &'a [&'a GpuImage],
        features: &[HaarFeature],
        sites: &[VoxelSite],
    ) -> Result<Self, GpuError> {
        let of_image = |s: &VoxelSite| images[s.image as usize].haar();
        let pad = sites.iter().map(|s| of_image(s).1).min().unwrap_or(usize::MAX);
        assert!(features.iter().all(|f| f.radius() <= pad), "a feature reaches beyond the padding");
        let inside = |s: &VoxelSite| {
            (0..3).all(|a| s.voxel[a] >= 0 && (s.voxel[a] as usize) < of_image(s).0[a])
        };
        assert!(sites.iter().all(inside), "a site lies outside its image");
        let (mut taps, mut first_taps) = (Vec::new(), vec![0]);
        for feature in features {
            taps.extend(feature.taps().into_iter().map(|([x, y, z], weight)| [x, y, z, weight]));
            first_taps.push(taps.len() as u32);
        }
        let device_sites: Vec<Site> =
            sites.iter().map(|s| Site { image: s.image, voxel: s.voxel }).collect();
        Ok(Self {
            gpu,
            images,
            image_of_site: sites.iter().map(|s| s.image).collect(),
            sites: gpu.device.upload(&device_sites)?,
            taps: gpu.device.upload(&taps)?,
            first_taps: gpu.device.upload(&first_taps)?,
        })
    }
}

impl Respond for HaarSites<'_> {
    fn respond(
        &self,
        features: Range<usize>,
        sites: Range<usize>,
        out: &mut CudaViewMut<'_, i32>,
    ) -> Result<(), GpuError> {
        if features.is_empty() || sites.is_empty() {
            return Ok(());
        }
        let config = LaunchConfig {
            grid_dim: (
                sites.len().div_ceil(128) as u32,
                features.len().div_ceil(FEATURES_A_BLOCK) as u32,
                1,
            ),
            block_dim: (128, 1, 1),
            shared_mem_bytes: 0,
        };
        let (site_count, feature_count, per_block) =
            (sites.len() as u32, features.len() as u32, FEATURES_A_BLOCK as u32);
        let with_sites = images_with_sites(self.images.len(), &self.image_of_site[sites.clone()]);
        let (sites, first_taps) =
            (self.sites.slice(sites), self.first_taps.slice(features.start..features.end + 1));
        let (gpu, kernel) = (self.gpu, &self.gpu.haar.responses);
        // The kernel passes over the sites of cases that are not there.
        gpu.with_tables(
            self.images,
            |n| with_sites[n],
            |there| {
                let of_image = |tables: &Option<Arc<Tables>>| {
                    tables
                        .as_ref()
                        .map_or_else(DeviceTable::default, |t| t.integral().device_table(gpu))
                };
                let tables = gpu.device.upload(&there.iter().map(of_image).collect::<Vec<_>>())?;
                launch!(
                    gpu.device,
                    kernel,
                    config,
                    &tables,
                    &sites,
                    &site_count,
                    &self.taps,
                    &first_taps,
                    &feature_count,
                    &per_block,
                    &mut *out
                )
            },
        )
    }
}

impl DeviceFamily for Haar {
    type Prepared<'a> = HaarSites<'a>;

    fn prepare<'a>(
        &self,
        gpu: &'a Gpu,
        images: &'a [&'a GpuImage],
        features: &[HaarFeature],
        sites: &[VoxelSite],
    ) -> Result<HaarSites<'a>, GpuError> {
        HaarSites::new(gpu, images, features, sites)
    }

    fn score(
        &self,
        gpu: &Gpu,
        image: &GpuImage,
        features: &[HaarFeature],
        classifier: &Classifier,
        _: &AllVoxels,
    ) -> Result<Option<CudaSlice<i64>>, GpuError> {
        gpu.score_voxels_on_device(image, features, classifier).map(Some)
    }
}

impl Gpu {
    /// Scores of all voxels, evaluated in one of the ways; `None` where blocks do not fit into
    /// shared memory or the way is not for such a classifier. The scores stay on the device.
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
        let tables = self.tables(image)?;
        let integral = tables.integral();
        assert!(
            features.iter().all(|f| f.radius() <= integral.pad),
            "a feature reaches beyond the padding"
        );
        match strategy {
            Strategy::Walks => self.score_by_walks(integral, &forest).map(Some),
            Strategy::Waves | Strategy::TiledWaves => {
                self.score_by_waves(integral, &forest, strategy == Strategy::TiledWaves)
            }
            Strategy::Paths => self.score_by_paths(integral, &forest),
        }
    }

    fn score_by_walks(
        &self,
        integral: &Integral,
        forest: &HaarForest,
    ) -> Result<CudaSlice<i64>, GpuError> {
        let blocks = Blocks::new(integral.shape, WALK_BITS, forest);
        let (argument, table, taps) = (
            forest.forest.argument(self),
            integral.device_table(self),
            forest.bind_to_table(self, integral)?,
        );
        // SAFETY: the kernel writes one a voxel.
        let mut scores = unsafe { self.device.alloc::<i64>(integral.shape.iter().product()) }?;
        let config = LaunchConfig {
            grid_dim: (blocks.count().max(1) as u32, 1, 1),
            block_dim: (WALK_THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        launch!(
            self.device,
            &self.haar.walks,
            config,
            &argument,
            &table,
            &blocks,
            &taps,
            &mut scores
        )?;
        Ok(scores)
    }

    fn score_by_waves(
        &self,
        integral: &Integral,
        forest: &HaarForest,
        tiled: bool,
    ) -> Result<Option<CudaSlice<i64>>, GpuError> {
        let shared = |blocks: &Blocks| {
            let tile = if tiled { blocks.tile_bytes(forest, 0)? } else { 0 };
            Some(blocks.capacity() * SUMS_BYTES + tile)
                .filter(|&bytes| bytes <= self.scoring_shared())
        };
        let mut candidates =
            BLOCK_BITS.iter().map(|&bits| Blocks::new(integral.shape, bits, forest));
        let Some((blocks, shared_bytes)) = candidates.find_map(|b| Some((b, shared(&b)?))) else {
            return Ok(None);
        };
        let (argument, table) = (forest.forest.argument(self), integral.device_table(self));
        let taps = if tiled {
            forest.bind_to_tile(self, &blocks)?
        } else {
            forest.bind_to_table(self, integral)?
        };
        // SAFETY: the kernel writes one a voxel.
        let mut scores = unsafe { self.device.alloc::<i64>(integral.shape.iter().product()) }?;
        let (kernel, threads) = if tiled {
            (&self.haar.waves_tiled, TILED_THREADS)
        } else {
            (&self.haar.waves, WAVE_THREADS)
        };
        let grid = self.resident_blocks(kernel, threads, shared_bytes)?.min(blocks.count()).max(1);
        let lists = grid * (2 * argument.depth as usize + 2) * blocks.capacity();
        // SAFETY: what is read of a list was written to it.
        let (mut places, mut weights) =
            unsafe { (self.device.alloc::<u32>(lists)?, self.device.alloc::<u64>(lists)?) };
        let config = LaunchConfig {
            grid_dim: (grid as u32, 1, 1),
            block_dim: (threads, 1, 1),
            shared_mem_bytes: shared_bytes as u32,
        };
        launch!(
            self.device,
            kernel,
            config,
            &argument,
            &table,
            &blocks,
            &taps,
            &mut places,
            &mut weights,
            &mut scores
        )?;
        Ok(Some(scores))
    }

    /// Dynamic shared memory that a block of the kernels here may have, bytes.
    pub(crate) fn scoring_shared(&self) -> usize {
        self.device.shared_bytes - STATIC_SHARED
    }

    /// How many blocks of a kernel run at a time on the whole device.
    pub(crate) fn resident_blocks(
        &self,
        kernel: &CudaFunction,
        threads: u32,
        shared_bytes: usize,
    ) -> Result<usize, GpuError> {
        let a_multiprocessor =
            kernel.occupancy_max_active_blocks_per_multiprocessor(threads, shared_bytes, None)?;
        Ok(a_multiprocessor.max(1) as usize * self.device.multiprocessors)
    }

    /// [`Gpu::voxel_scores`] in the way that is the fastest for the classifier.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn score_voxels_on_device(
        &self,
        image: &GpuImage,
        features: &[HaarFeature],
        classifier: &Classifier,
    ) -> Result<CudaSlice<i64>, GpuError> {
        let waves = self.haar_forest(features, classifier)?.forest.weaks_a_node >= WEAKS_FOR_WAVES;
        let order: &[Strategy] = if waves {
            &[Strategy::TiledWaves, Strategy::Waves]
        } else {
            &[Strategy::Paths, Strategy::Walks]
        };
        for &strategy in order {
            if let Some(scores) = self.voxel_scores(image, features, classifier, strategy)? {
                return Ok(scores);
            }
        }
        unreachable!("the whole table needs no tile")
    }

    fn haar_forest(
        &self,
        features: &[HaarFeature],
        classifier: &Classifier,
    ) -> Result<Arc<HaarForest>, GpuError> {
        self.haar
            .classifiers
            .get(classifier, features, || HaarForest::new(self, features, classifier))
    }
}
