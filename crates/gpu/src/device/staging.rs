//! Memory of the host that the device reads and writes by itself. Copies go through it: a copy from or to
//! other memory keeps the stream waiting while the driver moves it, for one thread at a time; here
//! each thread moves its own, and the stream waits for the bus alone.

use super::GpuError;
use cudarc::driver::result::{memcpy_dtoh_async, memcpy_htod_async};
use cudarc::driver::{CudaContext, CudaEvent, CudaStream, PinnedHostSlice};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a buffer.
pub(super) const BUFFER_BYTES: usize = 4 << 20;

/// Buffers that no thread uses at the moment, those first that were used longest ago.
#[derive(Default)]
pub(super) struct Staging {
    buffers: Mutex<VecDeque<Buffer>>,
}

struct Buffer {
    memory: PinnedHostSlice<u8>,
    /// The stream has read it, or written to it.
    done: CudaEvent,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // Where this fails, so does all that follows on the device.
        let _ = self.done.synchronize();
    }
}

impl Staging {
    /// Copies at most [`BUFFER_BYTES`] to a place on the device, in the order of the stream.
    ///
    /// # Safety
    /// There must be memory for them.
    pub(super) unsafe fn copy(
        &self,
        stream: &Arc<CudaStream>,
        bytes: &[u8],
        to: u64,
    ) -> Result<(), GpuError> {
        let Ok(mut buffer) = self.buffer(stream.context()) else {
            // The host has no such memory left: the driver moves them.
            stream.context().bind_to_thread()?;
            // SAFETY: the caller's.
            return Ok(unsafe { memcpy_htod_async(to, bytes, stream.cu_stream()) }?);
        };
        let memory = &mut buffer.memory.as_mut_slice()?[..bytes.len()];
        memory.copy_from_slice(bytes);
        // SAFETY: the caller's; the buffer is not touched before it is read.
        unsafe { memcpy_htod_async(to, memory, stream.cu_stream()) }?;
        buffer.done.record(stream)?;
        self.give_back(buffer);
        Ok(())
    }

    /// Copies at most [`BUFFER_BYTES`] from a place on the device, and waits for them, not for what other
    /// threads ask of the stream meanwhile.
    ///
    /// # Safety
    /// There must be so many, and any of them must be what `bytes` may hold.
    pub(super) unsafe fn read(
        &self,
        stream: &Arc<CudaStream>,
        from: u64,
        bytes: &mut [u8],
    ) -> Result<(), GpuError> {
        let Ok(mut buffer) = self.buffer(stream.context()) else {
            stream.context().bind_to_thread()?;
            // SAFETY: the caller's.
            unsafe { memcpy_dtoh_async(bytes, from, stream.cu_stream()) }?;
            return Ok(stream.record_event(None)?.synchronize()?);
        };
        let memory = &mut buffer.memory.as_mut_slice()?[..bytes.len()];
        // SAFETY: the caller's; the buffer is not touched before it is written.
        unsafe { memcpy_dtoh_async(memory, from, stream.cu_stream()) }?;
        buffer.done.record(stream)?;
        buffer.done.synchronize()?;
        bytes.copy_from_slice(memory);
        self.give_back(buffer);
        Ok(())
    }

    fn give_back(&self, buffer: Buffer) {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).push_back(buffer);
    }

    /// A buffer that the device does not use any more: a new one where it uses all.
    fn buffer(&self, cuda: &Arc<CudaContext>) -> Result<Buffer, GpuError> {
        let oldest = {
            let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
            buffers.pop_front()
        };
        match oldest {
            Some(buffer) => {
                buffer.done.synchronize()?;
                Ok(buffer)
            }
            None => {
                // SAFETY: what is read of it is written before.
                let memory = unsafe { cuda.alloc_pinned_with_flags(BUFFER_BYTES, 0) }?;
                Ok(Buffer { memory, done: cuda.new_event(None)? })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::gpu::test_device;
    use pbt_volume::Random;

    #[test]
    fn values_of_all_lengths_arrive_from_many_threads_cuda() {
        let Some(gpu) = test_device() else { return };
        let device = &gpu.device;
        std::thread::scope(|scope| {
            for seed in 0..6 {
                scope.spawn(move || {
                    let mut random = Random::from_seed(seed);
                    for len in [0, 1, 16_383, 16_384, 1 << 20, (1 << 20) + 1, 7_654_321] {
                        let values: Vec<u32> =
                            (0..len).map(|_| random.below(1 << 30) as u32).collect();
                        for copy in
                            [device.upload(&values), device.upload_with_all_threads(&values)]
                        {
                            let mut back = vec![0; len];
                            device.read(&copy.expect("a copy"), &mut back).expect("it can be read");
                            assert!(back == values, "{len} values");
                        }
                    }
                });
            }
        });
    }
}
