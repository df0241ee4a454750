//! Hard forests with one threshold a node, as random forests are: scored by a path a tree.

use crate::constants::{BOXES_BITS, PLANE_GAP};
use crate::device::{Context, GpuError, launch, module};
use crate::forest::Forest;
use crate::integral::Integral;
use crate::tiles::{Blocks, Reach, scoring_kernel, scoring_shared};
use cudarc::driver::{CudaFunction, CudaSlice, DeviceRepr, LaunchConfig};
use pbt_features::{Cuboid, HaarFeature};
use pbt_tree::{Classifier, Tree};

/// Edge lengths of blocks of voxels, as powers of two, the most wanted first; a thread a voxel.
const BLOCK_BITS: [[i32; 3]; 2] = [[5, 3, 2], [5, 2, 2]];

/// The kernel of `paths.cu`.
pub(crate) struct PathsKernels {
    score: CudaFunction,
}

/// `Fork` of `paths.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Fork {
    boxes: u32,
    first: i32,
    above: i32,
    left: u32,
}

// SAFETY: plain numbers in the order and with the sizes of the kernel's structure.
unsafe impl DeviceRepr for Fork {}

/// A leaf; its positive part is set later.
const LEAF: Fork = Fork { boxes: 0, first: 0, above: 0, left: 0 };

/// A box of a feature, packed: low corner and first edge, a byte each, then the other edges and the
/// weight (16 bits).
fn packed(cuboid: &Cuboid) -> [u32; 2] {
    let Cuboid { min, size, weight } = *cuboid;
    let [low, high] = weight.to_le_bytes();
    let corner = min.map(|v| v.to_le_bytes()[0]);
    [
        u32::from_le_bytes([corner[0], corner[1], corner[2], size[0]]),
        u32::from_le_bytes([size[1], size[2], low, high]),
    ]
}

/// Where a feature's boxes lie.
#[derive(Debug, Clone, Copy)]
struct Boxes {
    first: u32,
    count: u32,
}

/// The nodes of hard trees with one threshold each.
pub(crate) struct Forks {
    /// The boxes of all features, an even number.
    boxes: CudaSlice<[u32; 2]>,
    box_count: usize,
    nodes: CudaSlice<Fork>,
    /// The first node of each tree, and the end of the last.
    roots: CudaSlice<u32>,
    /// Nodes of the largest tree.
    most_nodes: usize,
}

impl Forks {
    /// `None` for classifiers of another kind.
    pub(crate) fn new(
        device: &Context,
        classifier: &Classifier,
        features: &[HaarFeature],
    ) -> Result<Option<Self>, GpuError> {
        let (mut boxes, mut places) = (Vec::new(), Vec::with_capacity(features.len()));
        for feature in features {
            let first = boxes.len();
            boxes.extend(feature.cuboids().map(packed));
            places.push(Boxes { first: first as u32, count: (boxes.len() - first) as u32 });
        }
        boxes.resize(boxes.len().next_multiple_of(2), [0; 2]);
        // Every margin decides for one side.
        let hard = classifier.eval.hard_left.checked_add(1) == Some(classifier.eval.hard_right);
        let Some(trees) = hard
            .then(|| {
                classifier.trees.iter().map(|tree| forks(tree, &places)).collect::<Option<Vec<_>>>()
            })
            .flatten()
        else {
            return Ok(None);
        };
        let mut roots = vec![0];
        for tree in &trees {
            roots.push(roots[roots.len() - 1] + tree.len() as u32);
        }
        let most_nodes = trees.iter().map(Vec::len).max().unwrap_or(0);
        Ok(Some(Self {
            box_count: boxes.len(),
            boxes: device.upload(&boxes)?,
            nodes: device.upload(&trees.concat())?,
            roots: device.upload(&roots)?,
            most_nodes,
        }))
    }
}

/// The nodes of a tree with children side by side; `None` where a node has not exactly one weak
/// classifier, a threshold.
fn forks(tree: &Tree, places: &[Boxes]) -> Option<Vec<Fork>> {
    let mut forks = vec![LEAF];
    // Nodes of the tree with their places here.
    let mut open = vec![(0usize, 0usize)];
    while let Some((number, place)) = open.pop() {
        let node = &tree.nodes[number];
        forks[place].first = node.positive as i32;
        if node.is_leaf() {
            continue;
        }
        let [weak] = tree.weaks_of(node) else { return None };
        let (threshold, Boxes { first, count }) =
            (weak.as_threshold()?, places[weak.feature as usize]);
        // A feature without boxes would look like a leaf.
        if first >> BOXES_BITS != 0 || count == 0 {
            return None;
        }
        let left = forks.len();
        forks[place] = Fork {
            boxes: first | count << BOXES_BITS,
            first: threshold.first,
            above: if threshold.above { weak.alpha } else { -weak.alpha },
            left: left as u32,
        };
        forks.extend([LEAF; 2]);
        open.extend([(node.left as usize, left), (node.right as usize, left + 1)]);
    }
    Some(forks)
}

impl PathsKernels {
    pub(crate) fn load(device: &Context) -> Result<Self, GpuError> {
        let module = module!(device, "paths")?;
        Ok(Self { score: scoring_kernel(device, &module, "paths_score")? })
    }

    /// Scores of all voxels; `None` where tile, boxes and a tree do not fit into shared memory
    /// together. `argument` is the same forest.
    pub(crate) fn score(
        &self,
        device: &Context,
        integral: &Integral,
        forks: &Forks,
        argument: &Forest,
        reach: &Reach,
    ) -> Result<Option<CudaSlice<i64>>, GpuError> {
        let beside = size_of::<[u32; 2]>() * forks.box_count + size_of::<Fork>() * forks.most_nodes;
        let shared = |blocks: &Blocks| {
            Some(blocks.tile_bytes(reach, PLANE_GAP)? + beside)
                .filter(|&bytes| bytes <= scoring_shared(device))
        };
        let mut candidates =
            BLOCK_BITS.iter().map(|&bits| Blocks::new(integral.shape, bits, reach));
        let Some((blocks, shared_bytes)) = candidates.find_map(|b| Some((b, shared(&b)?))) else {
            return Ok(None);
        };
        let table = integral.device_table(device);
        // SAFETY: the kernel writes one a voxel.
        let mut scores = unsafe { device.alloc::<i64>(integral.shape.iter().product()) }?;
        let (kernel, threads) = (&self.score, blocks.capacity() as u32);
        let grid =
            device.resident_blocks(kernel, threads, shared_bytes)?.min(blocks.count()).max(1);
        let config = LaunchConfig {
            grid_dim: (grid as u32, 1, 1),
            block_dim: (threads, 1, 1),
            shared_mem_bytes: shared_bytes as u32,
        };
        let (box_words, tile_words) =
            (2 * forks.box_count as u32, ((shared_bytes - beside) / size_of::<u32>()) as u32);
        let Forks { nodes, roots, boxes, .. } = forks;
        launch!(
            device,
            kernel,
            config,
            argument,
            nodes,
            roots,
            &table,
            &blocks,
            boxes,
            &box_words,
            &tile_words,
            &mut scores
        )?;
        Ok(Some(scores))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_tree::{Bounds, Node, Weak};

    #[test]
    fn children_lie_side_by_side_and_leaves_have_no_boxes() {
        let leaf = |positive| Node { first_weak: 0, weak_count: 0, left: 0, right: 0, positive };
        let inner =
            |first_weak, left, right| Node { first_weak, weak_count: 1, left, right, positive: 9 };
        let weak = |feature, votes| Weak { feature, bounds: Bounds::new(0, 63), votes, alpha: 5 };
        let tree = Tree {
            nodes: vec![inner(0, 1, 4), inner(1, 2, 3), leaf(10), leaf(u32::MAX), leaf(12)],
            weaks: vec![weak(1, !0 << 32), weak(0, !(!0 << 8))],
        };
        let places = [Boxes { first: 0, count: 3 }, Boxes { first: 3, count: 2 }];
        let forks = forks(&tree, &places).expect("thresholds");
        assert_eq!(forks.len(), tree.nodes.len());
        let (root, left) = (forks[0], forks[forks[0].left as usize]);
        assert_eq!((root.boxes, root.above), (3 | 2 << BOXES_BITS, 5));
        assert_eq!((left.boxes, left.above), (3 << BOXES_BITS, -5));
        let leaves = [left.left, left.left + 1, root.left + 1].map(|n| forks[n as usize]);
        assert_eq!(leaves.map(|f| (f.boxes, f.first as u32)), [(0, 10), (0, u32::MAX), (0, 12)]);
        // Bins that vote as no threshold does, and nodes with two weak classifiers, are for other
        // ways.
        let mut other = tree.clone();
        other.weaks[0].votes = 0b101;
        assert!(super::forks(&other, &places).is_none());
        let mut other = tree;
        other.nodes[0].weak_count = 2;
        assert!(super::forks(&other, &places).is_none());
    }
}
