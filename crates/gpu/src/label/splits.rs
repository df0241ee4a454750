//! The best splits of the nodes of a level on the device.

use crate::constants::{FIRST_BITS, SPLIT_SLICE, SPLIT_THREADS};
use crate::device::{Context, GpuError, blocks_of, launch, module};
use cudarc::driver::{CudaFunction, CudaSlice, DevicePtr, DeviceRepr, LaunchConfig};
use pbt_tree::{BinTest, LABEL_BINS, LabelMatrix, Split, SplitTask, fixed};

/// Nodes with more samples have blocks for each candidate, the others a warp.
const FEW: usize = 2048;
/// Candidates of a launch, at most, unless a node has more.
const CANDIDATES_AT_A_TIME: usize = 1 << 22;
/// Bytes of the counts of a launch, at most, unless a node has more.
const COUNT_BYTES: usize = 256 << 20;
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

/// `Candidate` of `splits.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Candidate {
    feature: u32,
    place: u32,
    number: u32,
}

// SAFETY: as above.
unsafe impl DeviceRepr for Candidate {}

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
            bins: device.upload_with_all_threads(matrix.bins())?,
            bin_counts: device.upload(&bin_counts)?,
            ln: device.upload(fixed::ln_table())?,
            samples: matrix.labels().len(),
            classes: matrix.classes(),
        })
    }

    /// Bytes of the counts of a candidate.
    fn histogram(&self) -> usize {
        self.classes * LABEL_BINS * size_of::<u32>()
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
    count: CudaFunction,
    choose: CudaFunction,
    best: CudaFunction,
}

impl SplitsKernels {
    pub(super) fn load(device: &Context) -> Result<Self, GpuError> {
        let module = module!(device, "splits")?;
        let load = |name| module.load_function(name);
        Ok(Self {
            few: load("splits_few")?,
            count: load("splits_count")?,
            choose: load("splits_choose")?,
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
        let counted = COUNT_BYTES / matrix.histogram();
        for (numbers, most) in [(many, counted), (few, CANDIDATES_AT_A_TIME)] {
            let mut rest = &numbers[..];
            while !rest.is_empty() {
                let mut candidates = 0;
                let fits = |n: &&usize| {
                    candidates += tasks[**n].candidates.len();
                    candidates <= most
                };
                let count = rest.iter().take(TASKS_AT_A_TIME).take_while(fits).count().max(1);
                let (now, later) = rest.split_at(count);
                let part: Vec<&SplitTask<'_>> = now.iter().map(|&n| &tasks[n]).collect();
                let found = self.best_of_part(device, matrix, &part, min_leaf)?;
                now.iter().zip(found).for_each(|(&n, split)| best[n] = split);
                rest = later;
            }
        }
        Ok(best)
    }

    /// The same of nodes all of which have few samples, or many.
    fn best_of_part(
        &self,
        device: &Context,
        matrix: &GpuLabelMatrix,
        tasks: &[&SplitTask<'_>],
        min_leaf: u32,
    ) -> Result<Vec<Option<Split>>, GpuError> {
        let (mut samples, mut totals) = (Vec::new(), Vec::new());
        let mut ranges = Vec::with_capacity(tasks.len());
        let mut count = 0;
        for task in tasks {
            ranges.push(Task {
                first_sample: samples.len() as u32,
                samples: task.samples.len() as u32,
                first_candidate: count,
                candidates: task.candidates.len() as u32,
            });
            count += task.candidates.len() as u32;
            samples.extend_from_slice(task.samples);
            totals.extend_from_slice(task.counts);
        }
        if count == 0 {
            return Ok(vec![None; tasks.len()]);
        }
        let candidates = by_feature(tasks, matrix.bin_counts.len());
        let (ranges, totals) = (device.upload(&ranges)?, device.upload(&totals)?);
        let (samples, candidates) = (device.upload(&samples)?, device.upload(&candidates)?);
        // SAFETY: the kernels write all of both.
        let (mut found, mut best) = unsafe {
            (device.alloc::<Found>(count as usize)?, device.alloc::<Found>(tasks.len())?)
        };
        let argument = matrix.argument(device);
        let most = tasks.iter().map(|task| task.samples.len()).max().unwrap_or(0);
        if most > FEW {
            let mut counts = device.zeros::<u32>(count as usize * matrix.classes * LABEL_BINS)?;
            let config = LaunchConfig {
                grid_dim: (count, most.div_ceil(SPLIT_SLICE) as u32, 1),
                block_dim: (SPLIT_THREADS, 1, 1),
                shared_mem_bytes: matrix.histogram() as u32,
            };
            launch!(
                device,
                &self.count,
                config,
                &argument,
                &ranges,
                &totals,
                &samples,
                &candidates,
                &mut counts
            )?;
            launch!(
                device,
                &self.choose,
                blocks_of(SPLIT_THREADS, 32 * count as usize),
                &argument,
                &ranges,
                &totals,
                &candidates,
                &counts,
                &count,
                &min_leaf,
                &mut found
            )?;
        } else {
            let warps = (SHARED_BYTES / matrix.histogram()).clamp(1, SPLIT_THREADS as usize / 32);
            let config = LaunchConfig {
                grid_dim: (count.div_ceil(warps as u32), 1, 1),
                block_dim: (32 * warps as u32, 1, 1),
                shared_mem_bytes: (warps * matrix.histogram()) as u32,
            };
            launch!(
                device,
                &self.few,
                config,
                &argument,
                &ranges,
                &totals,
                &samples,
                &candidates,
                &count,
                &min_leaf,
                &mut found
            )?;
        }
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

/// The candidates of all tasks, those of a feature together, so that they read its bins at about the
/// same time.
fn by_feature(tasks: &[&SplitTask<'_>], features: usize) -> Vec<Candidate> {
    let all = || {
        tasks.iter().zip(0u32..).flat_map(|(task, n)| task.candidates.iter().map(move |c| (n, c)))
    };
    let mut next = vec![0; features + 1];
    all().for_each(|(_, &(feature, _))| next[feature as usize + 1] += 1);
    (0..features).for_each(|feature| next[feature + 1] += next[feature]);
    let mut sorted = vec![Candidate::default(); next[features]];
    for ((n, &(feature, first)), number) in all().zip(0u32..) {
        let place = n << FIRST_BITS | u32::from(first);
        sorted[next[feature as usize]] = Candidate { feature, place, number };
        next[feature as usize] += 1;
    }
    sorted
}
