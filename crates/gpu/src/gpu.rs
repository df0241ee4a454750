//! A device that is open: its context, its stream, its memory and its kernels.

use crate::best::BestKernels;
use crate::boost::Boosting;
use crate::classifier::FixedTables;
use crate::error::GpuError;
use crate::haar::HaarKernels;
use crate::image::{ImageKernels, Tables};
use crate::poses::PoseKernels;
use crate::resident::Resident;
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, CudaViewMut, DeviceRepr, sys};
use cudarc::nvrtc::Ptx;
use pbt_tree::Score;
use pbt_volume::Volume;
use std::mem::size_of;
use std::sync::Arc;

/// The oldest CUDA version of a driver that loads the kernels: that of the compiler which made them
/// (`cargo xtask kernels`).
const NEEDED_DRIVER: i32 = 12040;
/// The compute capability for which they are made.
const NEEDED_CAPABILITY: (i32, i32) = (7, 5);

/// Cases may fill one part in so many of the memory that is free at the beginning; the rest is for
/// the binned matrix and for what comes and goes.
const IMAGES_SHARE: usize = 2;

/// What is known of a device without opening it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number: `gpu:N`.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// Compute capability.
    pub capability: (i32, i32),
    /// Bytes.
    pub memory: usize,
}

/// The devices that the driver sees.
///
/// # Errors
/// [`GpuError`] where there is no driver, or it cannot be used.
pub fn devices() -> Result<Vec<DeviceInfo>, GpuError> {
    let info = |ordinal: u32| {
        let device = cudarc::driver::result::device::get(ordinal as i32)?;
        // SAFETY: `device` is one of the driver's.
        let (attribute, memory) = unsafe {
            let attribute = |a| cudarc::driver::result::device::get_attribute(device, a);
            use sys::CUdevice_attribute::{
                CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            };
            let major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
            let minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
            ((major, minor), cudarc::driver::result::device::total_mem(device)?)
        };
        Ok(DeviceInfo {
            ordinal,
            name: cudarc::driver::result::device::get_name(device)?,
            capability: attribute,
            memory,
        })
    };
    (0..count()?).map(info).collect()
}

/// Number of devices.
fn count() -> Result<u32, GpuError> {
    // SAFETY: asks the system for a library, no more.
    if !unsafe { sys::is_culib_present() } {
        return Err(GpuError::NoDriver);
    }
    cudarc::driver::result::init()?;
    let mut found = 0;
    // SAFETY: writes one integer.
    unsafe { sys::cuDriverGetVersion(&mut found) }.result()?;
    if found < NEEDED_DRIVER {
        return Err(GpuError::OldDriver { found, needed: NEEDED_DRIVER });
    }
    match cudarc::driver::result::device::get_count()? {
        0 => Err(GpuError::NoDevice),
        n => Ok(n as u32),
    }
}

/// A CUDA device, open. One stream: what is launched runs in that order, so no call needs to wait
/// for another.
pub struct Gpu {
    pub(crate) context: Arc<CudaContext>,
    pub(crate) stream: Arc<CudaStream>,
    pub(crate) multiprocessors: usize,
    /// Bytes of shared memory that a block may have.
    pub(crate) shared_bytes: usize,
    /// Bytes of memory that may be in use; `None`: all there is.
    memory_limit: Option<usize>,
    /// Bytes of the largest binned matrix that stays on the device; `None`: any that fits.
    matrix_limit: Option<usize>,
    info: DeviceInfo,
    /// The tables of the cases that were uploaded last.
    pub(crate) resident: Arc<Resident<Tables>>,
    pub(crate) boosting: Boosting,
    pub(crate) images: ImageKernels,
    pub(crate) haar: HaarKernels,
    pub(crate) best: BestKernels,
    pub(crate) poses: PoseKernels,
    pub(crate) fixed: FixedTables,
}

macro_rules! module {
    ($context:expr, $name:literal) => {
        $context.load_module(Ptx::from_src(include_str!(concat!("../kernels/", $name, ".ptx"))))?
    };
}

impl Gpu {
    /// Opens a device.
    ///
    /// # Errors
    /// [`GpuError`] where there is no driver or no such device, where it is too old, in use, or
    /// full.
    pub fn open(ordinal: u32) -> Result<Self, GpuError> {
        let count = count()?;
        if ordinal >= count {
            return Err(GpuError::NotThere { ordinal, count });
        }
        let info = devices()?.swap_remove(ordinal as usize);
        let (major, minor) = info.capability;
        if (major, minor) < NEEDED_CAPABILITY {
            return Err(GpuError::OldDevice { name: info.name, major, minor });
        }
        let context = CudaContext::new(ordinal as usize).map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE => GpuError::InUse { ordinal },
            _ => error.into(),
        })?;
        // SAFETY: there is one stream, so that no event is needed between the writers and the
        // readers of a piece of memory.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream()?;
        keep_freed_memory(&context)?;
        let attribute = |a| context.attribute(a).map(|n| n as usize);
        let shared_bytes = attribute(
            sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        )?;
        let boosting = Boosting::load(&module!(context, "bins"), &module!(context, "boost"))?;
        Ok(Self {
            multiprocessors: attribute(
                sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            )?,
            shared_bytes,
            memory_limit: None,
            matrix_limit: None,
            info,
            resident: Arc::new(Resident::new(context.mem_get_info()?.0 / IMAGES_SHARE)),
            boosting,
            images: ImageKernels::load(&module!(context, "image"))?,
            haar: HaarKernels::load(
                &module!(context, "haar"),
                &module!(context, "paths"),
                shared_bytes,
            )?,
            best: BestKernels::load(&module!(context, "best"))?,
            poses: PoseKernels::load(&module!(context, "poses"), &stream, shared_bytes)?,
            fixed: FixedTables::new(&stream)?,
            context,
            stream,
        })
    }

    /// The same device with at most so many bytes in use at a time.
    pub fn with_memory_limit(self, bytes: usize) -> Self {
        Self { memory_limit: Some(bytes), ..self }
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
        &self.info
    }

    /// Memory for `len` values, at least one. It comes from a pool and returns there, so that it
    /// costs no more than a launch once the pool is filled.
    ///
    /// # Safety
    /// The values are not set: they must be written before they are read.
    pub(crate) unsafe fn alloc<T: DeviceRepr>(&self, len: usize) -> Result<CudaSlice<T>, GpuError> {
        // A driver knows no piece of 0 bytes.
        let len = len.max(1);
        let asked = len.saturating_mul(size_of::<T>());
        if let Some(limit) = self.memory_limit {
            let used = self.used_memory()?;
            if used.saturating_add(asked) > limit {
                return Err(GpuError::OutOfMemory { asked, free: limit.saturating_sub(used) });
            }
        }
        // SAFETY: passed on to the caller.
        unsafe { self.stream.alloc(len) }.map_err(|error| self.out_of_memory(error.into(), asked))
    }

    /// The values on the device.
    pub(crate) fn upload<T: DeviceRepr>(&self, values: &[T]) -> Result<CudaSlice<T>, GpuError> {
        // SAFETY: what is copied is all that is read.
        let mut copy = unsafe { self.alloc(values.len()) }?;
        if !values.is_empty() {
            self.stream.memcpy_htod(values, &mut copy)?;
        }
        Ok(copy)
    }

    /// A volume's voxels on the device.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn upload_voxels(&self, volume: &Volume<u16>) -> Result<CudaSlice<u16>, GpuError> {
        self.upload(volume.data())
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
        mut action: impl FnMut() -> Result<(), GpuError>,
    ) -> Result<f64, GpuError> {
        let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let (start, end) = (self.context.new_event(timed)?, self.context.new_event(timed)?);
        let mut times = Vec::with_capacity(repeats);
        for n in 0..warm_up + repeats {
            start.record(&self.stream)?;
            action()?;
            end.record(&self.stream)?;
            end.synchronize()?;
            if n >= warm_up {
                times.push(f64::from(start.elapsed_ms(&end)?));
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(times.get(repeats / 2).copied().unwrap_or(0.0))
    }

    /// Scores, on the host.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails.
    pub fn read_scores(&self, scores: &CudaSlice<i64>) -> Result<Vec<Score>, GpuError> {
        Ok(self.stream.clone_dtoh(scores)?.into_iter().map(Score).collect())
    }

    /// Responses that `respond` writes on the device, on the host.
    pub(crate) fn read_responses(
        &self,
        out: &mut [i32],
        respond: impl FnOnce(&mut CudaViewMut<'_, i32>) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        if out.is_empty() {
            return Ok(());
        }
        // SAFETY: `respond` writes all of them.
        let mut device = unsafe { self.alloc::<i32>(out.len()) }?;
        respond(&mut device.as_view_mut())?;
        self.stream.memcpy_dtoh(&device, out)?;
        self.stream.synchronize()?;
        Ok(())
    }

    /// Bytes in use.
    pub(crate) fn used_memory(&self) -> Result<usize, GpuError> {
        let mut bytes = 0u64;
        // SAFETY: the attribute is a u64.
        unsafe {
            let pool = default_pool(&self.context)?;
            let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
            sys::cuMemPoolGetAttribute(pool, attribute, (&raw mut bytes).cast()).result()?;
        }
        Ok(bytes as usize)
    }

    fn out_of_memory(&self, error: GpuError, asked: usize) -> GpuError {
        match error {
            GpuError::OutOfMemory { .. } => {
                let free = self.context.mem_get_info().map_or(0, |(free, _)| free);
                GpuError::OutOfMemory { asked, free }
            }
            other => other,
        }
    }
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu").field("info", &self.info).finish_non_exhaustive()
    }
}

/// Memory that is freed stays with the program: returning it to the system and asking again would
/// cost milliseconds.
fn keep_freed_memory(context: &CudaContext) -> Result<(), GpuError> {
    let mut threshold = u64::MAX;
    // SAFETY: the attribute is a u64.
    unsafe {
        let pool = default_pool(context)?;
        let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut threshold).cast()).result()?;
    }
    Ok(())
}

fn default_pool(context: &CudaContext) -> Result<sys::CUmemoryPool, GpuError> {
    let mut pool = std::ptr::null_mut();
    // SAFETY: writes one handle, of a pool that lives as long as the device.
    unsafe { sys::cuDeviceGetDefaultMemPool(&mut pool, context.cu_device()) }.result()?;
    Ok(pool)
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

/// Launches a kernel: `launch!(gpu, function, config, arguments …)`, the arguments as references.
macro_rules! launch {
    ($gpu:expr, $function:expr, $config:expr, $($argument:expr),+ $(,)?) => {{
        use cudarc::driver::PushKernelArg;
        // SAFETY: the arguments are those of the kernel, in its order, and the buffers have the
        // sizes that it expects; the tests on the device run under compute-sanitizer.
        unsafe { $gpu.stream.launch_builder($function)$(.arg($argument))+.launch($config) }.map(|_| ()).map_err($crate::GpuError::from)
    }};
}
pub(crate) use launch;
