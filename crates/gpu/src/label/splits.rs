//! The best splits of the nodes of a level on the device.

use crate::constants::{FIRST_BITS, SPLIT_THREADS};
use crate::device::{Context, GpuError, blocks_of, launch, module};
use cudarc::driver::{CudaFunction, CudaSlice, DevicePtr, DeviceRepr, LaunchConfig};
use pbt_tree::{BinTest, LABEL_BINS, LabelMatrix, Split, SplitTask, fixed};

/// Nodes with more samples have a block for each candidate, the others a warp.
const FEW: usize = 2048;
/// Candidates of a launch, at most, unless a node has more.
const CANDIDATES_AT_A_TIME: usize = 1 << 22;
/// Nodes of a launch, at most.
const TASKS_AT_A_TIME: usize = 1 << (u32::BITS - FIRST_BITS);
/// Shared memory that a block may have without being asked.
const SHARED_BYTES: usize = 48 << 10;

/// A matrix of bins on the device.
pub struct GpuLabelMatrix {
    bins: CudaSlice<u8>,
    bin_counts: CudaSlice<u8>,
    ln: CudaSlice<i64>,
    samples: usize,
    classes: usize,
}

/// `Matrix` of `splits.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct DeviceMatrix {
    bins: u64,
    bin_counts: u64,
    ln: u64,
    samples: u64,
    classes: u32,
    _unused: u32,
}

// SAFETY: plain numbers in the order and with the sizes of the kernel's structure.
unsafe impl DeviceRepr for DeviceMatrix {}

/// `Task` of `splits.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Task {
    first_sample: u32,
    samples: u32,
    first_candidate: u32,
    candidates: u32,
}

// SAFETY: as above.
unsafe impl DeviceRepr for Task {}

/// `Found` of `splits.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    gain: i64,
    last: u32,
    candidate: u32,
}

// SAFETY: as above.
unsafe impl DeviceRepr for Found {}

impl GpuLabelMatrix {
    pub(crate) fn new(device: &Context, matrix: &LabelMatrix) -> Result<Self, GpuError> {
        let bins_of = |feature| matrix.edges(feature).bins() as u8;
        let bin_counts: Vec<u8> = (0..matrix.features() as u32).map(bins_of).collect();
        Ok(Self {
            bins: device.upload(matrix.bins())?,
            bin_counts: device.upload(&bin_counts)?,
            ln: device.upload(fixed::ln_table())?,
            samples: matrix.labels().len(),
            classes: matrix.classes(),
        })
    }

    fn argument(&self, device: &Context) -> DeviceMatrix {
        let stream = &device.stream;
        DeviceMatrix {
            bins: self.bins.device_ptr(stream).0,
            bin_counts: self.bin_counts.device_ptr(stream).0,
            ln: self.ln.device_ptr(stream).0,
            samples: self.samples as u64,
            classes: self.classes as u32,
            _unused: 0,
        }
    }
}

/// The kernels of `splits.cu`.
pub(crate) struct SplitsKernels {
    few: CudaFunction,
    many: CudaFunction,
    best: CudaFunction,
}

impl SplitsKernels {
    pub(super) fn load(device: &Context) -> Result<Self, GpuError> {
        let module = module!(device, "splits")?;
        let load = |name| module.load_function(name);
        Ok(Self {
            few: load("splits_few")?,
            many: load("splits_many")?,
            best: load("splits_best")?,
        })
    }

    /// The best split of each node.
    pub(crate) fn best(
        &self,
        device: &Context,
        matrix: &GpuLabelMatrix,
        tasks: &[SplitTask<'_>],
        min_leaf: u32,
    ) -> Result<Vec<Option<Split>>, GpuError> {
        let mut best = vec![None; tasks.len()];
        let is_many = |&n: &usize| tasks[n].samples.len() > FEW;
        let (many, few): (Vec<usize>, Vec<usize>) = (0..tasks.len()).partition(is_many);
        for (numbers, kernel) in [(many, &self.many), (few, &self.few)] {
            let mut rest = &numbers[..];
            while !rest.is_empty() {
                let mut candidates = 0;
                let fits = |n: &&usize| {
                    candidates += tasks[**n].candidates.len();
                    candidates <= CANDIDATES_AT_A_TIME
                };
                let count = rest.iter().take(TASKS_AT_A_TIME).take_while(fits).count().max(1);
                let (now, later) = rest.split_at(count);
                let part: Vec<&SplitTask<'_>> = now.iter().map(|&n| &tasks[n]).collect();
                let found = self.best_of_part(device, matrix, &part, kernel, min_leaf)?;
                now.iter().zip(found).for_each(|(&n, split)| best[n] = split);
                rest = later;
            }
        }
        Ok(best)
    }

    fn best_of_part(
        &self,
        device: &Context,
        matrix: &GpuLabelMatrix,
        tasks: &[&SplitTask<'_>],
        kernel: &CudaFunction,
        min_leaf: u32,
    ) -> Result<Vec<Option<Split>>, GpuError> {
        let (mut samples, mut totals) = (Vec::new(), Vec::new());
        let (mut ranges, mut candidates) = (Vec::with_capacity(tasks.len()), Vec::new());
        for (n, task) in (0u32..).zip(tasks) {
            ranges.push(Task {
                first_sample: samples.len() as u32,
                samples: task.samples.len() as u32,
                first_candidate: candidates.len() as u32 / 2,
                candidates: task.candidates.len() as u32,
            });
            samples.extend_from_slice(task.samples);
            totals.extend_from_slice(task.counts);
            let words =
                |&(feature, first): &(u32, u8)| [feature, n << FIRST_BITS | u32::from(first)];
            candidates.extend(task.candidates.iter().flat_map(words));
        }
        let (count, histogram) =
            (candidates.len() / 2, matrix.classes * LABEL_BINS * size_of::<u32>());
        if count == 0 {
            return Ok(vec![None; tasks.len()]);
        }
        let (ranges, totals) = (device.upload(&ranges)?, device.upload(&totals)?);
        let (samples, candidates) = (device.upload(&samples)?, device.upload(&candidates)?);
        // SAFETY: the kernels write all of both.
        let (mut found, mut best) =
            unsafe { (device.alloc::<Found>(count)?, device.alloc::<Found>(tasks.len())?) };
        let warps = (SHARED_BYTES / histogram).clamp(1, SPLIT_THREADS as usize / 32);
        let config = if std::ptr::eq(kernel, &self.many) {
            LaunchConfig {
                grid_dim: (count as u32, 1, 1),
                block_dim: (SPLIT_THREADS, 1, 1),
                shared_mem_bytes: histogram as u32,
            }
        } else {
            LaunchConfig {
                grid_dim: (count.div_ceil(warps) as u32, 1, 1),
                block_dim: (32 * warps as u32, 1, 1),
                shared_mem_bytes: (warps * histogram) as u32,
            }
        };
        launch!(
            device,
            kernel,
            config,
            &matrix.argument(device),
            &ranges,
            &totals,
            &samples,
            &candidates,
            &(count as u32),
            &min_leaf,
            &mut found
        )?;
        launch!(
            device,
            &self.best,
            blocks_of(256, 32 * tasks.len()),
            &ranges,
            &(tasks.len() as u32),
            &found,
            &mut best
        )?;
        let mut on_host = vec![Found::default(); tasks.len()];
        device.read(&best, &mut on_host)?;
        let split = |(task, found): (&&SplitTask<'_>, Found)| {
            let &(feature, first) = task.candidates.get(found.candidate as usize)?;
            let test = BinTest { gain: found.gain, first, last: found.last as u8 };
            (found.gain > 0).then_some(Split { feature, test })
        };
        Ok(tasks.iter().zip(on_host).map(split).collect())
    }
}
