//! Connected components by label equivalence: what the kernels of `components.rs` are measured
//! against.

use crate::components::{ComponentsKernels, DeviceComponents, refuse_too_large};
use crate::device::{Context, GpuError, blocks_of, launch, module};
use cudarc::driver::{CudaFunction, CudaSlice, DeviceRepr};
use pbt_volume::Connectivity;

/// Rounds that every mask needs, so that none before asks whether another one is needed ("skipped
/// checks").
const UNCHECKED_ROUNDS: usize = 1;

/// The kernels of `label_equivalence.cu`.
pub(crate) struct LabelEquivalenceKernels {
    begin: CudaFunction,
    scan: CudaFunction,
    analyse: CudaFunction,
    mark: CudaFunction,
    end: CudaFunction,
}

/// `Bordered` of `label_equivalence.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Bordered {
    shape: [i32; 3],
    neighbours: i32,
}

// SAFETY: plain numbers in the order and with the sizes of the kernel's structure.
unsafe impl DeviceRepr for Bordered {}

impl LabelEquivalenceKernels {
    pub(crate) fn load(device: &Context) -> Result<Self, GpuError> {
        let module = module!(device, "label_equivalence")?;
        Ok(Self {
            begin: module.load_function("label_equivalence_begin")?,
            scan: module.load_function("label_equivalence_scan")?,
            analyse: module.load_function("label_equivalence_analyse")?,
            mark: module.load_function("label_equivalence_mark")?,
            end: module.load_function("label_equivalence_end")?,
        })
    }

    /// The components of the voxels that are not 0.
    pub(crate) fn components(
        &self,
        device: &Context,
        numbering: &ComponentsKernels,
        voxels: &CudaSlice<u8>,
        shape: [usize; 3],
        connectivity: Connectivity,
    ) -> Result<DeviceComponents, GpuError> {
        let count: usize = shape.iter().product();
        let bordered: usize = shape.iter().map(|n| n + 2).product();
        refuse_too_large(shape, count.max(bordered / 2))?;
        assert_eq!(voxels.len(), count, "voxels and shape disagree");
        let neighbours = match connectivity {
            Connectivity::Six => 6,
            Connectivity::Eighteen => 18,
            Connectivity::TwentySix => 26,
        };
        let grid = Bordered { shape: shape.map(|n| n as i32), neighbours };
        let config = blocks_of(256, count);
        // SAFETY: set to 0 below, or written by a kernel.
        let (mut places, mut changed, mut marks, mut labels) = unsafe {
            (
                device.alloc::<u32>(bordered)?,
                device.alloc::<u32>(1)?,
                device.alloc::<u32>(count.div_ceil(128) * 4)?,
                device.alloc::<u32>(count)?,
            )
        };
        device.stream.memset_zeros(&mut places)?;
        device.stream.memset_zeros(&mut marks)?;
        launch!(device, &self.begin, config, &grid, voxels, &mut places)?;
        for round in 0.. {
            device.stream.memset_zeros(&mut changed)?;
            launch!(device, &self.scan, config, &grid, &mut places, &mut changed)?;
            launch!(device, &self.analyse, config, &grid, &mut places)?;
            let mut again = [1];
            if round >= UNCHECKED_ROUNDS {
                device.read(&changed, &mut again)?;
            }
            if again == [0] {
                break;
            }
        }
        launch!(device, &self.mark, config, &grid, &places, &mut marks)?;
        let (before, counts) = numbering.count(device, &marks, count)?;
        launch!(device, &self.end, config, &grid, &places, &marks, &before, &counts, &mut labels)?;
        Ok(DeviceComponents::new(labels, counts))
    }
}
