//! Channels from intensities on the device.

use crate::constants::FilterKind;
use crate::device::{Context, GpuError, blocks_of, launch, module};
use crate::integral::IntegralKernels;
use cudarc::driver::{CudaFunction, CudaSlice, DevicePtr, DeviceRepr, LaunchConfig};
use pbt_features::{Filter, SMOOTH_BITS, gaussian_weights};
use pbt_tree::{ChannelPart, shape_of};
use pbt_volume::Padding;

/// The kernels of `filters.cu`.
pub(super) struct FiltersKernels {
    channels: CudaFunction,
    smooth: CudaFunction,
}

/// `Part` of `filters.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Part {
    shape: [i32; 3],
    skip: [i32; 3],
    wanted: [i32; 3],
}

/// `FilterChannel` of `filters.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct FilterChannel {
    values: u64,
    kind: u32,
    number: i32,
    first: i64,
    last: i64,
}

/// `Gaussian` of `filters.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Gaussian {
    first: u32,
    radius: i32,
}

// SAFETY: plain numbers in the order and with the sizes of the kernels' structures.
unsafe impl DeviceRepr for Part {}
// SAFETY: as above.
unsafe impl DeviceRepr for FilterChannel {}
// SAFETY: as above.
unsafe impl DeviceRepr for Gaussian {}

/// A part of an image and of its layers on the device, which filters are applied to.
pub(super) struct Source<'a> {
    pub(super) part: &'a ChannelPart,
    pub(super) image: &'a CudaSlice<u16>,
    pub(super) layers: &'a [CudaSlice<u16>],
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

    /// The standard deviation of the Gaussian of a filter that has one, voxels.
    fn sigma(&self, filter: &Filter) -> Option<f64> {
        match *filter {
            Filter::Gaussian { sigma_mm } | Filter::Laplacian { sigma_mm } => {
                Some(sigma_mm / self.spacing_mm)
            }
            _ => None,
        }
    }
}

/// The tables of images of one shape, one after the other.
pub(super) fn integrals(
    kernels: &IntegralKernels,
    device: &Context,
    images: (&CudaSlice<u16>, usize),
    shape: [usize; 3],
) -> Result<CudaSlice<u32>, GpuError> {
    let tables = kernels.tables(device, images, shape, 0, Padding::Edge)?;
    tables.ok_or_else(|| GpuError::Driver(format!("a part of {shape:?} voxels is too wide")))
}

impl FiltersKernels {
    pub(super) fn load(device: &Context) -> Result<Self, GpuError> {
        let module = module!(device, "filters")?;
        Ok(Self {
            channels: module.load_function("filters_channels")?,
            smooth: module.load_function("filters_smooth")?,
        })
    }

    /// The channels of every voxel that is read, `[channel][voxel]`.
    pub(super) fn channels(
        &self,
        device: &Context,
        integrals_of: &IntegralKernels,
        source: &Source<'_>,
        filters: &[Filter],
    ) -> Result<CudaSlice<u16>, GpuError> {
        let shape = shape_of(&source.part.source);
        let mut sigmas: Vec<f64> = filters.iter().filter_map(|f| source.sigma(f)).collect();
        sigmas.sort_by(f64::total_cmp);
        sigmas.dedup();
        let smooth = self.smoothed(device, source.image, shape, &sigmas)?;
        let means = filters.iter().any(|filter| matches!(filter, Filter::LocalMean { .. }));
        let sums = means.then(|| integrals(integrals_of, device, (source.image, 1), shape));
        let sums = sums.transpose()?;
        let address = |values: &CudaSlice<u16>| values.device_ptr(&device.stream).0;
        let image = address(source.image);
        let smooth_of = |filter: &Filter| {
            let sigma = source.sigma(filter);
            let place = sigmas.iter().position(|&other| Some(other) == sigma).unwrap_or(0);
            let bytes = place * shape.iter().product::<usize>() * size_of::<u16>();
            smooth.as_ref().map_or(0, address) + bytes as u64
        };
        let channel = |filter: &Filter| {
            let of = |kind: FilterKind, values: u64| FilterChannel {
                values,
                kind: kind as u32,
                number: 0,
                first: 0,
                last: 0,
            };
            match *filter {
                Filter::Intensity => of(FilterKind::Value, image),
                Filter::Layer { layer } => {
                    of(FilterKind::Value, address(&source.layers[usize::from(layer)]))
                }
                Filter::Gradient { axis } => {
                    FilterChannel { number: axis.into(), ..of(FilterKind::Gradient, image) }
                }
                Filter::GradientMagnitude => of(FilterKind::Magnitude, image),
                Filter::Gaussian { .. } => of(FilterKind::Gaussian, smooth_of(filter)),
                Filter::Laplacian { .. } => {
                    let sigma = source.sigma(filter).unwrap_or(0.0);
                    let first = (sigma * sigma * 16.0 + 0.5) as i64;
                    FilterChannel { first, ..of(FilterKind::Laplacian, smooth_of(filter)) }
                }
                Filter::LocalMean { .. } => {
                    let sums = sums.as_ref().map_or(0, |sums| sums.device_ptr(&device.stream).0);
                    let number = filter.support(source.spacing_mm) as i32;
                    FilterChannel { number, ..of(FilterKind::LocalMean, sums) }
                }
                Filter::Place { axis } => FilterChannel {
                    number: axis.into(),
                    first: source.part.source[0][usize::from(axis)],
                    last: (source.image_shape[usize::from(axis)] as i64 - 1).max(1),
                    ..of(FilterKind::Place, image)
                },
            }
        };
        let channels: Vec<FilterChannel> = filters.iter().map(channel).collect();
        let channels = device.upload(&channels)?;
        let count: usize = shape_of(&source.part.read).iter().product();
        // SAFETY: the kernel writes all of it.
        let mut out = unsafe { device.alloc::<u16>(filters.len() * count) }?;
        let config = each(filters.len(), blocks_of(256, count));
        launch!(device, &self.channels, config, &source.argument(), &channels, &mut out)?;
        Ok(out)
    }

    /// An image smoothed by Gaussians of these standard deviations in voxels, one after the other, each
    /// along one axis after the other, with [`SMOOTH_BITS`] fractional bits.
    fn smoothed(
        &self,
        device: &Context,
        image: &CudaSlice<u16>,
        shape: [usize; 3],
        sigmas: &[f64],
    ) -> Result<Option<CudaSlice<u16>>, GpuError> {
        if sigmas.is_empty() {
            return Ok(None);
        }
        let (mut gaussians, mut weights) = (Vec::new(), Vec::new());
        for &sigma in sigmas {
            let own = gaussian_weights(sigma);
            gaussians.push(Gaussian { first: weights.len() as u32, radius: own.len() as i32 - 1 });
            weights.extend(own);
        }
        let (gaussians, weights) = (device.upload(&gaussians)?, device.upload(&weights)?);
        let count: usize = shape.iter().product();
        // SAFETY: each pass writes all of its output.
        let alloc = || unsafe { device.alloc::<u16>(sigmas.len() * count) };
        let (mut out, mut before) = (alloc()?, alloc()?);
        let mut stride = 1u64;
        for (axis, n) in shape.into_iter().enumerate() {
            // At first all smooth the image, which has no fractional bits.
            let (values, step, shift) = match axis {
                0 => (image, 0, SMOOTH_BITS as i32),
                _ => (&before, count as u64, 0),
            };
            launch!(
                device,
                &self.smooth,
                each(sigmas.len(), blocks_of(256, count)),
                values,
                &step,
                &(count as u64),
                &(n as i32),
                &stride,
                &gaussians,
                &weights,
                &shift,
                &mut out
            )?;
            std::mem::swap(&mut out, &mut before);
            stride *= n as u64;
        }
        Ok(Some(before))
    }
}

/// As many of these blocks once more for each of `count`, along y.
fn each(count: usize, config: LaunchConfig) -> LaunchConfig {
    LaunchConfig { grid_dim: (config.grid_dim.0, count as u32, 1), ..config }
}
