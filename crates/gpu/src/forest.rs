//! Classifiers on the device.

use crate::constants::HISTOGRAM;
use crate::device::{Context, GpuError};
use cudarc::driver::{CudaSlice, DevicePtr, DeviceRepr};
use pbt_tree::{Classifier, Tree, Weak};
use std::sync::{Arc, Mutex, PoisonError};

/// `Weak` of `forest.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct DeviceWeak {
    what: u32,
    how: u32,
    first: i32,
    above: i32,
    votes: u64,
    multiplier: u64,
    lo: i32,
    hi: i32,
    alpha: i32,
    _unused: u32,
}

// SAFETY: plain numbers in the order and with the sizes of the kernel's structure.
unsafe impl DeviceRepr for DeviceWeak {}

/// `Node` of `forest.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct DeviceNode {
    first_weak: u32,
    weak_count: u32,
    left: u32,
    right: u32,
    positive: u32,
}

// SAFETY: as above.
unsafe impl DeviceRepr for DeviceNode {}

/// `Forest` of `forest.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forest {
    nodes: u64,
    weaks: u64,
    roots: u64,
    minor: u64,
    ln: u64,
    trees: u32,
    pub(crate) depth: u32,
    hard_right: i32,
    hard_left: i32,
    soft: i32,
    _unused: u32,
}

// SAFETY: as above.
unsafe impl DeviceRepr for Forest {}

/// The tables of `pbt_tree::fixed` on the device.
pub(crate) struct FixedTables {
    minor: CudaSlice<u64>,
    ln: CudaSlice<i64>,
}

impl FixedTables {
    pub(crate) fn new(device: &Context) -> Result<Self, GpuError> {
        let stream = &device.stream;
        Ok(Self {
            minor: stream.clone_htod(pbt_tree::fixed::minor_table())?,
            ln: stream.clone_htod(pbt_tree::fixed::ln_table())?,
        })
    }
}

/// The trees of a classifier.
pub(crate) struct DeviceForest {
    nodes: CudaSlice<DeviceNode>,
    weaks: CudaSlice<DeviceWeak>,
    roots: CudaSlice<u32>,
    trees: usize,
    depth: usize,
    thresholds: [i32; 3],
    /// Weak classifiers an inner node, the mean.
    pub(crate) weaks_a_node: f64,
}

impl DeviceForest {
    /// `response_of(feature)` gives the words `what` and `how` of a feature's responses.
    pub(crate) fn new(
        device: &Context,
        classifier: &Classifier,
        response_of: impl Fn(u32) -> [u32; 2],
    ) -> Result<Self, GpuError> {
        let (mut nodes, mut weaks, mut roots) = (Vec::new(), Vec::new(), Vec::new());
        for tree in &classifier.trees {
            let (first_node, first_weak) = (nodes.len() as u32, weaks.len() as u32);
            roots.push(first_node);
            nodes.extend(tree.nodes.iter().map(|n| DeviceNode {
                first_weak: n.first_weak + first_weak,
                weak_count: n.weak_count,
                left: n.left + first_node,
                right: n.right + first_node,
                positive: n.positive,
            }));
            weaks.extend(tree.weaks.iter().map(|w| device_weak(w, response_of(w.feature))));
        }
        let inner = nodes.iter().filter(|n| n.weak_count > 0).count();
        let eval = &classifier.eval;
        Ok(Self {
            nodes: device.upload(&nodes)?,
            weaks: device.upload(&weaks)?,
            roots: device.upload(&roots)?,
            trees: classifier.trees.len(),
            depth: classifier.trees.iter().map(depth).max().unwrap_or(0),
            thresholds: [eval.hard_right, eval.hard_left, eval.soft],
            weaks_a_node: weaks.len() as f64 / inner.max(1) as f64,
        })
    }

    pub(crate) fn argument(&self, device: &Context, fixed: &FixedTables) -> Forest {
        let stream = &device.stream;
        let [hard_right, hard_left, soft] = self.thresholds;
        Forest {
            nodes: self.nodes.device_ptr(stream).0,
            weaks: self.weaks.device_ptr(stream).0,
            roots: self.roots.device_ptr(stream).0,
            minor: fixed.minor.device_ptr(stream).0,
            ln: fixed.ln.device_ptr(stream).0,
            trees: self.trees as u32,
            depth: self.depth as u32,
            hard_right,
            hard_left,
            soft,
            _unused: 0,
        }
    }
}

/// A threshold as a comparison, anything else by its bins.
fn device_weak(weak: &Weak, [what, how]: [u32; 2]) -> DeviceWeak {
    let threshold = weak.as_threshold();
    DeviceWeak {
        what,
        how: if threshold.is_some() { how } else { how | HISTOGRAM },
        first: threshold.map_or(0, |t| t.first),
        above: threshold.map_or(0, |t| if t.above { weak.alpha } else { -weak.alpha }),
        votes: weak.votes,
        multiplier: weak.bounds.multiplier(),
        lo: weak.bounds.lo,
        hi: weak.bounds.hi,
        alpha: weak.alpha,
        _unused: 0,
    }
}

/// Levels of inner nodes.
fn depth(tree: &Tree) -> usize {
    // Children come after their parents.
    let mut depths = vec![0; tree.nodes.len()];
    let mut deepest = 0;
    for (n, node) in tree.nodes.iter().enumerate().filter(|(_, node)| !node.is_leaf()) {
        deepest = deepest.max(depths[n] + 1);
        depths[node.left as usize] = depths[n] + 1;
        depths[node.right as usize] = depths[n] + 1;
    }
    deepest
}

/// Forests that are on the device already, the last used first, each with what tells it from others:
/// training and detection use the same few again and again.
pub(crate) struct Cache<K, D>(Mutex<Vec<(K, Arc<D>)>>);

/// How many stay.
const CACHED: usize = 32;

impl<K, D> Default for Cache<K, D> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K, D> Cache<K, D> {
    /// The forest that `is` it, else a new one.
    pub(crate) fn get(
        &self,
        is: impl Fn(&K) -> bool,
        make: impl FnOnce() -> Result<(K, D), GpuError>,
    ) -> Result<Arc<D>, GpuError> {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(n) = cached.iter().position(|(key, _)| is(key)) {
            cached[..=n].rotate_right(1);
        } else {
            let (key, made) = make()?;
            cached.truncate(CACHED - 1);
            cached.insert(0, (key, Arc::new(made)));
        }
        Ok(cached[0].1.clone())
    }
}

/// Classifiers with their features.
pub(crate) type ClassifierCache<F, D> = Cache<(Classifier, Vec<F>), D>;

impl<F: PartialEq + Clone, D> ClassifierCache<F, D> {
    pub(crate) fn of_classifier(
        &self,
        classifier: &Classifier,
        features: &[F],
        make: impl FnOnce() -> Result<D, GpuError>,
    ) -> Result<Arc<D>, GpuError> {
        self.get(
            |(other, of)| other == classifier && of == features,
            || Ok(((classifier.clone(), features.to_vec()), make()?)),
        )
    }
}
