//! A forest that labels voxels, as its kernels read it.

use crate::device::{Context, GpuError};
use cudarc::driver::{CudaSlice, DeviceRepr};
use pbt_features::BoxMeanFeature;
use pbt_tree::{LEAF, LabelForest, LabelNode, LabelTree, Vote};

const LEFT_LEAF: u32 = 1 << 31;
const RIGHT_LEAF: u32 = 1 << 30;
const ROOT_LEAF: u32 = 1 << 31;

/// What a response is counted in: 32 bits where all of a forest's responses fit.
pub(super) trait Number: Copy + Default {
    const LEAST: i64;
    const MOST: i64;
    fn of(value: i64) -> Self;
}

impl Number for i32 {
    const LEAST: i64 = i32::MIN as i64;
    const MOST: i64 = i32::MAX as i64;

    fn of(value: i64) -> Self {
        value as Self
    }
}

impl Number for i64 {
    const LEAST: i64 = i64::MIN;
    const MOST: i64 = i64::MAX;

    fn of(value: i64) -> Self {
        value
    }
}

/// `Node` of `distributions.cu`.
#[repr(C, align(16))]
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Node<N> {
    what: u32,
    next: u32,
    low: N,
    last: N,
}

// SAFETY: plain numbers in the order and with the sizes of the kernel's structure.
unsafe impl<N: Number> DeviceRepr for Node<N> {}

/// `Tree` of `distributions.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Root {
    root: u32,
    leaves: u32,
}

// SAFETY: as above.
unsafe impl DeviceRepr for Root {}

/// Nodes of all trees.
pub(super) enum Nodes {
    Narrow(CudaSlice<Node<i32>>),
    Wide(CudaSlice<Node<i64>>),
}

/// A forest on the device. Nodes and leaves of all trees are numbered through.
pub struct GpuLabelForest {
    pub(super) features: Vec<BoxMeanFeature>,
    pub(super) nodes: Nodes,
    pub(super) roots: CudaSlice<Root>,
    pub(super) leaves: CudaSlice<u16>,
    pub(super) trees: usize,
    pub(super) classes: usize,
    pub(super) vote: Vote,
}

/// Numbers of a leaf, an even number of them.
pub(super) fn leaf_stride(classes: usize) -> usize {
    classes.next_multiple_of(2)
}

/// The factors of the sums of a feature's boxes, without what they have in common; the second one is
/// 0 where there is one box. And what they have in common, by which responses are divided.
pub(super) fn factors(feature: &BoxMeanFeature) -> ([i64; 2], i64) {
    let Some(second) = feature.second else { return ([1, 0], 1) };
    let (first, second) = (feature.first.voxels(), second.voxels());
    let (mut common, mut rest) = (first, second);
    while rest != 0 {
        (common, rest) = (rest, common % rest);
    }
    ([second / common, first / common], common)
}

/// The least and the last response, divided, that a test takes to the left.
fn bounds<N: Number>(low: i64, high: i64, divisor: i64) -> [N; 2] {
    // The lowest quotient that is not below.
    let up = |value: i64| -(-i128::from(value)).div_euclid(i128::from(divisor));
    let (least, most) = (i128::from(N::LEAST), i128::from(N::MOST));
    let (low, last) = (up(low), up(high) - 1);
    if low > last || low > most || last < least {
        return [N::of(N::MOST), N::of(N::LEAST)];
    }
    [low.max(least), last.min(most)].map(|bound| N::of(bound as i64))
}

/// Children lie in pairs. Those of two inner nodes come first, then those of one, then those of none,
/// so that no room is lost for leaves among nodes, nor for nodes among leaves.
struct Pairs {
    /// Of each node of the tree its place.
    places: Vec<u32>,
    /// The first place of a leaf, and all places.
    first_leaf: usize,
    count: usize,
    /// Places before the first without a node.
    nodes: usize,
}

impl Pairs {
    fn new(tree: &LabelTree) -> Self {
        let is_leaf = |n: u32| tree.nodes[n as usize].feature == LEAF;
        let mut kinds: [Vec<u32>; 3] = Default::default();
        for node in tree.nodes.iter().filter(|node| node.feature != LEAF) {
            let leaves = usize::from(is_leaf(node.next)) + usize::from(is_leaf(node.next + 1));
            kinds[leaves].push(node.next);
        }
        let mut places = vec![0; tree.nodes.len()];
        // The root is the first of a pair by itself.
        for (n, &first) in kinds.iter().flatten().enumerate() {
            for child in 0..2 {
                places[(first + child) as usize] = 2 * (n as u32 + 1) + child;
            }
        }
        let [both, one, none] = kinds.map(|kind| 2 * kind.len());
        let root_is_leaf = is_leaf(0);
        Self {
            places,
            first_leaf: if root_is_leaf { 0 } else { 2 + both },
            count: 2 + both + one + none,
            nodes: 2 + both + one,
        }
    }
}

/// Nodes, roots and leaves of all trees.
fn tables<N: Number>(
    forest: &LabelForest,
    divisors: &[i64],
) -> (Vec<Node<N>>, Vec<Root>, Vec<u16>) {
    let stride = leaf_stride(forest.classes);
    let (mut nodes, mut roots, mut leaves) = (Vec::<Node<N>>::new(), Vec::new(), Vec::new());
    for tree in &forest.trees {
        let pairs = Pairs::new(tree);
        let (first_node, first_leaf) = (nodes.len(), leaves.len() / stride);
        let shift = first_leaf.wrapping_sub(first_node + pairs.first_leaf) as u32;
        nodes.resize(first_node + pairs.nodes, Node::default());
        leaves.resize((first_leaf + pairs.count - pairs.first_leaf) * stride, 0u16);
        let flag = |n: u32, flag: u32| {
            if tree.nodes[n as usize].feature == LEAF { flag } else { 0 }
        };
        for (&LabelNode { feature, next, low, high }, &place) in
            tree.nodes.iter().zip(&pairs.places)
        {
            let place = place as usize;
            if feature == LEAF {
                let at = (first_leaf + place - pairs.first_leaf) * stride;
                let leaf = &tree.leaves[next as usize * forest.classes..][..forest.classes];
                leaves[at..at + forest.classes].copy_from_slice(leaf);
                continue;
            }
            let [low, last] = bounds(low, high, divisors[feature as usize]);
            nodes[first_node + place] = Node {
                what: feature | flag(next, LEFT_LEAF) | flag(next + 1, RIGHT_LEAF),
                next: first_node as u32 + pairs.places[next as usize],
                low,
                last,
            };
        }
        roots.push(Root { root: first_node as u32 | flag(0, ROOT_LEAF), leaves: shift });
    }
    (nodes, roots, leaves)
}

impl GpuLabelForest {
    pub(crate) fn new(device: &Context, forest: &LabelForest) -> Result<Self, GpuError> {
        let divisors: Vec<i64> = forest.features.iter().map(|f| factors(f).1).collect();
        let fits = |(feature, divisor): (&BoxMeanFeature, &i64)| {
            feature.most_response() / divisor <= i64::from(i32::MAX)
        };
        let (nodes, roots, leaves) = if forest.features.iter().zip(&divisors).all(fits) {
            let (nodes, roots, leaves) = tables(forest, &divisors);
            (Nodes::Narrow(device.upload(&nodes)?), roots, leaves)
        } else {
            let (nodes, roots, leaves) = tables(forest, &divisors);
            (Nodes::Wide(device.upload(&nodes)?), roots, leaves)
        };
        Ok(Self {
            features: forest.features.clone(),
            nodes,
            roots: device.upload(&roots)?,
            leaves: device.upload(&leaves)?,
            trees: forest.trees.len(),
            classes: forest.classes,
            vote: forest.vote,
        })
    }

    /// Number of classes.
    pub(crate) fn classes(&self) -> usize {
        self.classes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_features::{BoxMeanPool, MISSING};
    use pbt_volume::Random;

    /// A random tree; leaves are numbered in the order in which they are found.
    fn tree(random: &mut Random, nodes: usize, features: usize) -> LabelTree {
        let leaf = LabelNode { feature: LEAF, next: 0, low: 0, high: 0 };
        let mut tree = LabelTree { nodes: vec![leaf], leaves: Vec::new() };
        let mut open = vec![0];
        while tree.nodes.len() < nodes && !open.is_empty() {
            let n = open.swap_remove(random.below(open.len()));
            let next = tree.nodes.len();
            let (a, b) = (random.below(4000) as i64 - 2000, random.below(4000) as i64 - 2000);
            tree.nodes[n] = LabelNode {
                feature: random.below(features) as u32,
                next: next as u32,
                low: if random.below(3) == 0 { MISSING + 1 } else { a.min(b) },
                high: if random.below(3) == 0 { i64::MAX } else { a.max(b) },
            };
            tree.nodes.extend([leaf; 2]);
            open.extend([next, next + 1]);
        }
        let leaves = tree.nodes.iter_mut().filter(|node| node.feature == LEAF);
        for (number, node) in (0..).zip(leaves) {
            node.next = number;
            tree.leaves.extend([number as u16, 7, 9]);
        }
        tree
    }

    /// The leaf as the kernel finds it.
    fn walk<N: Number + PartialOrd>(
        (nodes, root, leaves): (&[Node<N>], Root, &[u16]),
        response: impl Fn(u32) -> Option<i64>,
    ) -> u16 {
        let (mut at, mut is_leaf) = (root.root & !ROOT_LEAF, root.root & ROOT_LEAF != 0);
        while !is_leaf {
            let node = nodes[at as usize];
            let found = response(node.what & !(LEFT_LEAF | RIGHT_LEAF)).map(N::of);
            let left = found.is_some_and(|found| node.low <= found && found <= node.last);
            at = node.next + u32::from(!left);
            is_leaf = node.what & if left { LEFT_LEAF } else { RIGHT_LEAF } != 0;
        }
        leaves[at.wrapping_add(root.leaves) as usize * leaf_stride(3)]
    }

    #[test]
    fn tables_lead_where_the_trees_do() {
        let mut random = Random::from_seed(7);
        let divisors = [1, 2, 3, 7, 12];
        for sizes in [[1, 3, 5], [40, 1, 200], [3, 400, 1]] {
            let trees: Vec<LabelTree> =
                sizes.into_iter().map(|nodes| tree(&mut random, nodes, 5)).collect();
            let forest = LabelForest { classes: 3, vote: Vote::Mean, features: Vec::new(), trees };
            let (narrow, roots, leaves) = tables::<i32>(&forest, &divisors);
            let (wide, wide_roots, wide_leaves) = tables::<i64>(&forest, &divisors);
            assert_eq!((&roots, &leaves), (&wide_roots, &wide_leaves));
            for _ in 0..300 {
                let quotients: Vec<Option<i64>> = (0..5)
                    .map(|_| (random.below(9) > 0).then(|| random.below(5000) as i64 - 2500))
                    .collect();
                for (tree, &root) in forest.trees.iter().zip(&roots) {
                    let whole = |f: u32| {
                        quotients[f as usize].map_or(MISSING, |q| q * divisors[f as usize])
                    };
                    let expected = tree.leaf(whole) as u16;
                    let quotient = |f: u32| quotients[f as usize];
                    assert_eq!(walk((&narrow, root, &leaves), quotient), expected);
                    assert_eq!(walk((&wide, root, &leaves), quotient), expected);
                }
            }
        }
    }

    #[test]
    fn bounds_of_quotients_are_those_of_responses() {
        for divisor in [1, 2, 5, 12] {
            for low in -30..30 {
                for high in [low - 1, low, low + 1, low + 7, 31] {
                    let [least, last] = bounds::<i32>(low, high, divisor);
                    for quotient in -40..40 {
                        let response = i64::from(quotient) * divisor;
                        let expected = low <= response && response < high;
                        assert_eq!(least <= quotient && quotient <= last, expected);
                    }
                }
            }
        }
        assert_eq!(bounds::<i32>(i64::MIN + 1, i64::MAX, 3), [i32::MIN, i32::MAX]);
        assert_eq!(bounds::<i64>(i64::MIN + 1, i64::MAX, 1), [i64::MIN + 1, i64::MAX - 1]);
        assert_eq!(bounds::<i32>(1 << 40, i64::MAX, 3), [i32::MAX, i32::MIN]);
        assert_eq!(bounds::<i32>(i64::MIN + 1, -(1 << 40), 3), [i32::MAX, i32::MIN]);
    }

    #[test]
    fn divided_responses_are_whole() {
        let mut random = Random::from_seed(1);
        let pool = BoxMeanPool { radius: 9.0, edge: 9.0, channels: 2 };
        for feature in pool.features(300, &mut random) {
            let ([first, second], divisor) = factors(&feature);
            let counts = [Some(feature.first), feature.second].map(|b| b.map_or(0, |b| b.voxels()));
            if feature.second.is_some() {
                assert_eq!([second * divisor, first * divisor], counts);
            } else {
                assert_eq!(([first, second], divisor), ([1, 0], 1));
            }
        }
    }
}
