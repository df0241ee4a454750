//! Intensity and gradient of a level on the device: the twin of `pbt_features::ChannelVolume`.

use crate::device::{Context, GpuError, blocks_of, launch, module};
use cudarc::driver::{CudaFunction, CudaSlice, DevicePtr, DeviceRepr};
use pbt_features::gradient_shifts;
use pbt_volume::{Geometry, Padding};

/// The kernel of `channels.cu`.
pub(crate) struct ChannelsKernels {
    make: CudaFunction,
}

impl ChannelsKernels {
    pub(crate) fn load(device: &Context) -> Result<Self, GpuError> {
        Ok(Self { make: module!(device, "channels")?.load_function("channels_make")? })
    }

    /// The channels of a level on this grid, from its voxels.
    pub(crate) fn channels(
        &self,
        device: &Context,
        voxels: &CudaSlice<u16>,
        level: &Geometry,
        padding: Padding,
    ) -> Result<Channels, GpuError> {
        let shape = level.shape();
        let border = usize::from(padding == Padding::Zero);
        let bordered = bordered(shape, padding);
        let count: usize = bordered.iter().product();
        // SAFETY: the kernel writes every voxel.
        let mut channels = unsafe { device.alloc::<i16>(4 * count) }?;
        let [nx, ny, nz] = shape.map(|n| n as i32);
        let [bits_x, bits_y, bits_z] = gradient_shifts(level).map(|bits| bits as i32);
        launch!(
            device,
            &self.make,
            blocks_of(256, count),
            voxels,
            &nx,
            &ny,
            &nz,
            &(border as i32),
            &bits_x,
            &bits_y,
            &bits_z,
            &mut channels
        )?;
        Ok(Channels { voxels: channels, shape: bordered, border })
    }
}

/// Channels of a level, laid out as `ChannelVolume`.
pub(crate) struct Channels {
    /// Four values a voxel.
    voxels: CudaSlice<i16>,
    shape: [usize; 3],
    border: usize,
}

/// `Channels` of `sampling.cuh`; without voxels where a case or a level is not there.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DeviceChannels {
    voxels: u64,
    shape: [i32; 3],
    border: i32,
}

// SAFETY: plain numbers in the order and with the sizes of the kernel's structure.
unsafe impl DeviceRepr for DeviceChannels {}

impl Channels {
    pub(crate) fn argument(&self, device: &Context) -> DeviceChannels {
        DeviceChannels {
            voxels: self.voxels.device_ptr(&device.stream).0,
            shape: self.shape.map(|n| n as i32),
            border: self.border as i32,
        }
    }
}

/// Voxels of the channels of a level: with [`Padding::Zero`] one more on every side.
pub(crate) fn bordered(shape: [usize; 3], padding: Padding) -> [usize; 3] {
    shape.map(|n| n + 2 * usize::from(padding == Padding::Zero))
}
