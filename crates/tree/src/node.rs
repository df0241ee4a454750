//! The tables of a tree, and the checks that make them safe to walk.

use crate::weak::Weak;
use serde::{Deserialize, Serialize};

/// Most levels of inner nodes on a path, so that evaluation needs no heap.
pub const MAX_DEPTH: usize = 24;
/// Largest sum of the alphas of a node: margins then fit an `i32` with room to spare.
pub const MAX_ALPHA_SUM: i64 = 1 << 30;

/// A node: an inner one with a strong classifier and two children, or a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Node {
    /// Index of the first weak classifier.
    pub first_weak: u32,
    /// Number of weak classifiers; 0 makes a leaf.
    pub weak_count: u32,
    /// Index of the child for negatives; 0 in a leaf.
    pub left: u32,
    /// Index of the child for positives; 0 in a leaf.
    pub right: u32,
    /// Empirical q_N(+1) of the training samples that reach the node, in units of 2⁻³²; never 0.
    pub positive: u32,
}

impl Node {
    /// Whether the node has no children.
    pub fn is_leaf(&self) -> bool {
        self.weak_count == 0
    }

    /// The child on one side, right or left, and the other one.
    pub(crate) fn children(&self, right: bool) -> (u32, u32) {
        if right { (self.right, self.left) } else { (self.left, self.right) }
    }
}

/// A tree: nodes, the root first, every child after its parent; and the weak classifiers of all
/// nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tree {
    /// The nodes; the first is the root.
    pub nodes: Vec<Node>,
    /// The weak classifiers; each node owns a run of them.
    pub weaks: Vec<Weak>,
}

/// What is wrong with a tree's tables.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// There is no root.
    #[error("the tree has no nodes")]
    Empty,
    /// A child does not come after its parent, or is not there.
    #[error(
        "node {node}: child {child} must lie after its parent and below the node count {count}"
    )]
    Child {
        /// The parent.
        node: usize,
        /// The child.
        child: u32,
        /// Number of nodes.
        count: usize,
    },
    /// A leaf has children.
    #[error("node {0}: a leaf has children")]
    LeafWithChildren(usize),
    /// A node has no parent or several.
    #[error("node {node}: {parents} parents (one is needed)")]
    Parents {
        /// The node.
        node: usize,
        /// How many parents it has.
        parents: usize,
    },
    /// A path is too long.
    #[error("node {0}: deeper than {MAX_DEPTH} levels")]
    TooDeep(usize),
    /// A node's weak classifiers are not in the table.
    #[error("node {0}: its weak classifiers lie outside the table")]
    WeakRange(usize),
    /// A node's alphas could overflow a margin.
    #[error("node {0}: the sum of its alphas is too large")]
    AlphaSum(usize),
    /// The empirical probability of a node is zero.
    #[error("node {0}: its empirical probability is 0")]
    Probability(usize),
    /// A weak classifier asks for a feature that there is not.
    #[error("weak classifier {weak}: feature {feature} of {count}")]
    Feature {
        /// The weak classifier.
        weak: usize,
        /// The feature it asks for.
        feature: u32,
        /// Number of features.
        count: usize,
    },
    /// The bounds of a weak classifier are empty.
    #[error("weak classifier {0}: its bounds are empty")]
    Bounds(usize),
    /// The weight of a weak classifier is negative.
    #[error("weak classifier {0}: its alpha is negative")]
    Alpha(usize),
}

impl Tree {
    /// A tree of one leaf with the probability `positive` (units of 2⁻³², not 0).
    pub fn leaf(positive: u32) -> Self {
        Self {
            nodes: vec![Node { first_weak: 0, weak_count: 0, left: 0, right: 0, positive }],
            weaks: Vec::new(),
        }
    }

    /// The weak classifiers of a node of this tree.
    pub fn weaks_of(&self, node: &Node) -> &[Weak] {
        &self.weaks[node.first_weak as usize..][..node.weak_count as usize]
    }

    /// The margin H = Σ α·h of a node of this tree, in units of 2⁻¹⁶, for the sample whose
    /// responses `respond` gives by feature.
    pub(crate) fn margin(&self, node: &Node, respond: &mut impl FnMut(u32) -> i32) -> i32 {
        self.weaks_of(node).iter().map(|weak| weak.signed_alpha(respond(weak.feature))).sum()
    }

    /// Checks everything that evaluation relies on; a tree from a file must pass before it is used.
    ///
    /// # Errors
    /// The first [`TreeError`] that is found.
    pub fn validate(&self, feature_count: usize) -> Result<(), TreeError> {
        let count = self.nodes.len();
        if count == 0 {
            return Err(TreeError::Empty);
        }
        for (i, weak) in self.weaks.iter().enumerate() {
            if weak.feature as usize >= feature_count {
                return Err(TreeError::Feature {
                    weak: i,
                    feature: weak.feature,
                    count: feature_count,
                });
            }
            if weak.bounds.lo >= weak.bounds.hi {
                return Err(TreeError::Bounds(i));
            }
            if weak.alpha < 0 {
                return Err(TreeError::Alpha(i));
            }
        }
        let mut parents = vec![0usize; count];
        let mut depth = vec![0usize; count];
        for (i, node) in self.nodes.iter().enumerate() {
            if node.positive == 0 {
                return Err(TreeError::Probability(i));
            }
            let end = node.first_weak as usize + node.weak_count as usize;
            if end > self.weaks.len() {
                return Err(TreeError::WeakRange(i));
            }
            if node.is_leaf() {
                if node.left != 0 || node.right != 0 {
                    return Err(TreeError::LeafWithChildren(i));
                }
                continue;
            }
            if self.weaks_of(node).iter().map(|w| w.alpha as i64).sum::<i64>() > MAX_ALPHA_SUM {
                return Err(TreeError::AlphaSum(i));
            }
            for child in [node.left, node.right] {
                let c = child as usize;
                if c <= i || c >= count {
                    return Err(TreeError::Child { node: i, child, count });
                }
                parents[c] += 1;
                depth[c] = depth[i] + 1;
                if depth[c] > MAX_DEPTH {
                    return Err(TreeError::TooDeep(c));
                }
            }
        }
        match (1..count).find(|&i| parents[i] != 1) {
            Some(node) => Err(TreeError::Parents { node, parents: parents[node] }),
            None => Ok(()),
        }
    }
}

/// Renumbers the features of `trees` to those that are used, and returns these: entry `i` is the
/// old id of the new feature `i`, rising.
pub fn used_features(trees: &mut [Tree]) -> Vec<u32> {
    let mut used: Vec<u32> =
        trees.iter().flat_map(|tree| tree.weaks.iter().map(|w| w.feature)).collect();
    used.sort_unstable();
    used.dedup();
    for weak in trees.iter_mut().flat_map(|tree| &mut tree.weaks) {
        weak.feature = used.partition_point(|&f| f < weak.feature) as u32;
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bins::Bounds;

    fn weak(feature: u32) -> Weak {
        Weak { feature, bounds: Bounds::new(0, 10), votes: 1, alpha: 100 }
    }

    /// A root with two leaves.
    fn stump() -> Tree {
        let leaf = Node { first_weak: 0, weak_count: 0, left: 0, right: 0, positive: 7 };
        Tree {
            nodes: vec![
                Node { first_weak: 0, weak_count: 2, left: 1, right: 2, positive: 9 },
                leaf,
                leaf,
            ],
            weaks: vec![weak(3), weak(1)],
        }
    }

    #[test]
    fn good_trees_pass() {
        assert_eq!(stump().validate(4), Ok(()));
        assert_eq!(Tree::leaf(1).validate(0), Ok(()));
    }

    #[test]
    fn each_fault_has_its_error() {
        let broken = |change: fn(&mut Tree)| {
            let mut tree = stump();
            change(&mut tree);
            tree.validate(4).expect_err("a broken tree")
        };
        assert_eq!(broken(|t| t.nodes.clear()), TreeError::Empty);
        assert_eq!(
            broken(|t| t.nodes[0].left = 0),
            TreeError::Child { node: 0, child: 0, count: 3 }
        );
        assert_eq!(
            broken(|t| t.nodes[0].right = 3),
            TreeError::Child { node: 0, child: 3, count: 3 }
        );
        assert_eq!(broken(|t| t.nodes[0].left = 2), TreeError::Parents { node: 1, parents: 0 });
        assert_eq!(
            broken(|t| t.nodes.push(t.nodes[1])),
            TreeError::Parents { node: 3, parents: 0 }
        );
        assert_eq!(broken(|t| t.nodes[1].left = 2), TreeError::LeafWithChildren(1));
        assert_eq!(broken(|t| t.nodes[0].weak_count = 3), TreeError::WeakRange(0));
        assert_eq!(broken(|t| t.nodes[2].first_weak = 3), TreeError::WeakRange(2));
        assert_eq!(broken(|t| t.nodes[2].positive = 0), TreeError::Probability(2));
        assert_eq!(
            broken(|t| t.weaks[1].feature = 4),
            TreeError::Feature { weak: 1, feature: 4, count: 4 }
        );
        assert_eq!(broken(|t| t.weaks[0].bounds.hi = 0), TreeError::Bounds(0));
        assert_eq!(broken(|t| t.weaks[1].alpha = -1), TreeError::Alpha(1));
        assert_eq!(
            broken(|t| t.weaks.iter_mut().for_each(|w| w.alpha = i32::MAX)),
            TreeError::AlphaSum(0)
        );
    }

    #[test]
    fn a_chain_may_not_be_too_deep() {
        let chain = |levels: u32| {
            let inner = |i: u32| Node {
                first_weak: 0,
                weak_count: 1,
                left: 2 * i + 1,
                right: 2 * i + 2,
                positive: 1,
            };
            let leaf = Node { first_weak: 0, weak_count: 0, left: 0, right: 0, positive: 1 };
            // Every second node goes on: 0 → (1, 2), 2 → (3, 4), …
            let mut nodes = vec![leaf];
            for level in 0..levels {
                *nodes.last_mut().expect("a root") = inner(level);
                nodes.extend([leaf, leaf]);
            }
            Tree { nodes, weaks: vec![weak(0)] }
        };
        assert_eq!(chain(MAX_DEPTH as u32).validate(1), Ok(()));
        assert!(matches!(chain(MAX_DEPTH as u32 + 1).validate(1), Err(TreeError::TooDeep(_))));
    }

    #[test]
    fn features_are_renumbered() {
        let mut trees = [stump(), Tree { weaks: vec![weak(8), weak(3)], ..stump() }];
        assert_eq!(used_features(&mut trees), [1, 3, 8]);
        assert_eq!(
            trees.map(|t| t.weaks.iter().map(|w| w.feature).collect::<Vec<_>>()),
            [[1, 0], [2, 1]]
        );
    }
}
