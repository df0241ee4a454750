//! A case on the device: the twin of `pbt_cpu::CpuImage`.

use crate::gpu::launch;
use crate::resident::Resident;
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
/// Threads of one column of such a block, at most: more rows for a block cost fewer carries, and
/// more waiting for each other.
const MOST_GROUPS: usize = 4;

/// A case: its voxels on the host, and a claim to tables on the device. These are made when it is
/// uploaded; where memory is short they give way to those of other cases, and are made again when
/// they are needed.
pub struct GpuImage {
    number: u64,
    resident: Arc<Resident<Tables>>,
    pub(crate) geometries: Vec<Geometry>,
    /// Finest first; they share their voxels with the caller's.
    levels: Vec<Volume<u16>>,
    layout: ImageLayout,
}

/// The tables of a case on the device.
pub(crate) struct Tables {
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

/// `Channels` of `poses.cu`; without voxels where a case or a level is not there.
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
            direct: IntegralKernels {
                sums: load("image_sums_direct")?,
                write: load("image_write_direct")?,
            },
            scan: load("image_scan")?,
            channels: load("image_channels")?,
        })
    }
}

impl GpuImage {
    pub(crate) fn new(
        gpu: &Gpu,
        levels: &[Volume<u16>],
        layout: &ImageLayout,
    ) -> Result<Self, GpuError> {
        let image = Self {
            number: gpu.resident.number(),
            resident: gpu.resident.clone(),
            geometries: levels.iter().map(|l| l.geometry().clone()).collect(),
            levels: levels.to_vec(),
            layout: layout.clone(),
        };
        gpu.tables(&image)?;
        Ok(image)
    }

    /// Shape of the level with the integral volume, and how many voxels Haar features reach there.
    ///
    /// # Panics
    /// When the layout had none: a programming error of the caller.
    pub(crate) fn haar(&self) -> ([usize; 3], usize) {
        let (level, pad) =
            self.layout.haar.expect("the case was uploaded without an integral volume");
        (self.levels[level].shape(), pad)
    }

    /// # Panics
    /// When the layout did not ask for the channels of a level of `used`: a programming error of
    /// the caller.
    pub(crate) fn assert_channels(&self, used: impl Fn(usize) -> bool) {
        let lacking =
            (0..self.levels.len()).find(|n| used(*n) && !self.layout.channels.contains(n));
        assert!(
            lacking.is_none(),
            "the case was uploaded without the channels of level {lacking:?}"
        );
    }

    /// Bytes of its tables.
    fn bytes(&self) -> usize {
        let integral = self.layout.haar.map_or(0, |(level, pad)| {
            4 * self.levels[level].shape().map(|n| n + 2 * pad + 1).iter().product::<usize>()
        });
        let channels = |(_, level): (usize, &Volume<u16>)| {
            8 * bordered(level.shape(), self.layout.padding).iter().product::<usize>()
        };
        integral
            + self
                .levels
                .iter()
                .enumerate()
                .filter(|(n, _)| self.layout.channels.contains(n))
                .map(channels)
                .sum::<usize>()
    }
}

impl Drop for GpuImage {
    fn drop(&mut self) {
        self.resident.forget(self.number);
    }
}

impl Tables {
    fn new(gpu: &Gpu, levels: &[Volume<u16>], layout: &ImageLayout) -> Result<Self, GpuError> {
        let mut tables = Self { integral: None, channels: Vec::new() };
        for (n, level) in levels.iter().enumerate() {
            let haar = layout.haar.filter(|&(l, _)| l == n);
            let channels = layout.channels.contains(&n);
            let voxels = if haar.is_some() || channels {
                gpu.upload(level.data())?
            } else {
                gpu.upload(&[])?
            };
            if let Some((_, pad)) = haar {
                tables.integral = Some(gpu.integral(&voxels, level, pad, layout.padding)?);
            }
            tables.channels.push(if channels {
                Some(gpu.channels(&voxels, level.shape(), layout.padding)?)
            } else {
                None
            });
        }
        Ok(tables)
    }

    /// The integral volume.
    ///
    /// # Panics
    /// When the layout had none: a programming error of the caller.
    pub(crate) fn integral(&self) -> &Integral {
        self.integral.as_ref().expect("the case was uploaded without an integral volume")
    }

    /// The channels of all levels; those that the layout did not ask for are empty.
    pub(crate) fn device_channels(&self, gpu: &Gpu) -> Vec<DeviceChannels> {
        let of_level = |channels: &Option<Channels>| match channels {
            Some(c) => DeviceChannels {
                voxels: c.voxels.device_ptr(&gpu.stream).0,
                shape: c.shape.map(|n| n as i32),
                border: c.border as i32,
            },
            None => DeviceChannels::default(),
        };
        self.channels.iter().map(of_level).collect()
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
    /// The tables of a case; whoever holds them keeps them on the device.
    pub(crate) fn tables(&self, image: &GpuImage) -> Result<Arc<Tables>, GpuError> {
        image
            .resident
            .get(image.number, image.bytes(), || Tables::new(self, &image.levels, &image.layout))
    }

    /// Gives `work` the tables of the needed ones of some cases, all at once or, where they do not
    /// fit together, group by group: `None` for the cases of other groups.
    pub(crate) fn with_tables(
        &self,
        images: &[&GpuImage],
        needed: impl Fn(usize) -> bool,
        mut work: impl FnMut(&[Option<Arc<Tables>>]) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        let needed: Vec<usize> = (0..images.len()).filter(|&n| needed(n)).collect();
        let sizes: Vec<(u64, usize)> =
            needed.iter().map(|&n| (images[n].number, images[n].bytes())).collect();
        for group in self.resident.groups(&sizes) {
            let mut tables = vec![None; images.len()];
            for n in group {
                tables[needed[n]] = Some(self.tables(images[needed[n]])?);
            }
            work(&tables)?;
        }
        Ok(())
    }

    /// The integral of a volume, as [`IntegralVolume::new`] makes it, in two passes over the
    /// volume: the first reads it and writes sums of bands of rows and of slabs of planes, the
    /// second reads it again and writes the table (the 2R1W of Kasagi, Nakano and Ito 2014, in
    /// three dimensions).
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn integral(
        &self,
        voxels: &CudaSlice<u16>,
        volume: &Volume<u16>,
        pad: usize,
        padding: Padding,
    ) -> Result<Integral, GpuError> {
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
        let (mut band_sums, mut slab_sums) = unsafe {
            (self.alloc::<u32>(pz * bands * px)?, self.alloc::<u32>(slabs * (py + bands) * px)?)
        };
        let config = |shared_mem_bytes: usize| LaunchConfig {
            grid_dim: (bands as u32, slabs as u32, 1),
            block_dim: (threads as u32, groups as u32, 1),
            shared_mem_bytes: shared_mem_bytes as u32,
        };
        launch!(
            self,
            &passes.sums,
            config(32 * block),
            &source,
            &(slab_planes as i32),
            &mut band_sums,
            &mut slab_sums
        )?;
        for (sums, outer, n, inner) in
            [(&mut band_sums, pz, bands, px), (&mut slab_sums, 1, slabs, (py + bands) * px)]
        {
            let lines = outer * inner;
            launch!(
                self,
                &kernels.scan,
                blocks_of(128, lines),
                sums,
                &(outer as u32),
                &(n as u32),
                &(inner as u32)
            )?;
        }
        launch!(
            self,
            &passes.write,
            config(shared),
            &source,
            &(slab_planes as i32),
            &band_sums,
            &slab_sums,
            &mut values
        )?;
        Ok(Integral { values, shape, pad, row, plane })
    }

    fn channels(
        &self,
        voxels: &CudaSlice<u16>,
        shape: [usize; 3],
        padding: Padding,
    ) -> Result<Channels, GpuError> {
        let border = usize::from(padding == Padding::Zero);
        let bordered = bordered(shape, padding);
        let count: usize = bordered.iter().product();
        // SAFETY: the kernel writes every voxel.
        let mut channels = unsafe { self.alloc::<i16>(4 * count) }?;
        let [nx, ny, nz] = shape.map(|n| n as i32);
        launch!(
            self,
            &self.images.channels,
            blocks_of(256, count),
            voxels,
            &nx,
            &ny,
            &nz,
            &(border as i32),
            &mut channels
        )?;
        Ok(Channels { voxels: channels, shape: bordered, border })
    }

    /// The integral volume of a case, read back.
    ///
    /// # Panics
    /// When the layout had none: a programming error of the caller.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn read_table(&self, image: &GpuImage) -> Result<Vec<u32>, GpuError> {
        Ok(self.stream.clone_dtoh(&self.tables(image)?.integral().values)?)
    }
}

/// Voxels of the channels of a level: with [`Padding::Zero`] one more on every side.
fn bordered(shape: [usize; 3], padding: Padding) -> [usize; 3] {
    shape.map(|n| n + 2 * usize::from(padding == Padding::Zero))
}

/// Which of `count` images have sites.
pub(crate) fn images_with_sites(count: usize, image_of_site: &[u32]) -> Vec<bool> {
    let mut with_sites = vec![false; count];
    image_of_site.iter().for_each(|&n| with_sites[n as usize] = true);
    with_sites
}

/// Blocks of `threads` threads for `n` threads in all.
pub(crate) fn blocks_of(threads: u32, n: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (n.div_ceil(threads as usize).max(1) as u32, 1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::test_device;

    #[test]
    fn few_images_are_there_at_a_time_cuda() {
        let Some(gpu) = test_device() else { return };
        let volume = |n: usize| {
            let geometry = Geometry::isotropic([20 + n, 30, 25], 1.0).expect("a grid");
            Volume::from_fn(geometry, |i, j, k| ((i * 7 + j * 31 + k * 3 + n * 101) % 4096) as u16)
        };
        let volumes: Vec<Volume<u16>> = (0..6).map(volume).collect();
        let layout = ImageLayout { padding: Padding::Zero, haar: Some((0, 3)), channels: vec![0] };
        let limit = 900_000;
        let gpu = gpu.with_image_limit(limit);
        let images: Vec<GpuImage> = volumes
            .iter()
            .map(|v| GpuImage::new(&gpu, std::slice::from_ref(v), &layout).expect("an image"))
            .collect();
        let all: usize = images.iter().map(GpuImage::bytes).sum();
        assert!(all > limit && images.iter().all(|i| 2 * i.bytes() < limit), "{all} bytes");
        for n in [0, 1, 2, 3, 4, 5, 0, 5, 1] {
            let expected = IntegralVolume::new(&volumes[n], 3, Padding::Zero);
            let table = gpu.read_table(&images[n]).expect("a table");
            assert!(table == expected.table(), "image {n}");
            assert_eq!(
                4 * table.len() + 8 * [22 + n, 32, 27].iter().product::<usize>(),
                images[n].bytes()
            );
            assert!((1..=limit).contains(&gpu.resident.bytes()));
        }
        // All of them in one call, in groups.
        let (mut calls, mut seen) = (0, vec![0; images.len()]);
        let references: Vec<&GpuImage> = images.iter().collect();
        let count = |there: &[Option<Arc<Tables>>]| {
            calls += 1;
            there
                .iter()
                .zip(&mut seen)
                .for_each(|(tables, seen)| *seen += usize::from(tables.is_some()));
            Ok(())
        };
        gpu.with_tables(&references, |n| n != 4, count).expect("tables");
        assert_eq!(seen, [1, 1, 1, 1, 0, 1]);
        assert!((2..6).contains(&calls), "{calls} calls");
        drop(images);
        assert_eq!(gpu.resident.bytes(), 0);
    }
}
