//! The binned matrix on the device, the twin of [`BinnedMatrix`]: bounds and bins of responses that
//! never leave the device.

use crate::constants::{FEATURE_BITS, TILE};
use crate::device::{Context, GpuError, module};
use cudarc::driver::{CudaFunction, CudaSlice, CudaViewMut, LaunchConfig, PushKernelArg};
use pbt_tree::{BinnedMatrix, Bounds};
use std::ops::Range;

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
    /// Bytes of the largest matrix that stays on the device; `None`: any that fits.
    pub(crate) matrix_limit: Option<usize>,
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

    /// Makes the tiles piece by piece: `make` gets some features, the bounds to write or read, and
    /// the tiles to write.
    fn fill(
        &mut self,
        device: &Context,
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
                    let mut piece = unsafe { device.alloc((last - first) * bytes) }?;
                    make(features, &mut bounds, &mut piece.as_view_mut())?;
                    device.stream.memcpy_dtoh(&piece, &mut tiles[first * bytes..last * bytes])?;
                }
            }
        }
        Ok(())
    }

    /// Bounds of every feature, and the bins `[feature][sample]`.
    pub(crate) fn read_back(&self, device: &Context) -> Result<(Vec<Bounds>, Vec<u8>), GpuError> {
        let tiles = match &self.tiles {
            Tiles::Device(tiles) => device.stream.clone_dtoh(tiles)?,
            Tiles::Host(tiles) => tiles.clone(),
        };
        let bounds = device.stream.clone_dtoh(&self.bounds)?;
        device.wait()?;
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
}

impl BinsKernels {
    pub(crate) fn load(device: &Context) -> Result<Self, GpuError> {
        let module = module!(device, "bins")?;
        let load = |name| module.load_function(name);
        Ok(Self {
            bounds: load("bins_bounds")?,
            quantise: load("bins_quantise")?,
            arrange: load("bins_arrange")?,
            matrix_limit: None,
        })
    }

    fn matrix(
        &self,
        device: &Context,
        features: usize,
        samples: usize,
    ) -> Result<DeviceMatrix, GpuError> {
        assert!(features < MOST_FEATURES, "a matrix of {features} features");
        let bytes = features.div_ceil(TILE) * TILE * samples;
        let may_keep = self.matrix_limit.is_none_or(|limit| bytes <= limit);
        // SAFETY: every tile and the bounds of its features are written before they are read.
        let (bounds, tiles) = unsafe {
            let bounds = device.alloc(2 * features)?;
            let tiles = match may_keep.then(|| device.alloc(bytes)) {
                Some(Ok(tiles)) => Tiles::Device(tiles),
                None | Some(Err(GpuError::OutOfMemory { .. })) => Tiles::Host(vec![0; bytes]),
                Some(Err(error)) => return Err(error),
            };
            (bounds, tiles)
        };
        Ok(DeviceMatrix { samples, features, bounds, tiles })
    }

    /// The bins of `features` features for `samples` samples, as [`BinnedMatrix`] makes them;
    /// `percent` of the responses is cut off at either end. `respond` writes the responses of a
    /// range of the features, `[feature][sample]`, to the device.
    pub(crate) fn bin(
        &self,
        device: &Context,
        features: usize,
        samples: usize,
        percent: f64,
        mut respond: impl FnMut(Range<usize>, &mut CudaViewMut<'_, i32>) -> Result<(), GpuError>,
    ) -> Result<DeviceMatrix, GpuError> {
        let most = features.min(DeviceMatrix::tiles_at_a_time(samples) * TILE);
        // SAFETY: `respond` writes what is read.
        let mut responses = unsafe { device.alloc::<i32>(most * samples) }?;
        let mut multipliers = unsafe { device.alloc::<u64>(most) }?;
        // As on the CPU, there are no features where there is nothing to bound them.
        let mut matrix = self.matrix(device, if samples == 0 { 0 } else { features }, samples)?;
        let (n, rank) = (samples as u32, BinnedMatrix::cut_rank(samples, percent) as u32);
        let cached = u32::from(samples <= CACHED_SAMPLES);
        matrix.fill(device, |range, bounds, tiles| {
            let (count, blocks) = (range.len() as u32, quantise_blocks(range.len(), samples));
            respond(range, &mut responses.slice_mut(..count as usize * samples))?;
            let config = LaunchConfig {
                grid_dim: (count, 1, 1),
                block_dim: (if samples < 8192 { 256 } else { 512 }, 1, 1),
                shared_mem_bytes: cached * n * 4,
            };
            let mut launch = device.stream.launch_builder(&self.bounds);
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
            let mut launch = device.stream.launch_builder(&self.quantise);
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

    /// A matrix of the host, brought to the device.
    pub(crate) fn upload(
        &self,
        device: &Context,
        host: &BinnedMatrix,
    ) -> Result<DeviceMatrix, GpuError> {
        let samples = host.samples();
        let mut matrix = self.matrix(device, host.features(), samples)?;
        let n = samples as u32;
        matrix.fill(device, |range, bounds, tiles| {
            let of_features: Vec<i32> =
                range.clone().map(|f| host.bounds(f)).flat_map(|b| [b.lo, b.hi]).collect();
            device.stream.memcpy_htod(&of_features, bounds)?;
            let (count, blocks) = (range.len() as u32, quantise_blocks(range.len(), samples));
            let rows =
                device.upload(&host.as_slice()[range.start * samples..range.end * samples])?;
            let mut launch = device.stream.launch_builder(&self.arrange);
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
