//! The channels of a part of an image as integral volumes on the device.

use crate::device::{Context, GpuError};
use crate::integral::IntegralKernels;
use crate::label::filters::{FiltersKernels, Source, integrals};
use cudarc::driver::{CudaSlice, DevicePtr, DeviceRepr};
use pbt_features::{BoxMeanFeature, MeanBox};
use pbt_tree::{Block, ChannelBank, ChannelPart, Layered, shape_of};

/// Channels of all voxels that boxes about a block's voxels can read.
pub struct GpuChannels {
    pub(crate) block: Block,
    part: ChannelPart,
    /// The tables of so many channels, one after the other, until there are those of all.
    tables: Vec<CudaSlice<u32>>,
    channels_together: usize,
}

/// `Box` of `voxels.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct DeviceBox {
    corner: u64,
    size: u32,
    voxels: u32,
}

/// `Feature` of `voxels.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct DeviceFeature {
    first: DeviceBox,
    second: DeviceBox,
    low: [i32; 4],
    high: [i32; 4],
}

// SAFETY: plain numbers in the order and with the sizes of the kernel's structure.
unsafe impl DeviceRepr for DeviceFeature {}

impl DeviceFeature {
    /// Addresses of the boxes' corners about the voxel at the tables' beginning.
    pub(super) fn corners(&self) -> [u64; 2] {
        [self.first.corner, self.second.corner]
    }

    /// Voxels of the boxes along i, j and k, a byte each.
    pub(super) fn sizes(&self) -> [u32; 2] {
        [self.first.size, self.second.size]
    }

    /// The first voxel about which all boxes lie inside, and the first one beyond, along each axis.
    pub(super) fn range(&self) -> [[i32; 4]; 2] {
        [self.low, self.high]
    }
}

/// `Tables` of `boxes.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Tables {
    row: u32,
    plane: u32,
    first: [i32; 3],
    _unused: u32,
}

// SAFETY: as above.
unsafe impl DeviceRepr for Tables {}

/// Bytes on the device that a voxel of a source takes while channels are made.
const SOURCE_BYTES: usize = 16;
/// The same while boxes are read, for each channel.
const CHANNEL_BYTES: usize = 4;
/// Bytes that channels may take that are made together, by few calls of the driver.
const TOGETHER_BYTES: usize = 64 << 20;
/// Bytes that a voxel of the source takes for each of them at most: two passes of a Gaussian, and the
/// channel.
const MAKING_BYTES: usize = 6;

/// Bytes of memory that the channels of a block of this edge need.
pub(super) fn bytes(bank: &ChannelBank, edge: usize) -> usize {
    let read = edge + 1 + 2 * bank.reach;
    let source = read + 2 * bank.support();
    let cube = |n: usize| n.saturating_pow(3);
    let channels = (CHANNEL_BYTES * bank.filters.len()).saturating_mul(cube(read + 1));
    let making = cube(source).saturating_mul(MAKING_BYTES * bank.filters.len());
    let making = SOURCE_BYTES.saturating_mul(cube(source)).max(making.min(TOGETHER_BYTES));
    making.saturating_add(channels)
}

impl GpuChannels {
    /// The channels for a block.
    pub(super) fn new(
        device: &Context,
        (filters, integrals_of): (&FiltersKernels, &IntegralKernels),
        of: Layered<'_>,
        bank: &ChannelBank,
        block: &Block,
    ) -> Result<Self, GpuError> {
        let image_shape = of.image.shape();
        let part = ChannelPart::new(image_shape, bank, block);
        let image = device.upload(&part.voxels(of.image))?;
        let layers = of.layers.iter().map(|layer| device.upload(&part.voxels(layer)));
        let layers = layers.collect::<Result<Vec<_>, GpuError>>()?;
        let spacing_mm = bank.spacing_mm;
        let source =
            Source { part: &part, image: &image, layers: &layers, image_shape, spacing_mm };
        let making = MAKING_BYTES * shape_of(&part.source).iter().product::<usize>();
        let channels_together = (TOGETHER_BYTES / making).clamp(1, bank.filters.len().max(1));
        let tables = bank.filters.chunks(channels_together).map(|some| {
            let values = filters.channels(device, integrals_of, &source, some)?;
            integrals(integrals_of, device, (&values, some.len()), shape_of(&part.read))
        });
        let tables = tables.collect::<Result<_, GpuError>>()?;
        Ok(Self { block: *block, part, tables, channels_together })
    }

    /// How the tables lie, for kernels.
    pub(super) fn tables(&self) -> Tables {
        let [nx, ny, _] = shape_of(&self.part.read);
        Tables {
            row: nx as u32 + 1,
            plane: ((nx + 1) * (ny + 1)) as u32,
            first: self.part.read[0].map(|n| n as i32),
            _unused: 0,
        }
    }

    /// Features made ready for these tables.
    pub(super) fn bind(&self, device: &Context, features: &[BoxMeanFeature]) -> Vec<DeviceFeature> {
        let Tables { row, plane, .. } = self.tables();
        let planes = shape_of(&self.part.read)[2] as u64 + 1;
        let table_bytes = u64::from(plane) * planes * size_of::<u32>() as u64;
        let first: Vec<u64> =
            self.tables.iter().map(|tables| tables.device_ptr(&device.stream).0).collect();
        let address = |channel: usize| {
            let [some, own] = [channel / self.channels_together, channel % self.channels_together];
            first[some] + own as u64 * table_bytes
        };
        let strides = [1, i64::from(row), i64::from(plane)];
        let bind_box = |b: &MeanBox| {
            let place: i64 = (0..3).map(|a| i64::from(b.min[a]) * strides[a]).sum();
            let [x, y, z] = b.size.map(u32::from);
            DeviceBox {
                // The voxel's place in the table is added later.
                corner: address(b.channel.into()).wrapping_add_signed(4 * place),
                size: x | y << 8 | z << 16,
                voxels: b.voxels() as u32,
            }
        };
        let bind = |feature: &BoxMeanFeature| {
            let four = |[x, y, z]: [i64; 3]| [x as i32, y as i32, z as i32, 0];
            let [low, high] = self.part.range(feature).map(four);
            DeviceFeature {
                first: bind_box(&feature.first),
                second: feature.second.as_ref().map(bind_box).unwrap_or_default(),
                low,
                high,
            }
        };
        features.iter().map(bind).collect()
    }
}
