//! A device with its kernels and the cases that were uploaded to it.

use crate::best::{BestKernels, BestScores, read_scores};
use crate::bins::{BinsKernels, DeviceMatrix};
use crate::boost::BoostKernels;
use crate::components::{ComponentsKernels, DeviceComponents};
use crate::device::{Context, DeviceInfo, GpuError};
use crate::forest::FixedTables;
use crate::haar::{HaarKernels, Strategy};
use crate::image::{GpuImage, Images};
use crate::integral::Integral;
use crate::label::{GpuChannels, GpuLabelForest, LabelKernels};
use crate::label_equivalence::LabelEquivalenceKernels;
use crate::patches::PatchesKernels;
use crate::poses::{PoseFrames, PosesKernels};
use crate::ridge::RidgeKernels;
use cudarc::driver::CudaSlice;
use pbt_features::{BoxGrid, HaarFeature, SteerableFeature};
use pbt_tree::{
    BinnedMatrix, Block, BoostParams, Bounds, ChannelBank, Classifier, LabelForest, Layered, Score,
    Weak,
};
use pbt_volume::{Connectivity, Padding, Pose, Volume};
use std::sync::Arc;

/// Cases may fill one part in so many of the memory that is free at the beginning; the rest is for
/// the binned matrix and for what comes and goes.
const IMAGES_SHARE: usize = 2;

/// A CUDA device, open.
pub struct Gpu {
    pub(crate) device: Context,
    pub(crate) images: Images,
    pub(crate) bins: BinsKernels,
    pub(crate) boost: BoostKernels,
    pub(crate) haar: HaarKernels,
    pub(crate) poses: PosesKernels,
    pub(crate) patches: PatchesKernels,
    pub(crate) ridge: RidgeKernels,
    pub(crate) best: BestKernels,
    pub(crate) label: LabelKernels,
    pub(crate) components: ComponentsKernels,
    label_equivalence: LabelEquivalenceKernels,
}

impl Gpu {
    /// Opens a device.
    ///
    /// # Errors
    /// [`GpuError`] where there is no driver or no such device, where it is too old, in use, or
    /// full.
    pub fn open(ordinal: u32) -> Result<Self, GpuError> {
        let device = Context::open(ordinal)?;
        let images_limit = device.free_memory()? / IMAGES_SHARE;
        let fixed = Arc::new(FixedTables::new(&device)?);
        Ok(Self {
            images: Images::load(&device, images_limit)?,
            bins: BinsKernels::load(&device)?,
            boost: BoostKernels::load(&device)?,
            haar: HaarKernels::load(&device, &fixed)?,
            poses: PosesKernels::load(&device, &fixed)?,
            patches: PatchesKernels::load(&device)?,
            ridge: RidgeKernels::load(&device)?,
            best: BestKernels::load(&device)?,
            label: LabelKernels::load(&device)?,
            components: ComponentsKernels::load(&device)?,
            label_equivalence: LabelEquivalenceKernels::load(&device)?,
            device,
        })
    }

    /// The same device with at most so many bytes in use at a time.
    pub fn with_memory_limit(mut self, bytes: usize) -> Self {
        self.device.memory_limit = Some(bytes);
        self
    }

    /// The same device, which keeps no binned matrix of more than `bytes` in its memory: a larger
    /// one passes through it in every round.
    pub fn with_matrix_limit(mut self, bytes: usize) -> Self {
        self.bins.matrix_limit = Some(bytes);
        self
    }

    /// The same device with the tables of cases in at most so many bytes, or of a single case;
    /// further cases wait on the host until they are needed. Otherwise they may fill half of the
    /// memory that is free when the device is opened. For a device that has no cases yet.
    pub fn with_image_limit(self, bytes: usize) -> Self {
        Self { images: self.images.with_limit(bytes), ..self }
    }

    /// What the device is.
    pub fn info(&self) -> &DeviceInfo {
        &self.device.info
    }

    /// Waits for all that was asked of the device.
    ///
    /// # Errors
    /// [`GpuError`] when something of it failed.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        Ok(self.device.stream.synchronize()?)
    }

    /// A volume's voxels on the device.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn upload_voxels(&self, volume: &Volume<u16>) -> Result<CudaSlice<u16>, GpuError> {
        self.device.upload(volume.data())
    }

    /// Milliseconds that what `action` launches takes on the device: the median of `repeats` runs
    /// after `warm_up` others.
    ///
    /// # Errors
    /// [`GpuError`] when the device or the action fails.
    pub fn median_ms(
        &self,
        warm_up: usize,
        repeats: usize,
        action: impl FnMut() -> Result<(), GpuError>,
    ) -> Result<f64, GpuError> {
        self.device.median_ms(warm_up, repeats, action)
    }
}

/// Regressions.
impl Gpu {
    /// Vectors on the device.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn upload_vectors(&self, vectors: &[i16]) -> Result<CudaSlice<i16>, GpuError> {
        self.device.upload(vectors)
    }

    /// Numbers on the device.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn upload_numbers(&self, numbers: &[f64]) -> Result<CudaSlice<f64>, GpuError> {
        self.device.upload(numbers)
    }

    /// The inner products of so many vectors of one length, values within ±4095: a row-major matrix with zeros
    /// above the diagonal.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn inner_products(
        &self,
        vectors: &CudaSlice<i16>,
        count: usize,
    ) -> Result<CudaSlice<f64>, GpuError> {
        self.ridge.products(&self.device, vectors, count)
    }

    /// Replaces the lower triangle of a matrix of so many rows, with a ridge added to its diagonal, by its Cholesky
    /// factor.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails.
    pub fn factorise(
        &self,
        matrix: &mut CudaSlice<f64>,
        count: usize,
        ridge: f64,
    ) -> Result<(), GpuError> {
        self.ridge.factorise(&self.device, matrix, count, ridge)
    }

    /// Solves for right sides, one after another, by the factor of a matrix of so many rows, in their place.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn substitute(
        &self,
        factor: &CudaSlice<f64>,
        count: usize,
        sides: &mut CudaSlice<f64>,
    ) -> Result<(), GpuError> {
        self.ridge.substitute(&self.device, factor, count, sides)
    }
}

/// Images.
impl Gpu {
    /// The integral of a volume, as [`IntegralVolume::new`](pbt_volume::IntegralVolume::new) makes
    /// it; `voxels` are the volume's.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn integral(
        &self,
        voxels: &CudaSlice<u16>,
        volume: &Volume<u16>,
        pad: usize,
        padding: Padding,
    ) -> Result<Integral, GpuError> {
        self.images.integral.integral(&self.device, voxels, volume, pad, padding)
    }

    /// The integral volume of a case, read back.
    ///
    /// # Panics
    /// When the layout had none: a programming error of the caller.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn read_table(&self, image: &GpuImage) -> Result<Vec<u32>, GpuError> {
        let tables = self.images.tables(&self.device, image, |level| image.has_integral(level))?;
        Ok(self.device.stream.clone_dtoh(&tables.integral().values)?)
    }
}

/// Boosting.
impl Gpu {
    /// As [`BinnedMatrix::push_features`] makes it of responses on the host, `[feature][sample]`; a
    /// last incomplete feature is not taken.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn bin_responses(
        &self,
        responses: &[i32],
        samples: usize,
        percent: f64,
    ) -> Result<DeviceMatrix, GpuError> {
        let features = responses.len().checked_div(samples).unwrap_or(0);
        self.bins.bin(&self.device, features, samples, percent, |range, out| {
            let part = &responses[range.start * samples..range.end * samples];
            Ok(self.device.stream.memcpy_htod(part, out)?)
        })
    }

    /// A matrix of the host, brought to the device.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn upload_matrix(&self, host: &BinnedMatrix) -> Result<DeviceMatrix, GpuError> {
        self.bins.upload(&self.device, host)
    }

    /// Bounds of every feature, and the bins `[feature][sample]`.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails.
    pub fn read_matrix(&self, matrix: &DeviceMatrix) -> Result<(Vec<Bounds>, Vec<u8>), GpuError> {
        matrix.read_back(&self.device)
    }

    /// The weak classifiers of a node: [`adaboost`](pbt_tree::adaboost) with the search of the best
    /// over all features.
    ///
    /// # Panics
    /// When labels or weights have not one entry a sample, or the weights add up to more than
    /// [`WEIGHT_TOTAL`](pbt_tree::WEIGHT_TOTAL).
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn boost_matrix(
        &self,
        matrix: &DeviceMatrix,
        labels: &[bool],
        weights: &[u32],
        params: &BoostParams,
    ) -> Result<Vec<Weak>, GpuError> {
        self.boost.boost_matrix(&self.device, matrix, labels, weights, params)
    }

    /// As [`pbt_tree::margins_from_responses`] sums them, of responses on the host,
    /// `[feature][site]`, `sites` of each feature.
    ///
    /// # Panics
    /// When a weak classifier names a row that there is not.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn margins_of_responses(
        &self,
        weaks: &[Weak],
        responses: &[i32],
        sites: usize,
    ) -> Result<Vec<i32>, GpuError> {
        let rows = responses.len().checked_div(sites).unwrap_or(0);
        self.boost.margins_of(&self.device, weaks, rows, sites, |range, out| {
            let part: Vec<i32> = responses
                .chunks_exact(sites)
                .flat_map(|row| &row[range.clone()])
                .copied()
                .collect();
            Ok(self.device.stream.memcpy_htod(&part, out)?)
        })
    }
}

/// Scores.
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
        self.haar.voxel_scores(&self.device, &self.images, image, features, classifier, strategy)
    }

    /// Frames of poses in one image, for [`Gpu::pose_scores`].
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn pose_frames(
        &self,
        image: &GpuImage,
        grid: &BoxGrid,
        poses: &[Pose],
    ) -> Result<PoseFrames, GpuError> {
        PoseFrames::of_image(&self.device, image, grid, poses)
    }

    /// Scores of poses; they stay on the device.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn pose_scores(
        &self,
        image: &GpuImage,
        features: &[SteerableFeature],
        classifier: &Classifier,
        frames: &PoseFrames,
    ) -> Result<CudaSlice<i64>, GpuError> {
        self.poses.pose_scores(&self.device, &self.images, image, features, classifier, frames)
    }

    /// Scores on the device.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn upload_scores(&self, scores: &[Score]) -> Result<CudaSlice<i64>, GpuError> {
        self.device.upload(&scores.iter().map(|s| s.0).collect::<Vec<_>>())
    }

    /// Scores, on the host.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails.
    pub fn read_scores(&self, scores: &CudaSlice<i64>) -> Result<Vec<Score>, GpuError> {
        read_scores(&self.device, scores)
    }

    /// Looks for the `k` best scores without waiting for them; `None` where the kernels do not take
    /// so many: k 0 or above 2048, or 2³² scores.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn find_best(
        &self,
        scores: &CudaSlice<i64>,
        k: usize,
    ) -> Result<Option<BestScores>, GpuError> {
        self.best.find_best(&self.device, scores, k)
    }

    /// The indices of the `k` best of the scores with the scores, the best first, the lower index
    /// first where scores tie.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn best_scores(
        &self,
        scores: &CudaSlice<i64>,
        k: usize,
    ) -> Result<Vec<(usize, Score)>, GpuError> {
        self.best.best_scores(&self.device, scores, k)
    }
}

/// Forests that label voxels.
impl Gpu {
    /// The channels of a part of an image.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn label_channels(
        &self,
        image: Layered<'_>,
        bank: &ChannelBank,
        block: &Block,
    ) -> Result<GpuChannels, GpuError> {
        self.label.channels(&self.device, &self.images.integral, image, bank, block)
    }

    /// A forest, brought to the device.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn upload_label_forest(&self, forest: &LabelForest) -> Result<GpuLabelForest, GpuError> {
        GpuLabelForest::new(&self.device, forest)
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
        self.label.distributions.of_block(&self.device, channels, forest)
    }
}

/// Connected components.
impl Gpu {
    /// A mask on the device.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn upload_mask(&self, voxels: &[u8]) -> Result<CudaSlice<u8>, GpuError> {
        self.device.upload(voxels)
    }

    /// The components of the voxels that are not 0, i fastest, as
    /// [`Components::new`](pbt_volume::Components::new) numbers them: in the order of their first
    /// voxels. They stay on the device, and nothing waits for them. Needs up to 6 bytes a voxel for
    /// 26 neighbours, beside the mask, and 11 for fewer.
    ///
    /// # Panics
    /// When voxels and shape disagree: a programming error.
    ///
    /// # Errors
    /// [`GpuError`] for 2³¹ voxels and more, and when the device fails or its memory is full.
    pub fn components(
        &self,
        voxels: &CudaSlice<u8>,
        shape: [usize; 3],
        connectivity: Connectivity,
    ) -> Result<DeviceComponents, GpuError> {
        self.components.components(&self.device, voxels, shape, connectivity)
    }

    /// The same by label equivalence with skipped checks, which was the usual way on GPUs: for
    /// comparison. It waits for the device after every round but the first.
    ///
    /// # Panics
    /// When voxels and shape disagree: a programming error.
    ///
    /// # Errors
    /// As [`Gpu::components`].
    pub fn components_by_label_equivalence(
        &self,
        voxels: &CudaSlice<u8>,
        shape: [usize; 3],
        connectivity: Connectivity,
    ) -> Result<DeviceComponents, GpuError> {
        let numbering = &self.components;
        self.label_equivalence.components(&self.device, numbering, voxels, shape, connectivity)
    }

    /// The label of each voxel, and the number of components.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails.
    pub fn read_components(
        &self,
        components: &DeviceComponents,
    ) -> Result<(Vec<u32>, u32), GpuError> {
        components.read(&self.device)
    }
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu").field("info", self.info()).finish_non_exhaustive()
    }
}

/// The device, or `None` where there is none and none is asked for.
#[cfg(test)]
pub(crate) fn test_device() -> Option<Gpu> {
    match Gpu::open(0) {
        Ok(gpu) => Some(gpu),
        Err(error) => {
            assert!(std::env::var("PBT_REQUIRE_GPU").is_err(), "{error}");
            println!("skipped: {error}");
            None
        }
    }
}
