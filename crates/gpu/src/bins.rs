//! The binned matrix on the device, the twin of [`BinnedMatrix`]: bounds and bins of responses that
//! never leave the device.

use crate::constants::{FEATURE_BITS, TILE};
use crate::{Gpu, GpuError};
use cudarc::driver::{
    CudaFunction, CudaModule, CudaSlice, CudaViewMut, LaunchConfig, PushKernelArg,
};
use pbt_tree::{BinnedMatrix, Bounds};
use std::ops::Range;
use std::sync::Arc;

/// Most bytes of responses that are in work at a time, where a tile's are not more.
const RESPONSE_BYTES: usize = 256 << 20;
/// Most samples of a feature that the kernel of the bounds keeps in shared memory: every CUDA
/// device has 48 KB of it.
const CACHED_SAMPLES: usize = 11 << 10;
/// Feature numbers share a 64-bit key with the cost.
const MOST_FEATURES: usize = 1 << FEATURE_BITS;

/// The kernels of `bins.cu`.
pub(crate) struct BinsKernels {
    bounds: CudaFunction,
    quantise: CudaFunction,
    arrange: CudaFunction,
}

impl BinsKernels {
    pub(crate) fn load(module: &Arc<CudaModule>) -> Result<Self, GpuError> {
        let load = |name| module.load_function(name);
        Ok(Self {
            bounds: load("bins_bounds")?,
            quantise: load("bins_quantise")?,
            arrange: load("bins_arrange")?,
        })
    }
}

/// Bins and bounds of every feature, ready for boosting on the device that it was made on.
pub struct DeviceMatrix {
    pub(crate) samples: usize,
    pub(crate) features: usize,
    /// `[feature][lo, hi]`.
    pub(crate) bounds: CudaSlice<i32>,
    pub(crate) tiles: Tiles,
}

/// Where the bins are.
pub(crate) enum Tiles {
    /// All on the device.
    Device(CudaSlice<u8>),
    /// On the host, where they do not fit on the device: they pass through it in every round.
    Host(Vec<u8>),
}

impl DeviceMatrix {
    /// Tiles that are in work at a time where a matrix is made or passes through the device.
    pub(crate) fn tiles_at_a_time(samples: usize) -> usize {
        (RESPONSE_BYTES / (4 * TILE * samples.max(1))).max(1)
    }

    /// Whether all bins are in the device's memory.
    pub fn is_resident(&self) -> bool {
        matches!(self.tiles, Tiles::Device(_))
    }

    /// Bytes of a tile.
    pub(crate) fn tile_bytes(&self) -> usize {
        TILE * self.samples
    }

    /// Number of tiles.
    pub(crate) fn tile_count(&self) -> usize {
        self.features.div_ceil(TILE)
    }

    fn new(gpu: &Gpu, features: usize, samples: usize) -> Result<Self, GpuError> {
        assert!(features < MOST_FEATURES, "a matrix of {features} features");
        let bytes = features.div_ceil(TILE) * TILE * samples;
        // SAFETY: every tile and the bounds of its features are written before they are read.
        let (bounds, tiles) = unsafe {
            let bounds = gpu.device.alloc(2 * features)?;
            let tiles = match gpu.may_keep_matrix(bytes).then(|| gpu.device.alloc(bytes)) {
                Some(Ok(tiles)) => Tiles::Device(tiles),
                None | Some(Err(GpuError::OutOfMemory { .. })) => Tiles::Host(vec![0; bytes]),
                Some(Err(error)) => return Err(error),
            };
            (bounds, tiles)
        };
        Ok(Self { samples, features, bounds, tiles })
    }

    /// Makes the tiles piece by piece: `make` gets some features, the bounds to write or read, and
    /// the tiles to write.
    fn fill(
        &mut self,
        gpu: &Gpu,
        mut make: impl FnMut(
            Range<usize>,
            &mut CudaViewMut<'_, i32>,
            &mut CudaViewMut<'_, u8>,
        ) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        let (count, at_a_time, bytes) =
            (self.tile_count(), Self::tiles_at_a_time(self.samples), self.tile_bytes());
        for first in (0..count).step_by(at_a_time) {
            let last = (first + at_a_time).min(count);
            let features = first * TILE..(last * TILE).min(self.features);
            let mut bounds = self.bounds.slice_mut(2 * features.start..2 * features.end);
            match &mut self.tiles {
                Tiles::Device(tiles) => {
                    make(features, &mut bounds, &mut tiles.slice_mut(first * bytes..last * bytes))?
                }
                Tiles::Host(tiles) => {
                    // SAFETY: `make` writes all of it.
                    let mut piece = unsafe { gpu.device.alloc((last - first) * bytes) }?;
                    make(features, &mut bounds, &mut piece.as_view_mut())?;
                    gpu.device
                        .stream
                        .memcpy_dtoh(&piece, &mut tiles[first * bytes..last * bytes])?;
                }
            }
        }
        Ok(())
    }

    /// The bins of `features` features for `samples` samples, as [`BinnedMatrix`] makes them;
    /// `percent` of the responses is cut off at either end. `respond` writes the responses of a
    /// range of the features, `[feature][sample]`, to the device.
    pub(crate) fn from_responses(
        gpu: &Gpu,
        features: usize,
        samples: usize,
        percent: f64,
        mut respond: impl FnMut(Range<usize>, &mut CudaViewMut<'_, i32>) -> Result<(), GpuError>,
    ) -> Result<Self, GpuError> {
        let most = features.min(Self::tiles_at_a_time(samples) * TILE);
        // SAFETY: `respond` writes what is read.
        let mut responses = unsafe { gpu.device.alloc::<i32>(most * samples) }?;
        let mut multipliers = unsafe { gpu.device.alloc::<u64>(most) }?;
        // As on the CPU, there are no features where there is nothing to bound them.
        let mut matrix = Self::new(gpu, if samples == 0 { 0 } else { features }, samples)?;
        let kernels = &gpu.bins;
        let (n, rank) = (samples as u32, BinnedMatrix::cut_rank(samples, percent) as u32);
        let cached = u32::from(samples <= CACHED_SAMPLES);
        matrix.fill(gpu, |range, bounds, tiles| {
            let (count, blocks) = (range.len() as u32, quantise_blocks(range.len(), samples));
            respond(range, &mut responses.slice_mut(..count as usize * samples))?;
            let config = LaunchConfig {
                grid_dim: (count, 1, 1),
                block_dim: (if samples < 8192 { 256 } else { 512 }, 1, 1),
                shared_mem_bytes: cached * n * 4,
            };
            let mut launch = gpu.device.stream.launch_builder(&kernels.bounds);
            launch
                .arg(&responses)
                .arg(&n)
                .arg(&rank)
                .arg(&cached)
                .arg(&mut *bounds)
                .arg(&mut multipliers);
            // SAFETY: `count` features of `n` responses, of bounds and of multipliers are there,
            // and the rank is below n/2.
            unsafe { launch.launch(config) }?;
            let mut launch = gpu.device.stream.launch_builder(&kernels.quantise);
            launch
                .arg(&responses)
                .arg(&n)
                .arg(&count)
                .arg(&mut *bounds)
                .arg(&multipliers)
                .arg(tiles);
            // SAFETY: as above, and `tiles` holds all tiles of the features.
            unsafe {
                launch.launch(LaunchConfig {
                    grid_dim: (blocks, 1, 1),
                    block_dim: (256, 1, 1),
                    shared_mem_bytes: 0,
                })
            }?;
            Ok(())
        })?;
        Ok(matrix)
    }

    /// As [`BinnedMatrix::push_features`] makes it of responses on the host, `[feature][sample]`; a
    /// last incomplete feature is not taken.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn of_responses(
        gpu: &Gpu,
        responses: &[i32],
        samples: usize,
        percent: f64,
    ) -> Result<Self, GpuError> {
        let features = responses.len().checked_div(samples).unwrap_or(0);
        Self::from_responses(gpu, features, samples, percent, |range, out| {
            Ok(gpu
                .device
                .stream
                .memcpy_htod(&responses[range.start * samples..range.end * samples], out)?)
        })
    }

    /// Bounds of every feature, and the bins `[feature][sample]`.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails.
    pub fn read_back(&self, gpu: &Gpu) -> Result<(Vec<Bounds>, Vec<u8>), GpuError> {
        let tiles = match &self.tiles {
            Tiles::Device(tiles) => gpu.device.stream.clone_dtoh(tiles)?,
            Tiles::Host(tiles) => tiles.clone(),
        };
        let bounds = gpu.device.stream.clone_dtoh(&self.bounds)?;
        gpu.device.stream.synchronize()?;
        let place = |feature: usize, sample: usize| {
            (feature / TILE * self.samples + sample) * TILE + feature % TILE
        };
        let bins = (0..self.features)
            .flat_map(|f| (0..self.samples).map(move |s| place(f, s)))
            .map(|p| tiles[p])
            .collect();
        Ok((
            bounds
                .chunks_exact(2)
                .take(self.features)
                .map(|b| Bounds { lo: b[0], hi: b[1] })
                .collect(),
            bins,
        ))
    }

    /// A matrix of the host, brought to the device.
    ///
    /// # Errors
    /// [`GpuError`] when the device fails or its memory is full.
    pub fn upload(gpu: &Gpu, host: &BinnedMatrix) -> Result<Self, GpuError> {
        let samples = host.samples();
        let mut matrix = Self::new(gpu, host.features(), samples)?;
        let n = samples as u32;
        matrix.fill(gpu, |range, bounds, tiles| {
            let of_features: Vec<i32> =
                range.clone().map(|f| host.bounds(f)).flat_map(|b| [b.lo, b.hi]).collect();
            gpu.device.stream.memcpy_htod(&of_features, bounds)?;
            let (count, blocks) = (range.len() as u32, quantise_blocks(range.len(), samples));
            let rows =
                gpu.device.upload(&host.as_slice()[range.start * samples..range.end * samples])?;
            let mut launch = gpu.device.stream.launch_builder(&gpu.bins.arrange);
            launch.arg(&rows).arg(&n).arg(&count).arg(tiles);
            // SAFETY: `rows` holds `count` features of `n` samples, `tiles` all their tiles.
            unsafe {
                launch.launch(LaunchConfig {
                    grid_dim: (blocks, 1, 1),
                    block_dim: (256, 1, 1),
                    shared_mem_bytes: 0,
                })
            }?;
            Ok(())
        })?;
        Ok(matrix)
    }
}

/// Blocks of the kernels that write tiles: one for each 32 samples of each tile.
fn quantise_blocks(features: usize, samples: usize) -> u32 {
    (features.div_ceil(TILE) * samples.div_ceil(32)) as u32
}
