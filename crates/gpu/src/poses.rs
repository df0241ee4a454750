//! Steerable responses and scores of pose hypotheses: the twin of `poses.rs` of `pbt-cpu`.

use crate::channels::DeviceChannels;
use crate::constants::{AXIS_NUMBERS, LEVEL_NUMBERS, POSE_THREADS};
use crate::device::{Context, GpuError, launch, module};
use crate::forest::{ClassifierCache, DeviceForest, FixedTables};
use crate::image::{GpuImage, Images, images_with_sites};
use crate::respond::Respond;
use cudarc::driver::sys::CUfunction_attribute;
use cudarc::driver::{CudaFunction, CudaSlice, CudaViewMut, DevicePtr, DeviceRepr, LaunchConfig};
use pbt_features::{BoxGrid, PoseFrame, SteerableFeature, angle_table, transform_tables};
use pbt_tree::{Classifier, PoseSite};
use pbt_volume::{Geometry, Pose};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// Features of a block of `poses_responses`.
const FEATURES_A_BLOCK: usize = 64;
/// Threads of a block that scores poses, so many at most at a time; the lower number where their frames need
/// much shared memory.
const THREADS_OF_SCORES: [u32; 3] = [POSE_THREADS, 128, 32];
/// Bytes of shared memory that a pose's sums take.
const SUMS_BYTES: usize = 20;
/// Shared memory that the kernels use beside what they are given, with some to spare.
const STATIC_SHARED: usize = 2048;

/// The kernels of `poses.cu` and their tables, and the classifiers that they scored last.
pub(crate) struct PosesKernels {
    responses: CudaFunction,
    waves: CudaFunction,
    of_value: CudaSlice<i32>,
    angle: CudaSlice<i32>,
    fixed: Arc<FixedTables>,
    classifiers: ClassifierCache<SteerableFeature, DeviceForest>,
}

impl PosesKernels {
    pub(crate) fn load(device: &Context, fixed: &Arc<FixedTables>) -> Result<Self, GpuError> {
        let module = module!(device, "poses")?;
        let waves = module.load_function("poses_waves")?;
        let most = (device.shared_bytes - STATIC_SHARED) as i32;
        waves.set_attribute(
            CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            most,
        )?;
        Ok(Self {
            responses: module.load_function("poses_responses")?,
            waves,
            of_value: device.stream.clone_htod(&transform_tables())?,
            angle: device.stream.clone_htod(angle_table())?,
            fixed: fixed.clone(),
            classifiers: ClassifierCache::default(),
        })
    }
}

/// `Frames` of `sampling.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frames {
    numbers: u64,
    poses: u32,
    levels: u32,
}

// SAFETY: plain numbers in the order and with the sizes of the kernel's structure.
unsafe impl DeviceRepr for Frames {}

impl Frames {
    /// Of poses in images of so many levels, whose numbers lie at this address.
    pub(crate) fn new(numbers: u64, poses: usize, levels: usize) -> Self {
        Self { numbers, poses: poses as u32, levels: levels as u32 }
    }

    /// How many there are.
    pub(crate) fn poses(&self) -> usize {
        self.poses as usize
    }
}

/// `Transforms` of `poses.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Transforms {
    of_value: u64,
    angle: u64,
}

// SAFETY: as above.
unsafe impl DeviceRepr for Transforms {}

/// `Feature` of `poses.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Feature {
    place: u32,
    kind: u32,
}

// SAFETY: as above.
unsafe impl DeviceRepr for Feature {}

/// A feature in two words: point and level, channel and modifier.
fn packed(feature: &SteerableFeature) -> [u32; 2] {
    let [x, y, z] = feature.point;
    [
        u32::from_le_bytes([x, y, z, feature.level]),
        feature.channel as u32 | (feature.modifier as u32) << 8,
    ]
}

/// Frames of poses, computed on the host with the CPU's formula, on the device.
pub struct PoseFrames {
    numbers: CudaSlice<i32>,
    poses: usize,
    levels: usize,
}

impl PoseFrames {
    /// `of(n)` gives the geometries of the levels under pose `n`, as many for every pose, and the
    /// pose.
    fn new<'a>(
        device: &Context,
        grid: &BoxGrid,
        poses: usize,
        levels: usize,
        of: impl Fn(usize) -> (&'a [Geometry], Pose) + Sync,
    ) -> Result<Self, GpuError> {
        let numbers = Self::numbers(grid, poses, levels, of);
        Ok(Self { numbers: device.upload(&numbers)?, poses, levels })
    }

    /// The numbers of frames, `[number][pose]`; arguments as above.
    fn numbers<'a>(
        grid: &BoxGrid,
        poses: usize,
        levels: usize,
        of: impl Fn(usize) -> (&'a [Geometry], Pose) + Sync,
    ) -> Vec<i32> {
        let per_pose = LEVEL_NUMBERS * levels + AXIS_NUMBERS;
        let mut numbers = vec![0; per_pose * poses];
        // Pieces of poses, then turned to [number][pose], piece by piece.
        const PIECE: usize = 256;
        /// Numbers that a thread turns at a time.
        const AT_ONCE: usize = 1 << 14;
        let pieces: Vec<Vec<i32>> = (0..poses.div_ceil(PIECE))
            .into_par_iter()
            .map(|piece| {
                let range = piece * PIECE..((piece + 1) * PIECE).min(poses);
                let mut numbers = Vec::with_capacity(range.len() * per_pose);
                for n in range {
                    let (geometries, pose) = of(n);
                    let frame = PoseFrame::new(&pose, grid, &geometries.iter().collect::<Vec<_>>());
                    numbers.extend(frame.levels().flatten().flatten());
                    numbers.extend(frame.axes().into_iter().flatten());
                }
                numbers
            })
            .collect();
        let rows = numbers.par_chunks_mut(poses.max(1)).enumerate();
        // Few are turned sooner than another thread wakes up.
        rows.with_min_len(AT_ONCE / poses.max(1) + 1).for_each(|(k, row)| {
            for (part, piece) in row.chunks_mut(PIECE).zip(&pieces) {
                part.iter_mut()
                    .zip(piece[k..].iter().step_by(per_pose))
                    .for_each(|(to, &from)| *to = from);
            }
        });
        numbers
    }

    /// The numbers of frames of poses in one image, `[number][pose]`.
    pub(crate) fn numbers_in_image(image: &GpuImage, grid: &BoxGrid, poses: &[Pose]) -> Vec<i32> {
        let of = |n: usize| (image.geometries.as_slice(), poses[n]);
        Self::numbers(grid, poses.len(), image.geometries.len(), of)
    }

    /// Frames of poses in one image.
    pub(crate) fn of_image(
        device: &Context,
        image: &GpuImage,
        grid: &BoxGrid,
        poses: &[Pose],
    ) -> Result<Self, GpuError> {
        let numbers = Self::numbers_in_image(image, grid, poses);
        let levels = image.geometries.len();
        Ok(Self { numbers: device.upload(&numbers)?, poses: poses.len(), levels })
    }

    pub(crate) fn argument(&self, device: &Context) -> Frames {
        Frames::new(self.numbers.device_ptr(&device.stream).0, self.poses, self.levels)
    }
}

/// Poses in several images, ready for responses or patches.
pub(crate) struct PoseSites<'a> {
    device: &'a Context,
    store: &'a Images,
    images: &'a [&'a GpuImage],
    image_of_site: Vec<u32>,
    /// By level.
    used: Vec<bool>,
    pub(crate) device_image_of_site: CudaSlice<u32>,
    pub(crate) frames: PoseFrames,
}

impl<'a> PoseSites<'a> {
    pub(crate) fn new(
        (device, store): (&'a Context, &'a Images),
        images: &'a [&'a GpuImage],
        grid: &BoxGrid,
        sites: &[PoseSite],
        used: impl Fn(usize) -> bool,
    ) -> Result<Self, GpuError> {
        let levels = images.iter().map(|i| i.geometries.len()).max().unwrap_or(0);
        assert!(
            sites.iter().all(|s| images[s.image as usize].geometries.len() == levels),
            "images differ in their number of levels"
        );
        let image_of_site: Vec<u32> = sites.iter().map(|s| s.image).collect();
        let with_sites = images_with_sites(images.len(), &image_of_site);
        images
            .iter()
            .zip(with_sites)
            .filter(|(_, has_sites)| *has_sites)
            .for_each(|(image, _)| image.assert_channels(&used));
        let of = |n: usize| (images[sites[n].image as usize].geometries.as_slice(), sites[n].pose);
        let frames = PoseFrames::new(device, grid, sites.len(), levels, of)?;
        Ok(Self {
            device,
            store,
            images,
            device_image_of_site: device.upload(&image_of_site)?,
            image_of_site,
            used: (0..levels).map(used).collect(),
            frames,
        })
    }

    /// Gives `launch` the channels of the images of some of the sites, group by group where they do
    /// not fit together: those of other groups have no voxels, and the kernels pass over their
    /// sites.
    pub(crate) fn with_channels(
        &self,
        sites: Range<usize>,
        mut launch: impl FnMut(&CudaSlice<DeviceChannels>) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        let (device, levels) = (self.device, self.frames.levels);
        let with_sites = images_with_sites(self.images.len(), &self.image_of_site[sites]);
        self.store.with_tables(
            device,
            self.images,
            |n| with_sites[n],
            |_, level| self.used[level],
            |there| {
                let mut channels = Vec::with_capacity(there.len() * levels);
                for (n, tables) in there.iter().enumerate() {
                    channels.extend(tables.iter().flat_map(|t| t.device_channels(device)));
                    // Every image has as many entries as the one with most levels.
                    channels.resize((n + 1) * levels, DeviceChannels::default());
                }
                launch(&device.upload(&channels)?)
            },
        )
    }
}

/// Steerable features and poses, ready for responses.
pub(crate) struct PoseResponses<'a> {
    kernels: &'a PosesKernels,
    sites: PoseSites<'a>,
    features: CudaSlice<Feature>,
}

impl<'a> PoseResponses<'a> {
    pub(crate) fn new(
        kernels: &'a PosesKernels,
        (device, store): (&'a Context, &'a Images),
        images: &'a [&'a GpuImage],
        grid: &BoxGrid,
        features: &[SteerableFeature],
        sites: &[PoseSite],
    ) -> Result<Self, GpuError> {
        let used = |level: usize| features.iter().any(|f| usize::from(f.level) == level);
        let device_features: Vec<Feature> =
            features.iter().map(packed).map(|[place, kind]| Feature { place, kind }).collect();
        Ok(Self {
            kernels,
            sites: PoseSites::new((device, store), images, grid, sites, used)?,
            features: device.upload(&device_features)?,
        })
    }
}

impl Respond for PoseResponses<'_> {
    fn respond(
        &self,
        features: Range<usize>,
        sites: Range<usize>,
        out: &mut CudaViewMut<'_, i32>,
    ) -> Result<(), GpuError> {
        if features.is_empty() || sites.is_empty() {
            return Ok(());
        }
        let device = self.sites.device;
        let config = LaunchConfig {
            grid_dim: (
                sites.len().div_ceil(128) as u32,
                features.len().div_ceil(FEATURES_A_BLOCK) as u32,
                1,
            ),
            block_dim: (128, 1, 1),
            shared_mem_bytes: 0,
        };
        let (first_site, site_count, feature_count) =
            (sites.start as u32, sites.len() as u32, features.len() as u32);
        let per_block = FEATURES_A_BLOCK as u32;
        let (frames, transforms) =
            (self.sites.frames.argument(device), self.kernels.transforms(device));
        let (features, images) = (self.features.slice(features), &self.sites.device_image_of_site);
        let kernel = &self.kernels.responses;
        self.sites.with_channels(sites, |channels| {
            launch!(
                device,
                kernel,
                config,
                channels,
                images,
                &frames,
                &first_site,
                &features,
                &feature_count,
                &per_block,
                &site_count,
                &transforms,
                &mut *out
            )
        })
    }
}

impl PosesKernels {
    fn transforms(&self, device: &Context) -> Transforms {
        Transforms {
            of_value: self.of_value.device_ptr(&device.stream).0,
            angle: self.angle.device_ptr(&device.stream).0,
        }
    }

    /// Scores of poses; they stay on the device.
    pub(crate) fn pose_scores(
        &self,
        device: &Context,
        store: &Images,
        image: &GpuImage,
        features: &[SteerableFeature],
        classifier: &Classifier,
        frames: &PoseFrames,
    ) -> Result<CudaSlice<i64>, GpuError> {
        let make =
            || DeviceForest::new(device, classifier, |feature| packed(&features[feature as usize]));
        let forest = self.classifiers.of_classifier(classifier, features, make)?;
        let used = |level: usize| features.iter().any(|f| usize::from(f.level) == level);
        image.assert_channels(used);
        let tables = store.tables(device, image, used)?;
        let channels = device.upload(&tables.device_channels(device))?;
        // SAFETY: the kernel writes one a pose.
        let mut scores = unsafe { device.alloc::<i64>(frames.poses) }?;
        if frames.poses == 0 {
            return Ok(scores);
        }
        let bytes = |poses: u32| {
            poses as usize * (SUMS_BYTES + 4 * (LEVEL_NUMBERS * frames.levels + AXIS_NUMBERS))
        };
        let fits = |threads: &u32| bytes(*threads) + STATIC_SHARED <= device.shared_bytes;
        let threads = THREADS_OF_SCORES.into_iter().find(fits).expect("a pyramid has a few levels");
        let kernel = &self.waves;
        let resident = device.resident_blocks(kernel, threads, bytes(threads))?;
        // Spread over all blocks there are: fewer poses meet fewer nodes, which a block visits one after
        // the other.
        let poses_a_block = frames.poses.div_ceil(resident).min(threads as usize);
        let grid = frames.poses.div_ceil(poses_a_block).min(resident);
        let argument = forest.argument(device, &self.fixed);
        let lists = grid * (2 * argument.depth as usize + 2) * threads as usize;
        // SAFETY: what is read of a list was written to it.
        let (mut places, mut weights) =
            unsafe { (device.alloc::<u32>(lists)?, device.alloc::<u64>(lists)?) };
        let config = LaunchConfig {
            grid_dim: (grid as u32, 1, 1),
            block_dim: (threads, 1, 1),
            shared_mem_bytes: bytes(threads) as u32,
        };
        let (frames, transforms) = (frames.argument(device), self.transforms(device));
        launch!(
            device,
            kernel,
            config,
            &argument,
            &channels,
            &frames,
            &(poses_a_block as u32),
            &transforms,
            &mut places,
            &mut weights,
            &mut scores
        )?;
        Ok(scores)
    }
}
