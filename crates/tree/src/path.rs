//! The way of one sample through a tree: for those who ask why it got its score.

use crate::branch::Branch;
use crate::fixed::{MASS_ONE, minor_probability};
use crate::node::Tree;
use crate::posterior::Evaluator;

/// A node on the way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathStep {
    /// Its index in the tree.
    pub node: usize,
    /// H = Σ α·h in units of 2⁻¹⁶; 0 in a leaf.
    pub margin: i32,
    /// q̂(+1) = 1/(1 + e^(−2H)) by its strong classifier; in a leaf the empirical one.
    pub probability: f64,
    /// Empirical q(+1) of the training samples that reached it.
    pub empirical: f64,
    /// Where the sample goes.
    pub branch: Branch,
}

impl Evaluator {
    /// The way that a hard tree would send a sample, from the root to a leaf: where the tree is
    /// soft, the likelier child goes on. `respond` gives the sample's responses by feature; the
    /// tree must be valid.
    pub fn path(&self, tree: &Tree, respond: &mut impl FnMut(u32) -> i32) -> Vec<PathStep> {
        let mut path = Vec::new();
        let mut place = 0;
        loop {
            let node = &tree.nodes[place];
            let empirical = f64::from(node.positive) / 2f64.powi(32);
            if node.is_leaf() {
                path.push(PathStep {
                    node: place,
                    margin: 0,
                    probability: empirical,
                    empirical,
                    branch: Branch::Leaf,
                });
                return path;
            }
            let margin = tree.margin(node, respond);
            let minor = minor_probability(margin) as f64 / MASS_ONE as f64;
            let branch = self.branch(margin);
            let probability = if margin >= 0 { 1.0 - minor } else { minor };
            path.push(PathStep { node: place, margin, probability, empirical, branch });
            place = if margin >= 0 { node.right } else { node.left } as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bins::Bounds;
    use crate::node::Node;
    use crate::posterior::EvalParams;
    use crate::weak::Weak;
    use approx::assert_abs_diff_eq;

    /// A complete tree of depth 3; each inner node has one weak classifier, a threshold at 0 of a
    /// feature of its own.
    fn tree(alpha: i32) -> Tree {
        let weak =
            |feature: u32| Weak { feature, bounds: Bounds::new(-32, 31), votes: !0 << 32, alpha };
        let node = |n: u32| {
            let inner = n < 7;
            let (left, right) = if inner { (2 * n + 1, 2 * n + 2) } else { (0, 0) };
            Node {
                first_weak: n.min(6),
                weak_count: u32::from(inner),
                left,
                right,
                positive: (n + 1) << 27,
            }
        };
        Tree { nodes: (0..15).map(node).collect(), weaks: (0..7).map(weak).collect() }
    }

    #[test]
    fn the_way_is_that_of_a_hard_tree_and_its_margins_are_those_of_the_score() {
        for (alpha, params) in [
            (65536, EvalParams::HARD),
            (65536, EvalParams::default()),
            (6000, EvalParams::default()),
        ] {
            let (tree, evaluator) = (tree(alpha), Evaluator::new(params));
            assert_eq!(tree.validate(7), Ok(()));
            for sample in 0..8u32 {
                // Bit n of the sample says which side level n takes.
                let mut respond =
                    |feature: u32| if sample >> (feature + 1).ilog2() & 1 == 1 { 5 } else { -5 };
                let path = evaluator.path(&tree, &mut respond);
                let leaf =
                    (0..3).fold(0, |node, level| 2 * node + 1 + (sample >> level & 1) as usize);
                assert_eq!((path.len(), path[3].node, path[3].branch), (4, leaf, Branch::Leaf));
                let masses = evaluator.masses(&tree, &mut respond);
                assert_eq!(
                    path.iter().map(|step| i64::from(step.margin)).sum::<i64>(),
                    masses.margin
                );
                if params == EvalParams::HARD {
                    assert_abs_diff_eq!(
                        masses.score().posterior(),
                        path[3].empirical,
                        epsilon = 1e-5
                    );
                }
            }
        }
    }

    #[test]
    fn probabilities_are_those_of_the_margins() {
        let step = Evaluator::new(EvalParams::default()).path(&tree(65536), &mut |_| -5)[0];
        assert_abs_diff_eq!(step.probability, 1.0 / (1.0 + 2f64.exp()), epsilon = 1e-6);
        assert_eq!((step.margin, step.branch), (-65536, Branch::MostlyLeft));
        assert_abs_diff_eq!(step.empirical, 1.0 / 32.0, epsilon = 1e-12);
    }
}
