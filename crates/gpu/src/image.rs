//! A case on the device: the twin of `pbt_cpu::CpuImage`.

use crate::gpu::launch;
use crate::{Gpu, GpuError};
use cudarc::driver::{CudaFunction, CudaModule, CudaSlice, DevicePtr, DeviceRepr, LaunchConfig};
use pbt_tree::ImageLayout;
use pbt_volume::{Geometry, IntegralVolume, Padding, Volume};
use std::sync::Arc;

/// Columns and rows of a thread (`SEGMENT` and `ROWS` in `image.cu`).
const SEGMENT: usize = 4;
const ROWS: usize = 4;
/// Most threads of a block that makes an integral volume.
const INTEGRAL_THREADS: usize = 512;
/// Threads of one column of such a block, at most: more rows for a block cost fewer carries, and more waiting for each other.
const MOST_GROUPS: usize = 4;

/// The tables of one case.
pub struct GpuImage {
    pub(crate) geometries: Vec<Geometry>,
    integral: Option<Integral>,
    /// By level; `None` where the layout did not ask for channels.
    channels: Vec<Option<Channels>>,
}

/// An integral volume, laid out as [`IntegralVolume`].
pub struct Integral {
    pub(crate) values: CudaSlice<u32>,
    pub(crate) shape: [usize; 3],
    pub(crate) pad: usize,
    pub(crate) row: usize,
    pub(crate) plane: usize,
}

/// Channels of a level, laid out as `ChannelVolume`.
struct Channels {
    /// Four values a voxel.
    voxels: CudaSlice<i16>,
    shape: [usize; 3],
    border: usize,
}

/// `Table` of `haar.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceTable {
    values: u64,
    row: u32,
    plane: u32,
    origin: u32,
    _unused: u32,
}

// SAFETY: plain numbers in the order and with the sizes of the kernel's structure.
unsafe impl DeviceRepr for DeviceTable {}

/// `Channels` of `poses.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DeviceChannels {
    voxels: u64,
    shape: [i32; 3],
    border: i32,
}

// SAFETY: as above.
unsafe impl DeviceRepr for DeviceChannels {}

/// `Source` of `image.cu`.
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

/// The kernels of `image.cu`.
pub(crate) struct ImageKernels {
    padded: IntegralKernels,
    /// For images without padding whose rows are whole numbers of segments.
    direct: IntegralKernels,
    scan: CudaFunction,
    channels: CudaFunction,
}

/// The two passes over an image.
struct IntegralKernels {
    sums: CudaFunction,
    write: CudaFunction,
}

impl ImageKernels {
    pub(crate) fn load(module: &Arc<CudaModule>) -> Result<Self, GpuError> {
        let load = |name| module.load_function(name);
        Ok(Self {
            padded: IntegralKernels { sums: load("image_sums")?, write: load("image_write")? },
            direct: IntegralKernels { sums: load("image_sums_direct")?, write: load("image_write_direct")? },
            scan: load("image_scan")?,
            channels: load("image_channels")?,
        })
    }
}

impl GpuImage {
    pub(crate) fn new(gpu: &Gpu, levels: &[Volume<u16>], layout: &ImageLayout) -> Result<Self, GpuError> {
        let mut image = Self { geometries: levels.iter().map(|l| l.geometry().clone()).collect(), integral: None, channels: Vec::new() };
        for (n, level) in levels.iter().enumerate() {
            let haar = layout.haar.filter(|&(l, _)| l == n);
            let channels = layout.channels.contains(&n);
            let voxels = if haar.is_some() || channels { gpu.upload(level.data())? } else { gpu.upload(&[])? };
            if let Some((_, pad)) = haar {
                image.integral = Some(gpu.integral(&voxels, level, pad, layout.padding)?);
            }
            image.channels.push(if channels { Some(gpu.channels(&voxels, level.shape(), layout.padding)?) } else { None });
        }
        Ok(image)
    }

    /// The integral volume.
    ///
    /// # Panics
    /// When the layout had none: a programming error of the caller.
    pub fn integral(&self) -> &Integral {
        self.integral.as_ref().expect("the case was uploaded without an integral volume")
    }

    /// The channels of all levels; those that the layout did not ask for are empty.
    ///
    /// # Panics
    /// When a level of `used` is among these: a programming error of the caller.
    pub(crate) fn device_channels(&self, gpu: &Gpu, used: impl Fn(usize) -> bool) -> Vec<DeviceChannels> {
        let of_level = |(n, channels): (usize, &Option<Channels>)| match channels {
            Some(c) => {
                DeviceChannels { voxels: c.voxels.device_ptr(&gpu.stream).0, shape: c.shape.map(|n| n as i32), border: c.border as i32 }
            }
            None => {
                assert!(!used(n), "the case was uploaded without the channels of level {n}");
                DeviceChannels::default()
            }
        };
        self.channels.iter().enumerate().map(of_level).collect()
    }
}

impl Integral {
    pub(crate) fn device_table(&self, gpu: &Gpu) -> DeviceTable {
        DeviceTable {
            values: self.values.device_ptr(&gpu.stream).0,
            row: self.row as u32,
            plane: self.plane as u32,
            origin: (self.pad * (1 + self.row + self.plane)) as u32,
            _unused: 0,
        }
    }
}

impl Gpu {
    /// The integral of a volume, as [`IntegralVolume::new`] makes it, in two passes over the volume: the first reads it and writes sums of bands
    /// of rows and of slabs of planes, the second reads it again and writes the table (the 2R1W of Kasagi, Nakano and Ito 2014, in three
    /// dimensions).
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn integral(&self, voxels: &CudaSlice<u16>, volume: &Volume<u16>, pad: usize, padding: Padding) -> Result<Integral, GpuError> {
        let shape = volume.shape();
        let padded @ [px, py, pz] = shape.map(|n| n + 2 * pad);
        let (row, plane) = (px + 1, (px + 1) * (py + 1));
        let threads = px.div_ceil(SEGMENT).next_multiple_of(32);
        if threads > INTEGRAL_THREADS {
            let table = IntegralVolume::new(volume, pad, padding).into_table();
            return Ok(Integral { values: self.upload(&table)?, shape, pad, row, plane });
        }
        // SAFETY: the second pass writes every entry.
        let mut values = unsafe { self.alloc::<u32>(plane * (pz + 1)) }?;
        let source = Source {
            voxels: voxels.device_ptr(&self.stream).0,
            shape: shape.map(|n| n as i32),
            pad: pad as i32,
            edge: i32::from(padding == Padding::Edge),
            padded: padded.map(|n| n as i32),
        };
        let groups = (INTEGRAL_THREADS / threads).clamp(1, MOST_GROUPS).min(py.div_ceil(ROWS));
        let bands = py.div_ceil(groups * ROWS);
        let kernels = &self.images;
        let passes = if pad == 0 && px % SEGMENT == 0 { &kernels.direct } else { &kernels.padded };
        let (block, warps) = (threads * groups, threads * groups / 32);
        let shared = 32 * block + (32 + 1024) * warps;
        // Two blocks a multiprocessor, of enough planes to be worth their carries.
        let slab_planes = pz.div_ceil((2 * self.multiprocessors / bands).max(1)).max(8);
        let slabs = pz.div_ceil(slab_planes);
        // SAFETY: the first pass writes all of both.
        let (mut band_sums, mut slab_sums) =
            unsafe { (self.alloc::<u32>(pz * bands * px)?, self.alloc::<u32>(slabs * (py + bands) * px)?) };
        let config = |shared_mem_bytes: usize| LaunchConfig {
            grid_dim: (bands as u32, slabs as u32, 1),
            block_dim: (threads as u32, groups as u32, 1),
            shared_mem_bytes: shared_mem_bytes as u32,
        };
        launch!(self, &passes.sums, config(32 * block), &source, &(slab_planes as i32), &mut band_sums, &mut slab_sums)?;
        for (sums, outer, n, inner) in [(&mut band_sums, pz, bands, px), (&mut slab_sums, 1, slabs, (py + bands) * px)] {
            let lines = outer * inner;
            launch!(self, &kernels.scan, blocks_of(128, lines), sums, &(outer as u32), &(n as u32), &(inner as u32))?;
        }
        launch!(self, &passes.write, config(shared), &source, &(slab_planes as i32), &band_sums, &slab_sums, &mut values)?;
        Ok(Integral { values, shape, pad, row, plane })
    }

    fn channels(&self, voxels: &CudaSlice<u16>, shape: [usize; 3], padding: Padding) -> Result<Channels, GpuError> {
        let border = usize::from(padding == Padding::Zero);
        let bordered = shape.map(|n| n + 2 * border);
        let count: usize = bordered.iter().product();
        // SAFETY: the kernel writes every voxel.
        let mut channels = unsafe { self.alloc::<i16>(4 * count) }?;
        let [nx, ny, nz] = shape.map(|n| n as i32);
        launch!(self, &self.images.channels, blocks_of(256, count), voxels, &nx, &ny, &nz, &(border as i32), &mut channels)?;
        Ok(Channels { voxels: channels, shape: bordered, border })
    }

    /// A table, read back.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails.
    pub fn read_table(&self, integral: &Integral) -> Result<Vec<u32>, GpuError> {
        Ok(self.stream.clone_dtoh(&integral.values)?)
    }
}

/// Blocks of `threads` threads for `n` threads in all.
pub(crate) fn blocks_of(threads: u32, n: usize) -> LaunchConfig {
    LaunchConfig { grid_dim: (n.div_ceil(threads as usize).max(1) as u32, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: 0 }
}
