//! Boosted trees that label voxels, grown on the device.

use crate::constants::{BOOSTED_THREADS, CLASSES_AT_ONCE, LABEL_THREADS, PART_EACH, PART_THREADS};
use crate::device::{Context, GpuError, blocks_of, launch, module};
use cudarc::driver::{CudaFunction, CudaSlice, DevicePtr, DeviceRepr, LaunchConfig};
use pbt_tree::{
    BinTree, GrownNode, LABEL_BINS, LEAST_FALL, LabelMatrix, NodeTest, TreeTask, exp_table,
};

/// Up to so many nodes, each has a whole multiprocessor's threads for a feature.
const FEW_NODES: usize = 4;
/// Threads for a feature of a node where there are more.
const FEW_THREADS: u32 = 256;
/// Tests of a launch, at most, and nodes, which are blocks along y.
const TESTS_AT_A_TIME: usize = 1 << 22;
const NODES_AT_A_TIME: usize = 1 << 15;

/// A matrix of bins on the device with the scores of its samples.
pub struct GpuBoosting {
    bins: CudaSlice<u8>,
    bin_counts: CudaSlice<u8>,
    labels: CudaSlice<u8>,
    exps: CudaSlice<f64>,
    scores: CudaSlice<i32>,
    slopes: CudaSlice<i32>,
    /// Used again and again, since asking for memory takes as long as a launch: the samples of a level
    /// and those of the next, the tests of nodes by feature, and the best of each node.
    lists: [CudaSlice<u32>; 2],
    tests: CudaSlice<Found>,
    best: CudaSlice<Found>,
    samples: usize,
    others: usize,
}

/// `Matrix` of `boosted.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct DeviceMatrix {
    bins: u64,
    bin_counts: u64,
    samples: u64,
    others: u32,
    _unused: u32,
}

// SAFETY: plain numbers in the order and with the sizes of the kernel's structure.
unsafe impl DeviceRepr for DeviceMatrix {}

/// `Node` of `boosted.cu`, two words.
#[derive(Debug, Clone, Copy)]
struct Node {
    begin: u32,
    count: u32,
}

/// `Found` of `boosted.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    fall: f64,
    last: u32,
    candidate: u32,
    left: u32,
    _unused: u32,
}

// SAFETY: as above.
unsafe impl DeviceRepr for Found {}

/// Words of a `Part` of `boosted.cu`.
const PART_WORDS: usize = 6;
/// The child in the `Part` of a leaf.
const NO_CHILD: u32 = u32::MAX;

/// `BinNode` of `boosted.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct DeviceNode {
    feature: u32,
    next: u32,
    last: u32,
    _unused: u32,
}

// SAFETY: as above.
unsafe impl DeviceRepr for DeviceNode {}

impl GpuBoosting {
    pub(crate) fn new(
        device: &Context,
        matrix: &LabelMatrix,
        start: &[i32],
    ) -> Result<Self, GpuError> {
        let bins_of = |feature| matrix.edges(feature).bins() as u8;
        let bin_counts: Vec<u8> = (0..matrix.features() as u32).map(bins_of).collect();
        let (samples, others) = (matrix.labels().len(), start.len());
        let scores: Vec<i32> = start.iter().copied().cycle().take(samples * others).collect();
        Ok(Self {
            bins: device.upload(matrix.bins())?,
            bin_counts: device.upload(&bin_counts)?,
            labels: device.upload(matrix.labels())?,
            exps: device.upload(exp_table())?,
            // SAFETY: those of the samples of a tree are written before they are read.
            slopes: unsafe { device.alloc(scores.len()) }?,
            // SAFETY: as above, of what is kept for a level.
            lists: unsafe { [device.alloc(0)?, device.alloc(0)?] },
            // SAFETY: as above.
            tests: unsafe { device.alloc(0) }?,
            // SAFETY: as above.
            best: unsafe { device.alloc(0) }?,
            scores: device.upload(&scores)?,
            samples,
            others,
        })
    }

    fn argument(&self, device: &Context) -> DeviceMatrix {
        let stream = &device.stream;
        DeviceMatrix {
            bins: self.bins.device_ptr(stream).0,
            bin_counts: self.bin_counts.device_ptr(stream).0,
            samples: self.samples as u64,
            others: self.others as u32,
            _unused: 0,
        }
    }

    /// Numbers of a sum of slopes.
    fn width(&self) -> usize {
        2 * self.others
    }
}

/// Makes room for `len` values, which are not set.
fn make_room<T: DeviceRepr>(
    device: &Context,
    slice: &mut CudaSlice<T>,
    len: usize,
) -> Result<(), GpuError> {
    if slice.len() < len {
        // SAFETY: whoever asks for room writes before it is read.
        *slice = unsafe { device.alloc(len) }?;
    }
    Ok(())
}

/// A level of a tree under way. Its samples are the first list of the boosting.
struct Level {
    nodes: Vec<Node>,
    /// The same on the device, from the word `first` on.
    words: CudaSlice<u32>,
    first: usize,
    /// Sums of their slopes, `[node][class − 1][2]`.
    sums: CudaSlice<i64>,
}

impl Level {
    /// Where the nodes are on the device.
    fn address(&self, device: &Context) -> u64 {
        self.words.device_ptr(&device.stream).0 + (self.first * size_of::<u32>()) as u64
    }
}

/// The kernels of `boosted.cu`.
pub(crate) struct BoostedKernels {
    slopes: CudaFunction,
    search: CudaFunction,
    choose: CudaFunction,
    part: CudaFunction,
    add: CudaFunction,
}

impl BoostedKernels {
    pub(super) fn load(device: &Context) -> Result<Self, GpuError> {
        let module = module!(device, "boosted")?;
        let load = |name| module.load_function(name);
        Ok(Self {
            slopes: load("boosted_slopes")?,
            search: load("boosted_search")?,
            choose: load("boosted_choose")?,
            part: load("boosted_part")?,
            add: load("boosted_add")?,
        })
    }

    /// Grows a tree, level by level.
    pub(crate) fn grow(
        &self,
        device: &Context,
        boosting: &mut GpuBoosting,
        task: &TreeTask<'_>,
    ) -> Result<Vec<Vec<GrownNode>>, GpuError> {
        let features = device.upload(task.features)?;
        let mut level = self.root(device, boosting, task.samples)?;
        let mut levels: Vec<(Vec<Option<NodeTest>>, CudaSlice<i64>)> = Vec::new();
        for number in 0..=task.depth {
            let found = if number < task.depth {
                self.found(device, boosting, &level, &features, task)?
            } else {
                vec![Found::default(); level.nodes.len()]
            };
            let test = |found: &Found| {
                let feature = *task.features.get(found.candidate as usize)?;
                (found.fall > 0.0).then_some(NodeTest { feature, last: found.last as u8 })
            };
            let tests: Vec<Option<NodeTest>> = found.iter().map(test).collect();
            let next = self.parted(device, boosting, &level, &tests, &found)?;
            levels.push((tests, level.sums));
            match next {
                Some(next) => level = next,
                None => break,
            }
        }
        let width = boosting.width();
        let grown = |(tests, sums): (Vec<Option<NodeTest>>, CudaSlice<i64>)| {
            let mut all = vec![0; tests.len() * width];
            device.read(&sums, &mut all)?;
            let nodes = tests.into_iter().zip(all.chunks_exact(width));
            Ok(nodes.map(|(test, sums)| GrownNode { sums: sums.to_vec(), test }).collect())
        };
        levels.into_iter().map(grown).collect()
    }

    /// Measures the slopes of the samples of a tree.
    fn root(
        &self,
        device: &Context,
        boosting: &mut GpuBoosting,
        samples: &[u32],
    ) -> Result<Level, GpuError> {
        let count = samples.len();
        boosting.lists.iter_mut().try_for_each(|list| make_room(device, list, count))?;
        device.stream.memcpy_htod(samples, &mut boosting.lists[0])?;
        let mut sums = device.stream.alloc_zeros::<i64>(boosting.width())?;
        let matrix = boosting.argument(device);
        let config = LaunchConfig {
            shared_mem_bytes: (boosting.width() * size_of::<i32>()) as u32,
            ..blocks_of(LABEL_THREADS, count)
        };
        launch!(
            device,
            &self.slopes,
            config,
            &matrix,
            &boosting.exps,
            &(boosting.exps.len() as u32),
            &boosting.labels,
            &boosting.scores,
            &boosting.lists[0],
            &(count as u32),
            &mut boosting.slopes,
            &mut sums
        )?;
        let nodes = vec![Node { begin: 0, count: count as u32 }];
        Ok(Level { words: device.upload(&[0, count as u32])?, first: 0, nodes, sums })
    }

    /// The best test of each node of a level.
    fn found(
        &self,
        device: &Context,
        boosting: &mut GpuBoosting,
        level: &Level,
        features: &CudaSlice<u32>,
        task: &TreeTask<'_>,
    ) -> Result<Vec<Found>, GpuError> {
        let (count, candidates) = (level.nodes.len(), task.features.len());
        let mut found = vec![Found::default(); count];
        if level.nodes.iter().all(|node| node.count < 2 * task.min_leaf) {
            return Ok(found);
        }
        let at_a_time = (TESTS_AT_A_TIME / candidates).clamp(1, NODES_AT_A_TIME).min(count);
        make_room(device, &mut boosting.tests, at_a_time * candidates)?;
        make_room(device, &mut boosting.best, count)?;
        let matrix = boosting.argument(device);
        let cells = boosting.width().min(2 * CLASSES_AT_ONCE) * LABEL_BINS;
        let shared = cells * (size_of::<i64>() + size_of::<i32>()) + LABEL_BINS * size_of::<u32>();
        let threads = if count <= FEW_NODES { BOOSTED_THREADS } else { FEW_THREADS };
        for first in (0..count).step_by(at_a_time) {
            let now = at_a_time.min(count - first);
            let config = LaunchConfig {
                grid_dim: (candidates as u32, now as u32, 1),
                block_dim: (threads, 1, 1),
                shared_mem_bytes: shared as u32,
            };
            launch!(
                device,
                &self.search,
                config,
                &matrix,
                &level.address(device),
                &(first as u32),
                &boosting.lists[0],
                &boosting.slopes,
                features,
                &task.min_leaf,
                &task.ridge,
                &LEAST_FALL,
                &mut boosting.tests
            )?;
            launch!(
                device,
                &self.choose,
                blocks_of(LABEL_THREADS, 32 * now),
                &boosting.tests,
                &(candidates as u32),
                &(first as u32),
                &(now as u32),
                &mut boosting.best
            )?;
        }
        device.read(&boosting.best, &mut found)?;
        Ok(found)
    }

    /// Parts the samples of the nodes of a level that have a test; the list is then that of the
    /// children. `None` where no node has one.
    fn parted(
        &self,
        device: &Context,
        boosting: &mut GpuBoosting,
        level: &Level,
        tests: &[Option<NodeTest>],
        found: &[Found],
    ) -> Result<Option<Level>, GpuError> {
        let mut words = Vec::with_capacity((PART_WORDS + 6) * tests.len());
        let mut nodes = Vec::new();
        let (mut begin, mut most) = (0, 0);
        for ((node, test), found) in level.nodes.iter().zip(tests).zip(found) {
            let Node { begin: from, count } = *node;
            let (child, feature, last) = match test {
                Some(test) => (nodes.len() as u32, test.feature, u32::from(test.last)),
                None => (NO_CHILD, 0, 0),
            };
            words.extend([from, count, feature, last, child, 0]);
            if test.is_some() {
                for count in [found.left, count - found.left] {
                    nodes.push(Node { begin, count });
                    begin += count;
                }
                most = most.max(count);
            }
        }
        if nodes.is_empty() {
            return Ok(None);
        }
        // One piece for all that the host says: parts, the children, and where the samples of each end so
        // far.
        let first = words.len();
        words.extend(nodes.iter().flat_map(|node: &Node| [node.begin, node.count]));
        let ends = words.len();
        words.extend(nodes.iter().map(|node| node.begin));
        let words = device.upload(&words)?;
        let parts = words.device_ptr(&device.stream).0;
        let ends = parts + (ends * size_of::<u32>()) as u64;
        let (matrix, [list, out]) = (boosting.argument(device), &mut boosting.lists);
        let width = 2 * boosting.others;
        let mut sums = device.stream.alloc_zeros::<i64>(nodes.len() * width)?;
        for from in (0..tests.len()).step_by(NODES_AT_A_TIME) {
            let now = NODES_AT_A_TIME.min(tests.len() - from);
            let config = LaunchConfig {
                grid_dim: (most.div_ceil(PART_THREADS * PART_EACH), now as u32, 1),
                block_dim: (PART_THREADS, 1, 1),
                shared_mem_bytes: (2 * width * size_of::<i32>()) as u32,
            };
            launch!(
                device,
                &self.part,
                config,
                &matrix,
                &parts,
                &(from as u32),
                &*list,
                &boosting.slopes,
                &mut *out,
                &ends,
                &mut sums
            )?;
        }
        boosting.lists.swap(0, 1);
        Ok(Some(Level { nodes, words, first, sums }))
    }

    /// Adds the steps of a tree to the scores of all samples.
    pub(crate) fn add(
        &self,
        device: &Context,
        boosting: &mut GpuBoosting,
        tree: &BinTree,
    ) -> Result<(), GpuError> {
        let node = |node: &pbt_tree::BinNode| DeviceNode {
            feature: node.feature,
            next: node.next,
            last: u32::from(node.last),
            _unused: 0,
        };
        let nodes = device.upload(&tree.nodes.iter().map(node).collect::<Vec<DeviceNode>>())?;
        let steps = device.upload(&tree.steps)?;
        launch!(
            device,
            &self.add,
            blocks_of(LABEL_THREADS, boosting.samples),
            &boosting.argument(device),
            &nodes,
            &steps,
            &mut boosting.scores
        )
    }
}
