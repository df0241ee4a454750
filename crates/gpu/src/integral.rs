//! Integral volumes on the device: the twin of `pbt_volume::IntegralVolume`.

use crate::constants::{INTEGRAL_THREADS, SEGMENT, SEGMENT_ROWS};
use crate::device::{Context, GpuError, blocks_of, launch, module};
use cudarc::driver::{CudaFunction, CudaSlice, DevicePtr, DeviceRepr, LaunchConfig};
use pbt_volume::{IntegralVolume, Padding, Volume};

/// Threads of one column of such a block, at most: more rows for a block cost fewer carries, and
/// more waiting for each other.
const MOST_GROUPS: usize = 4;

/// The kernels of `integral.cu`.
pub(crate) struct IntegralKernels {
    padded: Passes,
    /// For images without padding whose rows are whole numbers of segments.
    direct: Passes,
    scan: CudaFunction,
}

/// The two passes over an image.
struct Passes {
    sums: CudaFunction,
    write: CudaFunction,
}

impl IntegralKernels {
    pub(crate) fn load(device: &Context) -> Result<Self, GpuError> {
        let module = module!(device, "integral")?;
        let load = |name| module.load_function(name);
        Ok(Self {
            padded: Passes { sums: load("integral_sums")?, write: load("integral_write")? },
            direct: Passes {
                sums: load("integral_sums_direct")?,
                write: load("integral_write_direct")?,
            },
            scan: load("integral_scan")?,
        })
    }
}

/// An integral volume, laid out as [`IntegralVolume`].
pub struct Integral {
    pub(crate) values: CudaSlice<u32>,
    pub(crate) shape: [usize; 3],
    pub(crate) pad: usize,
    pub(crate) row: usize,
    pub(crate) plane: usize,
}

/// `Table` of `tiles.cuh`; without values where a case is not there.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DeviceTable {
    values: u64,
    row: u32,
    plane: u32,
    origin: u32,
    _unused: u32,
}

// SAFETY: plain numbers in the order and with the sizes of the kernel's structure.
unsafe impl DeviceRepr for DeviceTable {}

/// `Source` of `integral.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Source {
    voxels: u64,
    shape: [i32; 3],
    pad: i32,
    edge: i32,
    padded: [i32; 3],
}

// SAFETY: as above.
unsafe impl DeviceRepr for Source {}

impl Integral {
    pub(crate) fn device_table(&self, device: &Context) -> DeviceTable {
        DeviceTable {
            values: self.values.device_ptr(&device.stream).0,
            row: self.row as u32,
            plane: self.plane as u32,
            origin: (self.pad * (1 + self.row + self.plane)) as u32,
            _unused: 0,
        }
    }
}

impl IntegralKernels {
    /// The integral of a volume, as [`IntegralVolume::new`] makes it, in two passes over the
    /// volume: the first reads it and writes sums of bands of rows and of slabs of planes, the
    /// second reads it again and writes the table (the 2R1W of Kasagi, Nakano and Ito 2014, in
    /// three dimensions).
    pub(crate) fn integral(
        &self,
        device: &Context,
        voxels: &CudaSlice<u16>,
        volume: &Volume<u16>,
        pad: usize,
        padding: Padding,
    ) -> Result<Integral, GpuError> {
        let shape = volume.shape();
        if let Some(integral) = self.of_shape(device, voxels, shape, pad, padding)? {
            return Ok(integral);
        }
        let [px, py, _] = shape.map(|n| n + 2 * pad);
        let (row, plane) = (px + 1, (px + 1) * (py + 1));
        let table = IntegralVolume::new(volume, pad, padding).into_table();
        Ok(Integral { values: device.upload(&table)?, shape, pad, row, plane })
    }

    /// The same of voxels that need not be on the host; `None` where rows are too long for the
    /// kernels.
    pub(crate) fn of_shape(
        &self,
        device: &Context,
        voxels: &CudaSlice<u16>,
        shape: [usize; 3],
        pad: usize,
        padding: Padding,
    ) -> Result<Option<Integral>, GpuError> {
        let [px, py, _] = shape.map(|n| n + 2 * pad);
        let (row, plane) = (px + 1, (px + 1) * (py + 1));
        let values = self.tables(device, (voxels, 1), shape, pad, padding)?;
        Ok(values.map(|values| Integral { values, shape, pad, row, plane }))
    }

    /// The tables of so many images of one shape, which lie one after the other, as the tables do.
    pub(crate) fn tables(
        &self,
        device: &Context,
        (voxels, images): (&CudaSlice<u16>, usize),
        shape: [usize; 3],
        pad: usize,
        padding: Padding,
    ) -> Result<Option<CudaSlice<u32>>, GpuError> {
        let padded @ [px, py, pz] = shape.map(|n| n + 2 * pad);
        let threads = px.div_ceil(SEGMENT).next_multiple_of(32);
        if threads > INTEGRAL_THREADS {
            return Ok(None);
        }
        // SAFETY: the second pass writes every entry.
        let mut values = unsafe { device.alloc::<u32>(images * (px + 1) * (py + 1) * (pz + 1)) }?;
        let source = Source {
            voxels: voxels.device_ptr(&device.stream).0,
            shape: shape.map(|n| n as i32),
            pad: pad as i32,
            edge: i32::from(padding == Padding::Edge),
            padded: padded.map(|n| n as i32),
        };
        let groups =
            (INTEGRAL_THREADS / threads).clamp(1, MOST_GROUPS).min(py.div_ceil(SEGMENT_ROWS));
        let bands = py.div_ceil(groups * SEGMENT_ROWS);
        let passes = if pad == 0 && px % SEGMENT == 0 { &self.direct } else { &self.padded };
        let (block, warps) = (threads * groups, threads * groups / 32);
        let shared = 32 * block + (32 + 1024) * warps;
        // Two blocks a multiprocessor, of enough planes to be worth their carries.
        let at_a_time = (2 * device.multiprocessors / (bands * images)).max(1);
        let slab_planes = pz.div_ceil(at_a_time).max(8);
        let slabs = pz.div_ceil(slab_planes);
        // SAFETY: the first pass writes all of both.
        let (mut band_sums, mut slab_sums) = unsafe {
            (
                device.alloc::<u32>(images * pz * bands * px)?,
                device.alloc::<u32>(images * slabs * (py + bands) * px)?,
            )
        };
        let config = |shared_mem_bytes: usize| LaunchConfig {
            grid_dim: (bands as u32, slabs as u32, images as u32),
            block_dim: (threads as u32, groups as u32, 1),
            shared_mem_bytes: shared_mem_bytes as u32,
        };
        launch!(
            device,
            &passes.sums,
            config(32 * block),
            &source,
            &(slab_planes as i32),
            &mut band_sums,
            &mut slab_sums
        )?;
        for (sums, outer, n, inner) in [
            (&mut band_sums, images * pz, bands, px),
            (&mut slab_sums, images, slabs, (py + bands) * px),
        ] {
            let lines = outer * inner;
            launch!(
                device,
                &self.scan,
                blocks_of(128, lines),
                sums,
                &(outer as u32),
                &(n as u32),
                &(inner as u32)
            )?;
        }
        launch!(
            device,
            &passes.write,
            config(shared),
            &source,
            &(slab_planes as i32),
            &band_sums,
            &slab_sums,
            &mut values
        )?;
        Ok(Some(values))
    }
}
