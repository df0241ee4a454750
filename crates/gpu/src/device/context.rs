//! A device that is open: its context, its stream and its memory.

use super::GpuError;
use super::devices::{DeviceInfo, usable};
use super::staging::{BUFFER_BYTES, Staging};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, CudaViewMut, DevicePtr, DevicePtrMut,
    DeviceRepr, ValidAsZeroBits, sys,
};
use rayon::prelude::*;
use std::mem::size_of;
use std::sync::Arc;

/// An open device with one stream: what is launched runs in that order, so no call needs to wait
/// for another.
pub(crate) struct Context {
    pub(crate) cuda: Arc<CudaContext>,
    pub(crate) stream: Arc<CudaStream>,
    pub(crate) multiprocessors: usize,
    /// Bytes of shared memory that a block may have.
    pub(crate) shared_bytes: usize,
    /// Bytes of memory that may be in use; `None`: all there is.
    pub(crate) memory_limit: Option<usize>,
    pub(crate) info: DeviceInfo,
    staging: Staging,
}

/// Values of fewer bytes go to the device with the command that copies them.
const STAGED_BYTES: usize = 64 << 10;

/// The bytes of values.
pub(crate) fn bytes_of<T: DeviceRepr>(values: &[T]) -> &[u8] {
    // SAFETY: values of the device are plain numbers without gaps.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) }
}

/// The same, to be written.
fn bytes_of_mut<T: DeviceRepr>(values: &mut [T]) -> &mut [u8] {
    let bytes = size_of_val(values);
    // SAFETY: as above; a kernel wrote the numbers that are copied there.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast::<u8>(), bytes) }
}

/// Where the parts of a copy that begins at `first` begin.
fn places(first: u64) -> impl Iterator<Item = u64> {
    (first..).step_by(BUFFER_BYTES)
}

impl Context {
    /// Opens a device.
    ///
    /// # Errors
    /// [`GpuError`] where there is no driver or no such device, where it is too old, or in use.
    pub(crate) fn open(ordinal: u32) -> Result<Self, GpuError> {
        let info = usable(ordinal)?;
        let cuda = CudaContext::new(ordinal as usize).map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE => GpuError::InUse { ordinal },
            _ => error.into(),
        })?;
        // SAFETY: there is one stream, so that no event is needed between the writers and the
        // readers of a piece of memory.
        unsafe { cuda.disable_event_tracking() };
        let stream = cuda.new_stream()?;
        keep_freed_memory(&cuda)?;
        let attribute = |a| cuda.attribute(a).map(|n| n as usize);
        let shared_bytes = attribute(
            sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        )?;
        let multiprocessors =
            attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let staging = Staging::default();
        Ok(Self { stream, multiprocessors, shared_bytes, memory_limit: None, info, staging, cuda })
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
        Ok(a_multiprocessor.max(1) as usize * self.multiprocessors)
    }

    /// Bytes of memory that are free.
    pub(crate) fn free_memory(&self) -> Result<usize, GpuError> {
        Ok(self.cuda.mem_get_info()?.0)
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

    /// Memory of which all is zero.
    pub(crate) fn zeros<T: DeviceRepr + ValidAsZeroBits>(
        &self,
        len: usize,
    ) -> Result<CudaSlice<T>, GpuError> {
        // SAFETY: all of it is set.
        let mut values = unsafe { self.alloc(len) }?;
        self.stream.memset_zeros(&mut values)?;
        Ok(values)
    }

    /// The values on the device.
    pub(crate) fn upload<T: DeviceRepr>(&self, values: &[T]) -> Result<CudaSlice<T>, GpuError> {
        // SAFETY: what is copied is all that is read.
        let mut copy = unsafe { self.alloc(values.len()) }?;
        if size_of_val(values) >= STAGED_BYTES {
            let to = copy.device_ptr_mut(&self.stream).0;
            for (bytes, to) in bytes_of(values).chunks(BUFFER_BYTES).zip(places(to)) {
                // SAFETY: the places are the copy's, which is as long.
                unsafe { self.staging.copy(&self.stream, bytes, to) }?;
            }
        } else if !values.is_empty() {
            self.stream.memcpy_htod(values, &mut copy)?;
        }
        Ok(copy)
    }

    /// The same of many values, moved by all threads. For a caller that holds no lock: its thread
    /// may do other work meanwhile.
    pub(crate) fn upload_with_all_threads<T: DeviceRepr>(
        &self,
        values: &[T],
    ) -> Result<CudaSlice<T>, GpuError> {
        // SAFETY: as above.
        let mut copy = unsafe { self.alloc(values.len()) }?;
        let to = copy.device_ptr_mut(&self.stream).0;
        let parts: Vec<(&[u8], u64)> =
            bytes_of(values).chunks(BUFFER_BYTES).zip(places(to)).collect();
        parts.into_par_iter().try_for_each(|(bytes, to)| {
            // SAFETY: as above.
            unsafe { self.staging.copy(&self.stream, bytes, to) }
        })?;
        Ok(copy)
    }

    /// Copies what lies on the device to `out`, which is no longer, and waits for it.
    ///
    /// # Panics
    /// Where `out` is longer: a programming error.
    pub(crate) fn read<T: DeviceRepr>(
        &self,
        values: &CudaSlice<T>,
        out: &mut [T],
    ) -> Result<(), GpuError> {
        assert!(out.len() <= values.len(), "more is read than there is");
        let from = values.device_ptr(&self.stream).0;
        for (bytes, from) in bytes_of_mut(out).chunks_mut(BUFFER_BYTES).zip(places(from)) {
            // SAFETY: the places are those of the values, of which there are as many, plain numbers.
            unsafe { self.staging.read(&self.stream, from, bytes) }?;
        }
        Ok(())
    }

    /// Waits for what was asked of the stream until now, not for what other threads ask meanwhile.
    pub(crate) fn wait(&self) -> Result<(), GpuError> {
        Ok(self.stream.record_event(None)?.synchronize()?)
    }

    /// Milliseconds that what `action` launches takes on the device: the median of `repeats` runs
    /// after `warm_up` others.
    ///
    /// # Errors
    /// [`GpuError`] when the device or the action fails.
    pub(crate) fn median_ms(
        &self,
        warm_up: usize,
        repeats: usize,
        mut action: impl FnMut() -> Result<(), GpuError>,
    ) -> Result<f64, GpuError> {
        let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let (start, end) = (self.cuda.new_event(timed)?, self.cuda.new_event(timed)?);
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
        self.read(&device, out)
    }

    /// Bytes in use.
    pub(crate) fn used_memory(&self) -> Result<usize, GpuError> {
        let mut bytes = 0u64;
        // SAFETY: the attribute is a u64.
        unsafe {
            let pool = default_pool(&self.cuda)?;
            let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
            sys::cuMemPoolGetAttribute(pool, attribute, (&raw mut bytes).cast()).result()?;
        }
        Ok(bytes as usize)
    }

    fn out_of_memory(&self, error: GpuError, asked: usize) -> GpuError {
        match error {
            GpuError::OutOfMemory { .. } => {
                let free = self.cuda.mem_get_info().map_or(0, |(free, _)| free);
                GpuError::OutOfMemory { asked, free }
            }
            other => other,
        }
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
