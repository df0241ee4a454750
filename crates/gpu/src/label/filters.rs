//! Channels from intensities on the device.

use crate::device::{Context, GpuError, blocks_of, launch, module};
use crate::integral::{Integral, IntegralKernels};
use cudarc::driver::{CudaFunction, CudaSlice, DeviceRepr};
use pbt_features::{Filter, SMOOTH_BITS, gaussian_weights};
use pbt_tree::{ChannelPart, shape_of};
use pbt_volume::Padding;

/// The kernels of `filters.cu`.
pub(super) struct FiltersKernels {
    intensity: CudaFunction,
    gradient: CudaFunction,
    magnitude: CudaFunction,
    smooth: CudaFunction,
    gaussian: CudaFunction,
    laplacian: CudaFunction,
    local_mean: CudaFunction,
    place: CudaFunction,
}

/// `Part` of `filters.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Part {
    shape: [i32; 3],
    skip: [i32; 3],
    wanted: [i32; 3],
}

// SAFETY: plain numbers in the order and with the sizes of the kernel's structure.
unsafe impl DeviceRepr for Part {}

/// A part of an image on the device, which filters are applied to.
pub(super) struct Source<'a> {
    pub(super) part: &'a ChannelPart,
    pub(super) voxels: &'a CudaSlice<u16>,
    pub(super) image_shape: [usize; 3],
    pub(super) spacing_mm: f64,
}

impl Source<'_> {
    fn argument(&self) -> Part {
        let numbers = |shape: [usize; 3]| shape.map(|n| n as i32);
        Part {
            shape: numbers(shape_of(&self.part.source)),
            skip: numbers(self.part.skip()),
            wanted: numbers(shape_of(&self.part.read)),
        }
    }
}

/// The integral of voxels on the device.
pub(super) fn integral(
    kernels: &IntegralKernels,
    device: &Context,
    voxels: &CudaSlice<u16>,
    shape: [usize; 3],
) -> Result<Integral, GpuError> {
    let integral = kernels.of_shape(device, voxels, shape, 0, Padding::Edge)?;
    integral.ok_or_else(|| GpuError::Driver(format!("a part of {shape:?} voxels is too wide")))
}

impl FiltersKernels {
    pub(super) fn load(device: &Context) -> Result<Self, GpuError> {
        let module = module!(device, "filters")?;
        let load = |name| module.load_function(name);
        Ok(Self {
            intensity: load("filters_intensity")?,
            gradient: load("filters_gradient")?,
            magnitude: load("filters_magnitude")?,
            smooth: load("filters_smooth")?,
            gaussian: load("filters_gaussian")?,
            laplacian: load("filters_laplacian")?,
            local_mean: load("filters_local_mean")?,
            place: load("filters_place")?,
        })
    }

    /// The channel of every voxel that is read.
    pub(super) fn channel(
        &self,
        device: &Context,
        integrals: &IntegralKernels,
        source: &Source<'_>,
        filter: &Filter,
    ) -> Result<CudaSlice<u16>, GpuError> {
        let (part, voxels) = (source.argument(), source.voxels);
        let count: usize = shape_of(&source.part.read).iter().product();
        // SAFETY: every kernel writes all of it.
        let mut out = unsafe { device.alloc::<u16>(count) }?;
        let config = blocks_of(256, count);
        match *filter {
            Filter::Intensity | Filter::Layer { .. } => {
                launch!(device, &self.intensity, config, &part, voxels, &mut out)?;
            }
            Filter::Gradient { axis } => {
                let axis = i32::from(axis);
                launch!(device, &self.gradient, config, &part, voxels, &axis, &mut out)?;
            }
            Filter::GradientMagnitude => {
                launch!(device, &self.magnitude, config, &part, voxels, &mut out)?;
            }
            Filter::Gaussian { sigma_mm } => {
                let smooth = self.smoothed(device, source, sigma_mm / source.spacing_mm)?;
                launch!(device, &self.gaussian, config, &part, &smooth, &mut out)?;
            }
            Filter::Laplacian { sigma_mm } => {
                let sigma = sigma_mm / source.spacing_mm;
                let smooth = self.smoothed(device, source, sigma)?;
                let variance = (sigma * sigma * 16.0 + 0.5) as i64;
                launch!(device, &self.laplacian, config, &part, &smooth, &variance, &mut out)?;
            }
            Filter::LocalMean { .. } => {
                let radius = filter.support(source.spacing_mm) as i32;
                let sums = integral(integrals, device, voxels, shape_of(&source.part.source))?;
                launch!(device, &self.local_mean, config, &part, &sums.values, &radius, &mut out)?;
            }
            Filter::Place { axis } => {
                let first = source.part.source[0][usize::from(axis)];
                let last = (source.image_shape[usize::from(axis)] as i64 - 1).max(1);
                let axis = i32::from(axis);
                launch!(device, &self.place, config, &part, &axis, &first, &last, &mut out)?;
            }
        }
        Ok(out)
    }

    /// Intensities smoothed along one axis after the other, with [`SMOOTH_BITS`] fractional bits.
    fn smoothed(
        &self,
        device: &Context,
        source: &Source<'_>,
        sigma: f64,
    ) -> Result<CudaSlice<u16>, GpuError> {
        let weights = gaussian_weights(sigma);
        let radius = weights.len() as i32 - 1;
        let weights = device.upload(&weights)?;
        let shape = shape_of(&source.part.source);
        let count: usize = shape.iter().product();
        // SAFETY: each pass writes all of its output.
        let mut buffers = unsafe { [device.alloc::<u16>(count)?, device.alloc::<u16>(count)?] };
        let mut stride = 1u64;
        for (axis, n) in shape.into_iter().enumerate() {
            let [out, before] = &mut buffers;
            let values = if axis == 0 { source.voxels } else { &*before };
            let shift = if axis == 0 { SMOOTH_BITS as i32 } else { 0 };
            launch!(
                device,
                &self.smooth,
                blocks_of(256, count),
                values,
                &(count as u64),
                &(n as i32),
                &stride,
                &weights,
                &radius,
                &shift,
                out
            )?;
            buffers.swap(0, 1);
            stride *= n as u64;
        }
        let [_, smooth] = buffers;
        Ok(smooth)
    }
}
