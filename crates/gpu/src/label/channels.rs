//! The channels of a part of an image as integral volumes on the device.

use crate::device::{Context, GpuError};
use crate::integral::{Integral, IntegralKernels};
use crate::label::filters::{FiltersKernels, Source, integral};
use cudarc::driver::{DevicePtr, DeviceRepr};
use pbt_features::{BoxMeanFeature, Filter, MeanBox};
use pbt_tree::{Block, ChannelBank, ChannelPart, Layered, shape_of};

/// Channels of all voxels that boxes about a block's voxels can read.
pub struct GpuChannels {
    pub(crate) block: Block,
    part: ChannelPart,
    tables: Vec<Integral>,
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

/// Bytes of memory that the channels of a block of this edge need.
pub(super) fn bytes(bank: &ChannelBank, edge: usize) -> usize {
    let read = edge + 1 + 2 * bank.reach;
    let source = read + 2 * bank.support();
    let cube = |n: usize| n.saturating_pow(3);
    let channels = (CHANNEL_BYTES * bank.filters.len()).saturating_mul(cube(read + 1));
    SOURCE_BYTES.saturating_mul(cube(source)).saturating_add(channels)
}

impl GpuChannels {
    /// The channels for a block.
    pub(super) fn new(
        device: &Context,
        (filters, integrals): (&FiltersKernels, &IntegralKernels),
        of: Layered<'_>,
        bank: &ChannelBank,
        block: &Block,
    ) -> Result<Self, GpuError> {
        let image_shape = of.image.shape();
        let part = ChannelPart::new(image_shape, bank, block);
        let image = device.upload(&part.voxels(of.image))?;
        let read = shape_of(&part.read);
        let table = |filter: &Filter| {
            let layer = match *filter {
                Filter::Layer { layer } => {
                    Some(device.upload(&part.voxels(of.layers[usize::from(layer)]))?)
                }
                _ => None,
            };
            let source = Source {
                part: &part,
                voxels: layer.as_ref().unwrap_or(&image),
                image_shape,
                spacing_mm: bank.spacing_mm,
            };
            let values = filters.channel(device, integrals, &source, filter)?;
            integral(integrals, device, &values, read)
        };
        let tables = bank.filters.iter().map(table).collect::<Result<_, GpuError>>()?;
        Ok(Self { block: *block, part, tables })
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
        let addresses: Vec<u64> =
            self.tables.iter().map(|table| table.values.device_ptr(&device.stream).0).collect();
        let Tables { row, plane, .. } = self.tables();
        let strides = [1, i64::from(row), i64::from(plane)];
        let bind_box = |b: &MeanBox| {
            let place: i64 = (0..3).map(|a| i64::from(b.min[a]) * strides[a]).sum();
            let [x, y, z] = b.size.map(u32::from);
            DeviceBox {
                // The voxel's place in the table is added later.
                corner: addresses[usize::from(b.channel)].wrapping_add_signed(4 * place),
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
