//! Boosting on the device, the twin of [`adaboost`](pbt_tree::adaboost): all rounds of a node run
//! without a word from the host, which draws up the weak classifiers at the end.

use crate::bins::{DeviceMatrix, Tiles};
use crate::constants::{BOOST_THREADS, GROUP};
use crate::device::{Context, GpuError, blocks_of, module};
use cudarc::driver::{
    CudaFunction, CudaSlice, CudaViewMut, DevicePtr, DeviceRepr, LaunchConfig, PushKernelArg,
};
use pbt_tree::{
    BoostParams, Bounds, WEIGHT_TOTAL, Weak, WeakKind, accepts, alpha_of_error, output_bins,
};
use std::ops::Range;

/// Most bytes of responses that margins are summed from at a time, where a site's are not more.
const RESPONSE_BYTES: usize = 256 << 20;

/// The kernels of `boost.cu`.
pub(crate) struct BoostKernels {
    search: CudaFunction,
    keep_row: CudaFunction,
    update: CudaFunction,
    margins: CudaFunction,
}

/// `Entry` of `boost.cu`: a sample that still weighs something, and its weight, negative for a
/// negative sample.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    sample: u32,
    weight: i32,
}

// SAFETY: plain numbers in the order and with the sizes of the kernel's structure.
unsafe impl DeviceRepr for Entry {}

/// `Round` of `boost.cu`: what a round starts from and what it found.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    inverse_key: u64,
    votes: u64,
    feature: u32,
    error2: u32,
    total: u32,
    signed_total: i32,
    alive: u32,
    found: u32,
    lo: i32,
    hi: i32,
}

// SAFETY: as above.
unsafe impl DeviceRepr for Round {}

/// `Weak` of `boost.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct DeviceWeak {
    votes: u64,
    multiplier: u64,
    row: u32,
    lo: i32,
    hi: i32,
    alpha: i32,
}

// SAFETY: as above.
unsafe impl DeviceRepr for DeviceWeak {}

impl BoostKernels {
    pub(crate) fn load(device: &Context) -> Result<Self, GpuError> {
        let module = module!(device, "boost")?;
        let load = |name| module.load_function(name);
        Ok(Self {
            search: load("boost_search")?,
            keep_row: load("boost_keep_row")?,
            update: load("boost_update")?,
            margins: load("boost_margins")?,
        })
    }
}

/// Which weak classifiers, as the search wants to be told: thresholds, histograms, and how many
/// bins an output bin merges, as a power of 2.
fn kind_arguments(kind: WeakKind) -> [u32; 3] {
    let merge_bits = |bins: usize| (64 / bins).trailing_zeros();
    match kind {
        WeakKind::Threshold => [1, 0, 0],
        WeakKind::Histogram { bins } => [0, 1, merge_bits(output_bins(bins))],
        WeakKind::Best => [1, 1, merge_bits(16)],
    }
}

/// Tiles are split where they are fewer than the multiprocessors, into at most 8 parts.
fn split(tiles: usize, multiprocessors: usize) -> u32 {
    (0..3).take_while(|split| tiles << (split + 1) <= multiprocessors).count() as u32
}

impl BoostKernels {
    /// The weak classifiers of a node: [`adaboost`](pbt_tree::adaboost) with the search of the best
    /// over all features.
    ///
    /// # Panics
    /// When labels or weights have not one entry a sample, or the weights add up to more than
    /// [`WEIGHT_TOTAL`].
    pub(crate) fn boost_matrix(
        &self,
        device: &Context,
        matrix: &DeviceMatrix,
        labels: &[bool],
        weights: &[u32],
        params: &BoostParams,
    ) -> Result<Vec<Weak>, GpuError> {
        assert!(
            labels.len() == matrix.samples && weights.len() == matrix.samples,
            "one label and one weight a sample"
        );
        let total: u64 = weights.iter().map(|&w| u64::from(w)).sum();
        assert!(total <= u64::from(WEIGHT_TOTAL), "weights must sum to at most 2^30");
        if total == 0 || matrix.features == 0 || params.rounds == 0 {
            return Ok(Vec::new());
        }
        let signed = |s: usize| if labels[s] { weights[s] as i32 } else { -(weights[s] as i32) };
        let mut entries: Vec<Entry> = (0..weights.len())
            .filter(|&s| weights[s] > 0)
            .map(|s| Entry { sample: s as u32, weight: signed(s) })
            .collect();
        let first = Round {
            total: total as u32,
            signed_total: entries.iter().map(|e| e.weight).sum(),
            alive: entries.len() as u32,
            ..Round::default()
        };
        entries.resize(entries.len().next_multiple_of(GROUP), Entry::default());
        let mut rounds = vec![Round::default(); params.rounds + 1];
        rounds[0] = first;
        let mut node = Node::new((device, self), matrix, &entries, &rounds, params)?;
        for round in 0..params.rounds {
            node.run(round)?;
        }
        device.read(&node.rounds, &mut rounds)?;
        let accepted = |r: &&Round| {
            r.total > 0 && r.found == 1 && accepts(r.error2, r.total, params.max_error)
        };
        let weak = |r: &Round| Weak {
            feature: r.feature,
            bounds: Bounds { lo: r.lo, hi: r.hi },
            votes: r.votes,
            alpha: alpha_of_error(r.error2, r.total),
        };
        Ok(rounds[..params.rounds].iter().take_while(accepted).map(weak).collect())
    }

    /// The margins of `weaks` at `sites` sites; `respond` writes the responses of all `rows`
    /// features at a range of the sites, `[feature][site]`, to the device. [`Weak::feature`] is a
    /// row.
    pub(crate) fn margins_of(
        &self,
        device: &Context,
        weaks: &[Weak],
        rows: usize,
        sites: usize,
        mut respond: impl FnMut(Range<usize>, &mut CudaViewMut<'_, i32>) -> Result<(), GpuError>,
    ) -> Result<Vec<i32>, GpuError> {
        let device_weak = |w: &Weak| {
            assert!((w.feature as usize) < rows, "row {} of {rows}", w.feature);
            let Bounds { lo, hi } = w.bounds;
            DeviceWeak {
                votes: w.votes,
                multiplier: w.bounds.multiplier(),
                row: w.feature,
                lo,
                hi,
                alpha: w.alpha,
            }
        };
        if weaks.is_empty() || sites == 0 {
            return Ok(vec![0; sites]);
        }
        let device_weaks = device.upload(&weaks.iter().map(device_weak).collect::<Vec<_>>())?;
        let at_a_time = (RESPONSE_BYTES / (4 * rows)).clamp(1, sites);
        // SAFETY: `respond` and the kernel write what is read.
        let mut responses = unsafe { device.alloc::<i32>(rows * at_a_time) }?;
        let mut margins = unsafe { device.alloc::<i32>(sites) }?;
        for first in (0..sites).step_by(at_a_time) {
            let last = (first + at_a_time).min(sites);
            let (n, count) = ((last - first) as u32, weaks.len() as u32);
            respond(first..last, &mut responses.slice_mut(..rows * (last - first)))?;
            let mut out = margins.slice_mut(first..last);
            let mut launch = device.stream.launch_builder(&self.margins);
            launch.arg(&responses).arg(&n).arg(&device_weaks).arg(&count).arg(&mut out);
            // SAFETY: every row of a weak classifier has `n` responses, and as many margins are
            // written.
            unsafe { launch.launch(blocks_of(BOOST_THREADS, last - first)) }?;
        }
        let mut out = vec![0; sites];
        device.read(&margins, &mut out)?;
        Ok(out)
    }
}

/// A node that is being boosted.
struct Node<'a> {
    device: &'a Context,
    kernels: &'a BoostKernels,
    matrix: &'a DeviceMatrix,
    bins: Bins<'a>,
    /// A tile is split in `1 << split` parts, a block each.
    split: u32,
    kind: [u32; 3],
    /// 2·θ.
    most_error2: f64,
    /// The entries of the round and of the next.
    lists: [CudaSlice<Entry>; 2],
    rounds: CudaSlice<Round>,
    /// The best of every part of a tile, two words each.
    candidates: CudaSlice<u64>,
}

/// Where a round finds the bins.
enum Bins<'a> {
    Resident(&'a CudaSlice<u8>),
    /// The tiles of the host pass through `piece`; `row` keeps the bins of the best feature so far.
    Passing {
        tiles: &'a [u8],
        piece: CudaSlice<u8>,
        row: CudaSlice<u8>,
        tiles_at_a_time: usize,
    },
}

impl<'a> Node<'a> {
    fn new(
        (device, kernels): (&'a Context, &'a BoostKernels),
        matrix: &'a DeviceMatrix,
        entries: &[Entry],
        rounds: &[Round],
        params: &BoostParams,
    ) -> Result<Self, GpuError> {
        let tiles = matrix.tile_count();
        let split = split(tiles, device.multiprocessors);
        let tiles_at_a_time = DeviceMatrix::tiles_at_a_time(matrix.samples).min(tiles);
        // SAFETY: the copies and kernels of a round write what those of the same round, and of the
        // next, read.
        let (next, candidates, bins) = unsafe {
            let bins = match &matrix.tiles {
                Tiles::Device(tiles) => Bins::Resident(tiles),
                Tiles::Host(tiles) => Bins::Passing {
                    tiles,
                    piece: device.alloc(tiles_at_a_time * matrix.tile_bytes())?,
                    row: device.alloc(matrix.samples)?,
                    tiles_at_a_time,
                },
            };
            (device.alloc(entries.len())?, device.alloc((2 * tiles) << split)?, bins)
        };
        Ok(Self {
            device,
            kernels,
            matrix,
            bins,
            split,
            kind: kind_arguments(params.weak),
            most_error2: 2.0 * params.max_error,
            lists: [device.upload(entries)?, next],
            rounds: device.upload(rounds)?,
            candidates,
        })
    }

    /// Launches a round.
    fn run(&mut self, round: usize) -> Result<(), GpuError> {
        let Self {
            device: Context { stream, .. },
            kernels,
            matrix,
            split,
            kind,
            most_error2,
            lists,
            candidates,
            ..
        } = self;
        let [now, next] = lists;
        let mut state = self.rounds.slice_mut(round..round + 2);
        let (samples, features, capacity) =
            (matrix.samples as u32, matrix.features as u32, now.len() as u32);
        let mut search = |bins: &CudaSlice<u8>,
                          state: &mut CudaViewMut<'_, Round>,
                          first_tile: u32,
                          tiles: usize| {
            let mut launch = stream.launch_builder(&kernels.search);
            launch
                .arg(bins)
                .arg(&samples)
                .arg(&features)
                .arg(&first_tile)
                .arg(&*split)
                .arg(&*now)
                .arg(&mut *next)
                .arg(&capacity);
            launch.arg(&kind[0]).arg(&kind[1]).arg(&kind[2]).arg(state).arg(&mut *candidates);
            let config = LaunchConfig {
                grid_dim: ((tiles as u32) << *split, 1, 1),
                block_dim: (BOOST_THREADS, 1, 1),
                shared_mem_bytes: 0,
            };
            // SAFETY: `bins` holds the tiles, whose bytes are below 64; entries name samples below
            // `samples`, and both lists are as long.
            unsafe { launch.launch(config) }
        };
        // The address of the bins of the best feature, 0 where the matrix is on the device.
        let mut row_address = 0u64;
        let bins = match &mut self.bins {
            Bins::Resident(tiles) => {
                search(tiles, &mut state, 0, matrix.tile_count())?;
                *tiles
            }
            Bins::Passing { tiles, piece, row, tiles_at_a_time } => {
                for (n, part) in tiles.chunks(*tiles_at_a_time * matrix.tile_bytes()).enumerate() {
                    let (first_tile, count) =
                        ((n * *tiles_at_a_time) as u32, (part.len() / matrix.tile_bytes()) as u32);
                    stream.memcpy_htod(part, piece)?;
                    search(piece, &mut state, first_tile, count as usize)?;
                    let mut launch = stream.launch_builder(&kernels.keep_row);
                    launch
                        .arg(&*piece)
                        .arg(&samples)
                        .arg(&first_tile)
                        .arg(&count)
                        .arg(&mut state)
                        .arg(&mut *row);
                    // SAFETY: `piece` holds the tiles, `row` one byte a sample.
                    unsafe { launch.launch(blocks_of(BOOST_THREADS, matrix.samples)) }?;
                }
                row_address = row.device_ptr(stream).0;
                piece
            }
        };
        let mut launch = stream.launch_builder(&kernels.update);
        launch
            .arg(bins)
            .arg(&row_address)
            .arg(&samples)
            .arg(&*split)
            .arg(&matrix.bounds)
            .arg(&*most_error2);
        launch.arg(&*now).arg(&mut *next).arg(&*candidates).arg(&mut state);
        // SAFETY: as above; the search left a candidate for the best feature, and `state` goes on
        // to the next round's.
        unsafe { launch.launch(blocks_of(BOOST_THREADS, now.len())) }?;
        self.lists.swap(0, 1);
        Ok(())
    }
}
