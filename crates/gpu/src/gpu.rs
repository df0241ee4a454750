//! A device with its kernels and the cases that were uploaded to it.

use crate::GpuError;
use crate::best::BestKernels;
use crate::bins::BinsKernels;
use crate::boost::BoostKernels;
use crate::channels::ChannelsKernels;
use crate::device::{Context, DeviceInfo, Resident};
use crate::forest::FixedTables;
use crate::haar::HaarKernels;
use crate::image::Tables;
use crate::integral::IntegralKernels;
use crate::patches::PatchesKernels;
use crate::poses::PosesKernels;
use cudarc::driver::CudaSlice;
use cudarc::nvrtc::Ptx;
use pbt_tree::Score;
use pbt_volume::Volume;
use std::sync::Arc;

/// Cases may fill one part in so many of the memory that is free at the beginning; the rest is for
/// the binned matrix and for what comes and goes.
const IMAGES_SHARE: usize = 2;

/// A CUDA device, open.
pub struct Gpu {
    pub(crate) device: Context,
    /// Bytes of the largest binned matrix that stays on the device; `None`: any that fits.
    matrix_limit: Option<usize>,
    /// The tables of the cases that were uploaded last.
    pub(crate) resident: Arc<Resident<Tables>>,
    pub(crate) bins: BinsKernels,
    pub(crate) boost: BoostKernels,
    pub(crate) integral: IntegralKernels,
    pub(crate) channels: ChannelsKernels,
    pub(crate) haar: HaarKernels,
    pub(crate) poses: PosesKernels,
    pub(crate) patches: PatchesKernels,
    pub(crate) best: BestKernels,
    pub(crate) fixed: FixedTables,
}

macro_rules! module {
    ($device:expr, $name:literal) => {
        $device.cuda.load_module(Ptx::from_src(include_str!(concat!(
            "../kernels/",
            $name,
            ".ptx"
        ))))?
    };
}

impl Gpu {
    /// Opens a device.
    ///
    /// # Errors
    /// [`GpuError`] where there is no driver or no such device, where it is too old, in use, or
    /// full.
    pub fn open(ordinal: u32) -> Result<Self, GpuError> {
        let device = Context::open(ordinal)?;
        Ok(Self {
            matrix_limit: None,
            resident: Arc::new(Resident::new(device.free_memory()? / IMAGES_SHARE)),
            bins: BinsKernels::load(&module!(device, "bins"))?,
            boost: BoostKernels::load(&module!(device, "boost"))?,
            integral: IntegralKernels::load(&module!(device, "integral"))?,
            channels: ChannelsKernels::load(&module!(device, "channels"))?,
            haar: HaarKernels::load(
                &module!(device, "haar"),
                &module!(device, "paths"),
                device.shared_bytes,
            )?,
            poses: PosesKernels::load(&module!(device, "poses"), &device)?,
            patches: PatchesKernels::load(&module!(device, "patches"))?,
            best: BestKernels::load(&module!(device, "best"))?,
            fixed: FixedTables::new(&device.stream)?,
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
    pub fn with_matrix_limit(self, bytes: usize) -> Self {
        Self { matrix_limit: Some(bytes), ..self }
    }

    /// The same device with the tables of cases in at most so many bytes, or of a single case;
    /// further cases wait on the host until they are needed. Otherwise they may fill half of the
    /// memory that is free when the device is opened. For a device that has no cases yet.
    pub fn with_image_limit(self, bytes: usize) -> Self {
        Self { resident: Arc::new(Resident::new(bytes)), ..self }
    }

    pub(crate) fn may_keep_matrix(&self, bytes: usize) -> bool {
        self.matrix_limit.is_none_or(|limit| bytes <= limit)
    }

    /// What the device is.
    pub fn info(&self) -> &DeviceInfo {
        &self.device.info
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

    /// Scores, on the host.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails.
    pub fn read_scores(&self, scores: &CudaSlice<i64>) -> Result<Vec<Score>, GpuError> {
        Ok(self.device.stream.clone_dtoh(scores)?.into_iter().map(Score).collect())
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
