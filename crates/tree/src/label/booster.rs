//! What a device computes for boosted trees that label voxels: a tree a call, so that the host's
//! answers are the reference of every other device.

use crate::device_error::DeviceError;
use crate::label::forest::LEAF;
use crate::label::matrix::LabelMatrix;

/// What a boosted tree grows on.
#[derive(Debug, Clone, Copy)]
pub struct TreeTask<'a> {
    /// The features that it looks at, rising.
    pub features: &'a [u32],
    /// The samples, each once.
    pub samples: &'a [u32],
    /// Largest number of levels of inner nodes.
    pub depth: usize,
    /// Fewest samples on either side of a split.
    pub min_leaf: u32,
    /// Added to the sum of curvatures.
    pub ridge: f64,
}

/// A test on a feature's bin: up to and with the bin `last` samples go left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeTest {
    /// The feature.
    pub feature: u32,
    /// The last bin on the left.
    pub last: u8,
}

/// A node of a tree that has grown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrownNode {
    /// Gradients and curvatures of its samples, summed, `[class − 1][2]` in units of 2⁻¹⁴.
    pub sums: Vec<i64>,
    /// Its test; a leaf has none.
    pub test: Option<NodeTest>,
}

/// A node of a [`BinTree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinNode {
    /// The feature; [`LEAF`] of a leaf.
    pub feature: u32,
    /// The left child, before the right one, or the leaf's number.
    pub next: u32,
    /// The last bin on the left.
    pub last: u8,
}

/// A boosted tree that asks for bins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BinTree {
    /// The root first.
    pub nodes: Vec<BinNode>,
    /// What is added to the scores, `[leaf][class − 1]`, 11 fractional bits, nats.
    pub steps: Vec<i32>,
}

impl BinTree {
    /// The leaf that a sample with these bins arrives at.
    #[inline]
    pub(crate) fn leaf(&self, bin: impl Fn(u32) -> u8) -> usize {
        let mut at = 0;
        loop {
            let node = &self.nodes[at];
            if node.feature == LEAF {
                return node.next as usize;
            }
            at = node.next as usize + usize::from(bin(node.feature) > node.last);
        }
    }
}

/// A device that grows boosted trees, one after the other.
pub trait LabelBooster: Sync {
    /// A matrix with the scores of its samples.
    type Boosting<'a>: Send;

    /// Makes a matrix ready. All samples start with the scores `start`, one a class but the
    /// background, 11 fractional bits, nats.
    ///
    /// # Errors
    /// [`DeviceError`] when the device fails or its memory is full.
    fn boosting<'a>(
        &self,
        matrix: &'a LabelMatrix,
        start: &[i32],
    ) -> Result<Self::Boosting<'a>, DeviceError>;

    /// Grows a tree on the slopes of the loss at the scores so far, level by level: the nodes of a
    /// level are the children of those of the level before that have a test, pair by pair. A node
    /// has the test by which the loss falls most, of equals that on the lower feature, then the one
    /// that ends lower; none where that leaves too few samples on a side or gains nothing.
    ///
    /// # Errors
    /// [`DeviceError`] when the device fails or its memory is full.
    fn grow(
        &self,
        boosting: &mut Self::Boosting<'_>,
        task: &TreeTask<'_>,
    ) -> Result<Vec<Vec<GrownNode>>, DeviceError>;

    /// Adds the steps of a tree to the scores of all samples.
    ///
    /// # Errors
    /// [`DeviceError`] when the device fails or its memory is full.
    fn add(&self, boosting: &mut Self::Boosting<'_>, tree: &BinTree) -> Result<(), DeviceError>;
}
