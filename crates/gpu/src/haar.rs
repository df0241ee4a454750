//! Haar responses and scores of voxels: the twin of `haar.rs` of `pbt-cpu`.

use crate::constants::{TILED_THREADS, WALK_THREADS, WAVE_THREADS};
use crate::device::{Context, GpuError, blocks_of, launch, module};
use crate::forest::{ClassifierCache, DeviceForest, FixedTables};
use crate::image::{GpuImage, Images, Tables, images_with_sites};
use crate::integral::{DeviceTable, Integral};
use crate::paths::{Forks, PathsKernels};
use crate::respond::Respond;
use crate::tiles::{Blocks, Reach, scoring_kernel, scoring_shared};
use cudarc::driver::{CudaFunction, CudaSlice, CudaViewMut, DeviceRepr, LaunchConfig};
use pbt_features::HaarFeature;
use pbt_tree::{Classifier, VoxelSite};
use std::ops::Range;
use std::sync::Arc;

/// Features of a block of `haar_responses`.
const FEATURES_A_BLOCK: usize = 8;
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

/// The kernels of `haar.cu`, and the classifiers that they scored last.
pub(crate) struct HaarKernels {
    responses: CudaFunction,
    bind_to_table: CudaFunction,
    bind_to_tile: CudaFunction,
    walks: CudaFunction,
    walks_at: CudaFunction,
    waves: CudaFunction,
    waves_tiled: CudaFunction,
    paths: PathsKernels,
    fixed: Arc<FixedTables>,
    classifiers: ClassifierCache<HaarFeature, HaarForest>,
}

impl HaarKernels {
    pub(crate) fn load(device: &Context, fixed: &Arc<FixedTables>) -> Result<Self, GpuError> {
        let module = module!(device, "haar")?;
        Ok(Self {
            responses: module.load_function("haar_responses")?,
            bind_to_table: module.load_function("haar_bind_to_table")?,
            bind_to_tile: module.load_function("haar_bind_to_tile")?,
            walks: scoring_kernel(device, &module, "haar_walks")?,
            walks_at: module.load_function("haar_walks_at")?,
            waves: scoring_kernel(device, &module, "haar_waves")?,
            waves_tiled: scoring_kernel(device, &module, "haar_waves_tiled")?,
            paths: PathsKernels::load(device)?,
            fixed: fixed.clone(),
            classifiers: ClassifierCache::default(),
        })
    }

    /// The taps as the tile of a block needs them.
    fn bind_to_tile(
        &self,
        device: &Context,
        forest: &HaarForest,
        blocks: &Blocks,
    ) -> Result<CudaSlice<[i32; 2]>, GpuError> {
        // SAFETY: what is read of them is written here.
        let mut bound = unsafe { device.alloc::<[i32; 2]>(forest.tap_count.div_ceil(2)) }?;
        let config = blocks_of(128, forest.tap_count);
        launch!(
            device,
            &self.bind_to_tile,
            config,
            &forest.taps,
            &(forest.tap_count as u32),
            blocks,
            &mut bound
        )?;
        Ok(bound)
    }

    fn bind_to_table(
        &self,
        device: &Context,
        forest: &HaarForest,
        integral: &Integral,
    ) -> Result<CudaSlice<[i32; 2]>, GpuError> {
        // SAFETY: as above.
        let mut bound = unsafe { device.alloc::<[i32; 2]>(forest.tap_count) }?;
        let config = blocks_of(128, forest.tap_count);
        let (row, plane) = (integral.row as i32, integral.plane as i32);
        launch!(
            device,
            &self.bind_to_table,
            config,
            &forest.taps,
            &(forest.tap_count as u32),
            &row,
            &plane,
            &mut bound
        )?;
        Ok(bound)
    }
}

/// A classifier with the taps of its features.
struct HaarForest {
    forest: DeviceForest,
    /// The nodes once more, where [`Strategy::Paths`] serves.
    paths: Option<Forks>,
    /// x, y, z, weight; a multiple of four a feature, and four more.
    taps: CudaSlice<[i32; 4]>,
    tap_count: usize,
    reach: Reach,
}

impl HaarForest {
    fn new(
        device: &Context,
        features: &[HaarFeature],
        classifier: &Classifier,
    ) -> Result<Self, GpuError> {
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
            DeviceForest::new(device, classifier, |feature| places[feature as usize].words())?;
        let small_weights = taps.iter().all(|tap| i16::try_from(tap[3]).is_ok());
        let paths = Forks::new(device, classifier, features)?;
        Ok(Self {
            forest,
            paths,
            tap_count: taps.len(),
            taps: device.upload(&taps)?,
            reach: Reach { low, high, small_weights },
        })
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

/// Haar features and voxels, ready for responses.
pub(crate) struct HaarSites<'a> {
    kernels: &'a HaarKernels,
    device: &'a Context,
    store: &'a Images,
    images: &'a [&'a GpuImage],
    image_of_site: Vec<u32>,
    sites: CudaSlice<Site>,
    taps: CudaSlice<[i32; 4]>,
    first_taps: CudaSlice<u32>,
}

impl<'a> HaarSites<'a> {
    pub(crate) fn new(
        kernels: &'a HaarKernels,
        (device, store): (&'a Context, &'a Images),
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
            kernels,
            device,
            store,
            images,
            image_of_site: sites.iter().map(|s| s.image).collect(),
            sites: device.upload(&device_sites)?,
            taps: device.upload(&taps)?,
            first_taps: device.upload(&first_taps)?,
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
        let (device, kernel) = (self.device, &self.kernels.responses);
        // The kernel passes over the sites of cases that are not there.
        self.store.with_tables(
            device,
            self.images,
            |n| with_sites[n],
            GpuImage::has_integral,
            |there| {
                let of_image = |tables: &Option<Tables>| {
                    tables
                        .as_ref()
                        .map_or_else(DeviceTable::default, |t| t.integral().device_table(device))
                };
                let tables = device.upload(&there.iter().map(of_image).collect::<Vec<_>>())?;
                launch!(
                    device,
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

impl HaarKernels {
    /// Scores of all voxels, evaluated in one of the ways; `None` where blocks do not fit into
    /// shared memory or the way is not for such a classifier. The scores stay on the device.
    pub(crate) fn voxel_scores(
        &self,
        device: &Context,
        store: &Images,
        image: &GpuImage,
        features: &[HaarFeature],
        classifier: &Classifier,
        strategy: Strategy,
    ) -> Result<Option<CudaSlice<i64>>, GpuError> {
        let forest = self.forest(device, features, classifier)?;
        let tables = store.tables(device, image, |level| image.has_integral(level))?;
        let integral = tables.integral();
        assert!(
            features.iter().all(|f| f.radius() <= integral.pad),
            "a feature reaches beyond the padding"
        );
        match strategy {
            Strategy::Walks => self.score_by_walks(device, integral, &forest).map(Some),
            Strategy::Waves | Strategy::TiledWaves => {
                self.score_by_waves(device, integral, &forest, strategy == Strategy::TiledWaves)
            }
            Strategy::Paths => {
                // There are none where the classifier is of another kind.
                let Some(forks) = &forest.paths else { return Ok(None) };
                let argument = forest.forest.argument(device, &self.fixed);
                self.paths.score(device, integral, forks, &argument, &forest.reach)
            }
        }
    }

    fn score_by_walks(
        &self,
        device: &Context,
        integral: &Integral,
        forest: &HaarForest,
    ) -> Result<CudaSlice<i64>, GpuError> {
        let blocks = Blocks::new(integral.shape, WALK_BITS, &forest.reach);
        let (argument, table, taps) = (
            forest.forest.argument(device, &self.fixed),
            integral.device_table(device),
            self.bind_to_table(device, forest, integral)?,
        );
        // SAFETY: the kernel writes one a voxel.
        let mut scores = unsafe { device.alloc::<i64>(integral.shape.iter().product()) }?;
        let config = LaunchConfig {
            grid_dim: (blocks.count().max(1) as u32, 1, 1),
            block_dim: (WALK_THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        launch!(device, &self.walks, config, &argument, &table, &blocks, &taps, &mut scores)?;
        Ok(scores)
    }

    /// Scores of listed voxels, at least one; they stay on the device.
    pub(crate) fn score_listed(
        &self,
        (device, store): (&Context, &Images),
        image: &GpuImage,
        features: &[HaarFeature],
        classifier: &Classifier,
        voxels: &[[i32; 3]],
    ) -> Result<CudaSlice<i64>, GpuError> {
        let forest = self.forest(device, features, classifier)?;
        let tables = store.tables(device, image, |level| image.has_integral(level))?;
        let integral = tables.integral();
        assert!(
            features.iter().all(|f| f.radius() <= integral.pad),
            "a feature reaches beyond the padding"
        );
        let inside = |v: &[i32; 3]| {
            v.iter().zip(integral.shape).all(|(&v, n)| usize::try_from(v).is_ok_and(|v| v < n))
        };
        assert!(voxels.iter().all(inside), "a voxel lies outside the image");
        let (argument, table, taps) = (
            forest.forest.argument(device, &self.fixed),
            integral.device_table(device),
            self.bind_to_table(device, &forest, integral)?,
        );
        let places = device.upload(voxels)?;
        let count = voxels.len() as u32;
        // SAFETY: the kernel writes one a voxel.
        let mut scores = unsafe { device.alloc::<i64>(voxels.len()) }?;
        let config = blocks_of(WALK_THREADS, voxels.len());
        launch!(
            device,
            &self.walks_at,
            config,
            &argument,
            &table,
            &places,
            &count,
            &taps,
            &mut scores
        )?;
        Ok(scores)
    }

    fn score_by_waves(
        &self,
        device: &Context,
        integral: &Integral,
        forest: &HaarForest,
        tiled: bool,
    ) -> Result<Option<CudaSlice<i64>>, GpuError> {
        let shared = |blocks: &Blocks| {
            let tile = if tiled { blocks.tile_bytes(&forest.reach, 0)? } else { 0 };
            Some(blocks.capacity() * SUMS_BYTES + tile)
                .filter(|&bytes| bytes <= scoring_shared(device))
        };
        let mut candidates =
            BLOCK_BITS.iter().map(|&bits| Blocks::new(integral.shape, bits, &forest.reach));
        let Some((blocks, shared_bytes)) = candidates.find_map(|b| Some((b, shared(&b)?))) else {
            return Ok(None);
        };
        let (argument, table) =
            (forest.forest.argument(device, &self.fixed), integral.device_table(device));
        let taps = if tiled {
            self.bind_to_tile(device, forest, &blocks)?
        } else {
            self.bind_to_table(device, forest, integral)?
        };
        // SAFETY: the kernel writes one a voxel.
        let mut scores = unsafe { device.alloc::<i64>(integral.shape.iter().product()) }?;
        let (kernel, threads) =
            if tiled { (&self.waves_tiled, TILED_THREADS) } else { (&self.waves, WAVE_THREADS) };
        let grid =
            device.resident_blocks(kernel, threads, shared_bytes)?.min(blocks.count()).max(1);
        let lists = grid * (2 * argument.depth as usize + 2) * blocks.capacity();
        // SAFETY: what is read of a list was written to it.
        let (mut places, mut weights) =
            unsafe { (device.alloc::<u32>(lists)?, device.alloc::<u64>(lists)?) };
        let config = LaunchConfig {
            grid_dim: (grid as u32, 1, 1),
            block_dim: (threads, 1, 1),
            shared_mem_bytes: shared_bytes as u32,
        };
        launch!(
            device,
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

    /// [`HaarKernels::voxel_scores`] in the way that is the fastest for the classifier.
    pub(crate) fn score_voxels(
        &self,
        device: &Context,
        store: &Images,
        image: &GpuImage,
        features: &[HaarFeature],
        classifier: &Classifier,
    ) -> Result<CudaSlice<i64>, GpuError> {
        let waves =
            self.forest(device, features, classifier)?.forest.weaks_a_node >= WEAKS_FOR_WAVES;
        let order: &[Strategy] = if waves {
            &[Strategy::TiledWaves, Strategy::Waves]
        } else {
            &[Strategy::Paths, Strategy::Walks]
        };
        for &strategy in order {
            let scores = self.voxel_scores(device, store, image, features, classifier, strategy)?;
            if let Some(scores) = scores {
                return Ok(scores);
            }
        }
        unreachable!("the whole table needs no tile")
    }

    fn forest(
        &self,
        device: &Context,
        features: &[HaarFeature],
        classifier: &Classifier,
    ) -> Result<Arc<HaarForest>, GpuError> {
        self.classifiers
            .of_classifier(classifier, features, || HaarForest::new(device, features, classifier))
    }
}
