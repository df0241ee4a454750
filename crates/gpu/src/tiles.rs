//! Blocks of voxels that are scored together, and the part of the integral volume that a block
//! reads: what the ways of dense scoring share.

use crate::constants::TILE_ROW;
use crate::device::{Context, GpuError};
use cudarc::driver::sys::CUfunction_attribute;
use cudarc::driver::{CudaFunction, CudaModule, DeviceRepr};
use std::sync::Arc;

/// Places in a tile (16 bits of a tap; the others are its weight).
const TILE_VALUES: usize = 1 << 16;
/// Shared memory that the kernels of scoring use beside what they are given, with some to spare.
const STATIC_SHARED: usize = 2048;

/// Dynamic shared memory that a block of the kernels of scoring may have, bytes.
pub(crate) fn scoring_shared(device: &Context) -> usize {
    device.shared_bytes - STATIC_SHARED
}

/// A kernel of scoring, which may have that much.
pub(crate) fn scoring_kernel(
    device: &Context,
    module: &Arc<CudaModule>,
    name: &str,
) -> Result<CudaFunction, GpuError> {
    let function = module.load_function(name)?;
    function.set_attribute(
        CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        scoring_shared(device) as i32,
    )?;
    Ok(function)
}

/// What the features of a classifier read about a voxel.
pub(crate) struct Reach {
    /// Lowest and highest offset of a corner on each axis.
    pub(crate) low: [i32; 3],
    pub(crate) high: [i32; 3],
    /// Whether the taps' weights have 16 bits, as a tile's have.
    pub(crate) small_weights: bool,
}

/// `Blocks` of `tiles.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Blocks {
    shape: [i32; 3],
    bits: [i32; 3],
    blocks: [i32; 3],
    low: [i32; 3],
    extent: [i32; 3],
}

// SAFETY: plain numbers in the order and with the sizes of the kernel's structure.
unsafe impl DeviceRepr for Blocks {}

impl Blocks {
    pub(crate) fn new(shape: [usize; 3], bits: [i32; 3], reach: &Reach) -> Self {
        let shape = shape.map(|n| n as i32);
        Self {
            shape,
            bits,
            blocks: std::array::from_fn(|a| (shape[a] + (1 << bits[a]) - 1) >> bits[a]),
            low: reach.low,
            extent: std::array::from_fn(|a| (1 << bits[a]) + reach.high[a] - reach.low[a]),
        }
    }

    /// Voxels of a block.
    pub(crate) fn capacity(&self) -> usize {
        1 << self.bits.iter().sum::<i32>()
    }

    pub(crate) fn count(&self) -> usize {
        self.blocks.iter().map(|&n| n as usize).product()
    }

    /// Bytes of the tile of a block whose planes have `gap` values beside their rows, a multiple of
    /// 16; `None` where the taps cannot be said in places of a tile.
    pub(crate) fn tile_bytes(&self, reach: &Reach, gap: usize) -> Option<usize> {
        let values = (TILE_ROW * self.extent[1] as usize + gap) * self.extent[2] as usize;
        let fits =
            self.extent[0] as usize <= TILE_ROW && values <= TILE_VALUES && reach.small_weights;
        fits.then_some(values.next_multiple_of(4) * size_of::<u32>())
    }
}
