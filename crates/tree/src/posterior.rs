//! The posterior of a tree for one sample: algorithm 2 of the patent with its slip corrected, in
//! fixed point.
//!
//! Masses of both classes are kept apart, so that their ratio stays precise where the posterior is
//! close to 0 or 1. A path's weight is split between the two sides of a node without loss: the less
//! likely side gets its rounded product, the other one the rest.

use crate::branch::Other;
use crate::fixed::{MASS_ONE, margin_of_probability};
use crate::masses::Masses;
use crate::node::{MAX_DEPTH, Tree};
use serde::{Deserialize, Serialize};

/// Where a tree is descended on one side only. `e1` = ½ makes a hard tree.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EvalParams {
    /// A node's probability above 1 − e1 or below e1 sends the whole weight to one side. From 0 to
    /// ½.
    pub e1: f64,
    /// Outside ½ ± e2 only the likelier side is descended, and the other side's empirical
    /// distribution stands for it. From 0 to ½.
    pub e2: f64,
}

impl Default for EvalParams {
    /// The patent's: 10⁻⁶ and 0.1.
    fn default() -> Self {
        Self { e1: 1e-6, e2: 0.1 }
    }
}

impl EvalParams {
    /// A tree whose nodes send every sample to one side.
    pub const HARD: Self = Self { e1: 0.5, e2: 0.1 };

    /// Whether both numbers lie between 0 and ½.
    pub fn is_valid(&self) -> bool {
        (0.0..=0.5).contains(&self.e1) && (0.0..=0.5).contains(&self.e2)
    }
}

/// [`EvalParams`] as thresholds of the margin, in units of 2⁻¹⁶.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "EvalParams", into = "EvalParams")]
pub struct Evaluator {
    params: EvalParams,
    /// A margin at or above: right only.
    pub hard_right: i32,
    /// A margin at or below: left only.
    pub hard_left: i32,
    /// A margin above: right, and the left child's empirical distribution; below its negative: the
    /// mirror image.
    pub soft: i32,
}

/// A subtree that waits on the stack.
#[derive(Clone, Copy, Default)]
struct Visit {
    node: u32,
    /// Whether a hard tree would come here.
    dominant: bool,
    weight: u64,
}

impl From<EvalParams> for Evaluator {
    fn from(params: EvalParams) -> Self {
        Self::new(params)
    }
}

impl From<Evaluator> for EvalParams {
    fn from(evaluator: Evaluator) -> Self {
        evaluator.params
    }
}

impl Evaluator {
    /// Thresholds for the given parameters, which are brought into [0, ½] where they lie outside
    /// (see [`EvalParams::is_valid`]).
    pub fn new(params: EvalParams) -> Self {
        let params = EvalParams { e1: params.e1.clamp(0.0, 0.5), e2: params.e2.clamp(0.0, 0.5) };
        let hard = margin_of_probability(1.0 - params.e1);
        let soft = margin_of_probability(0.5 + params.e2);
        // A zero margin goes right in a hard tree; elsewhere the comparison with 1 − e1 is strict.
        Self {
            params,
            hard_right: if hard == 0 { 0 } else { hard.saturating_add(1) },
            hard_left: (-hard).saturating_sub(1),
            soft,
        }
    }

    /// The parameters.
    pub fn params(&self) -> EvalParams {
        self.params
    }

    /// The masses of a tree for the sample whose responses `respond` gives by feature. The tree
    /// must be valid.
    pub fn masses(&self, tree: &Tree, respond: &mut impl FnMut(u32) -> i32) -> Masses {
        let mut total = Masses::default();
        // Depth first: a visited node leaves the stack and brings at most two, so a level needs one
        // place and the last one two.
        let mut stack = [Visit::default(); MAX_DEPTH + 2];
        stack[0] = Visit { node: 0, dominant: true, weight: MASS_ONE };
        let mut waiting = 1;
        while waiting > 0 {
            waiting -= 1;
            let Visit { node, dominant, weight } = stack[waiting];
            let node = &tree.nodes[node as usize];
            if node.is_leaf() {
                total.add(weight, node);
                continue;
            }
            let margin = tree.margin(node, respond);
            if dominant {
                total.margin += margin as i64;
            }
            let shares = self.shares(margin, weight);
            let (likelier, other) = node.children(shares.right);
            let mut push = |node: u32, dominant: bool, weight: u64| {
                stack[waiting] = Visit { node, dominant, weight };
                waiting += 1;
            };
            match shares.other {
                Other::Nothing => {}
                Other::Settled(minor) => total.add(minor, &tree.nodes[other as usize]),
                Other::Visited(minor) => push(other, false, minor),
            }
            push(likelier, dominant, shares.likelier);
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bins::Bounds;
    use crate::node::Node;
    use crate::weak::Weak;
    use approx::assert_abs_diff_eq;
    use proptest::prelude::*;

    const SCALE: f64 = 65536.0;

    /// Algorithm 1 of the patent in floating point: the posterior of the subtree of a node.
    fn recursive(tree: &Tree, index: u32, params: EvalParams, responses: &[i32]) -> f64 {
        let node = &tree.nodes[index as usize];
        let q = |child: u32| tree.nodes[child as usize].positive as f64 / 2f64.powi(32);
        if node.is_leaf() {
            return q(index);
        }
        let h = tree
            .weaks_of(node)
            .iter()
            .map(|w| w.signed_alpha(responses[w.feature as usize]) as f64 / SCALE)
            .sum::<f64>();
        let p = 1.0 / (1.0 + (-2.0 * h).exp());
        if p > 1.0 - params.e1 || (params.e1 == 0.5 && h == 0.0) {
            recursive(tree, node.right, params, responses)
        } else if p < params.e1 {
            recursive(tree, node.left, params, responses)
        } else if p > 0.5 + params.e2 {
            (1.0 - p) * q(node.left) + p * recursive(tree, node.right, params, responses)
        } else if p < 0.5 - params.e2 {
            (1.0 - p) * recursive(tree, node.left, params, responses) + p * q(node.right)
        } else {
            (1.0 - p) * recursive(tree, node.left, params, responses)
                + p * recursive(tree, node.right, params, responses)
        }
    }

    /// The distance of the nearest margin in the tree from a place where the branch changes; there
    /// rounding may choose either side.
    fn nearest_edge(tree: &Tree, params: EvalParams, responses: &[i32]) -> f64 {
        let edges = [1.0 - params.e1, 0.5 + params.e2].map(|p| 0.5 * (p / (1.0 - p)).ln());
        let of_node = |node: &Node| {
            let h = tree
                .weaks_of(node)
                .iter()
                .map(|w| w.signed_alpha(responses[w.feature as usize]) as f64 / SCALE)
                .sum::<f64>();
            edges
                .iter()
                .filter(|&&edge| edge > 0.0)
                .map(|edge| (h.abs() - edge).abs())
                .fold(f64::INFINITY, f64::min)
        };
        tree.nodes.iter().filter(|n| !n.is_leaf()).map(of_node).fold(f64::INFINITY, f64::min)
    }

    const FEATURES: usize = 6;

    fn weak() -> impl Strategy<Value = Weak> {
        let alpha = prop_oneof![0i32..3000, 0i32..60_000, 0i32..500_000];
        (0u32..FEATURES as u32, -50i32..50, 1i32..100, any::<u64>(), alpha).prop_map(
            |(feature, lo, span, votes, alpha)| Weak {
                feature,
                bounds: Bounds::new(lo, lo + span),
                votes,
                alpha,
            },
        )
    }

    /// Random trees: nodes are taken in order, and each becomes an inner node while any are left to
    /// become so.
    fn tree() -> impl Strategy<Value = Tree> {
        let positive = prop_oneof![any::<u32>(), 1u32..1000, (u32::MAX - 1000)..=u32::MAX]
            .prop_map(|q| q.max(1));
        let node = (any::<bool>(), prop::collection::vec(weak(), 1..6), positive);
        prop::collection::vec(node, 1..24).prop_map(|plans| {
            let mut tree = Tree::leaf(plans[0].2);
            for (next, (branches, weaks, q)) in plans.iter().enumerate() {
                if next == tree.nodes.len() {
                    break;
                }
                if *branches {
                    let count = tree.nodes.len() as u32;
                    let (first_weak, weak_count) = (tree.weaks.len() as u32, weaks.len() as u32);
                    tree.nodes[next] = Node {
                        first_weak,
                        weak_count,
                        left: count,
                        right: count + 1,
                        ..tree.nodes[next]
                    };
                    tree.weaks.extend(weaks);
                    let leaf =
                        Node { first_weak: 0, weak_count: 0, left: 0, right: 0, positive: *q };
                    tree.nodes.extend([leaf, Node { positive: (!q).max(1), ..leaf }]);
                }
            }
            tree
        })
    }

    fn params() -> impl Strategy<Value = EvalParams> {
        let e1 = prop_oneof![Just(0.5), Just(1e-6), Just(0.0), 0.0f64..0.5];
        let e2 = prop_oneof![Just(0.1), Just(0.0), Just(0.5), 0.0f64..0.5];
        (e1, e2).prop_map(|(e1, e2)| EvalParams { e1, e2 })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn stack_equals_recursion(tree in tree(), params in params(), responses in prop::collection::vec(-100i32..100, FEATURES)) {
            prop_assert_eq!(tree.validate(FEATURES), Ok(()));
            prop_assume!(nearest_edge(&tree, params, &responses) > 2.0 / SCALE);
            let masses = Evaluator::new(params).masses(&tree, &mut |f| responses[f as usize]);
            prop_assert_eq!(masses.positive + masses.negative, MASS_ONE);
            let expected = recursive(&tree, 0, params, &responses);
            let found = masses.positive as f64 / MASS_ONE as f64;
            prop_assert!((found - expected).abs() < 1e-6, "{found} {expected}");
            let posterior = masses.score().posterior();
            prop_assert!((posterior - expected).abs() < 1e-5, "{posterior} {expected}");
            let log_odds = (expected / (1.0 - expected)).ln();
            prop_assert!((masses.score().log_odds() - log_odds).abs() < 1e-4, "{} {log_odds}", masses.score().log_odds());
        }
    }

    proptest! {
        #[test]
        fn a_block_equals_its_samples(tree in tree(), params in params(), responses in prop::collection::vec(prop::collection::vec(-100i32..100, FEATURES), 0..30)) {
            let evaluator = Evaluator::new(params);
            let mut masses = vec![Masses::default(); responses.len()];
            let mut respond = |feature: u32, places: &[u32], out: &mut [i32]| {
                assert!(places.is_sorted() && places.len() == out.len());
                places.iter().zip(out).for_each(|(&place, out)| *out = responses[place as usize][feature as usize]);
            };
            evaluator.add_block_masses(&tree, &mut respond, &mut masses);
            for (responses, masses) in responses.iter().zip(masses) {
                prop_assert_eq!(masses, evaluator.masses(&tree, &mut |f| responses[f as usize]));
            }
        }
    }

    /// A stump on feature 0 at zero: margin ±alpha, with leaves ¼ and ¾.
    fn stump(alpha: i32) -> Tree {
        let leaf = Node { first_weak: 0, weak_count: 0, left: 0, right: 0, positive: 1 << 30 };
        let root = Node { first_weak: 0, weak_count: 1, left: 1, right: 2, positive: 1 << 31 };
        let weak = Weak { feature: 0, bounds: Bounds::new(-32, 31), votes: !0 << 32, alpha };
        Tree { nodes: vec![root, leaf, Node { positive: 3 << 30, ..leaf }], weaks: vec![weak] }
    }

    #[test]
    fn a_zero_margin_goes_both_ways_and_right_in_a_hard_tree() {
        let posterior =
            |params| Evaluator::new(params).masses(&stump(0), &mut |_| 5).score().posterior();
        assert_abs_diff_eq!(posterior(EvalParams::default()), 0.5, epsilon = 1e-9);
        assert_abs_diff_eq!(posterior(EvalParams { e1: 0.0, e2: 0.0 }), 0.5, epsilon = 1e-9);
        assert_abs_diff_eq!(posterior(EvalParams::HARD), 0.75, epsilon = 1e-5);
    }

    #[test]
    fn the_corrected_fourth_branch_uses_the_right_child() {
        // H = −1: p = 0.119; (1 − p)·¼ + p·¾.
        let posterior = Evaluator::new(EvalParams::default())
            .masses(&stump(65536), &mut |_| -1)
            .score()
            .posterior();
        let p = 1.0 / (1.0 + 2f64.exp());
        assert_abs_diff_eq!(posterior, (1.0 - p) * 0.25 + p * 0.75, epsilon = 1e-5);
    }

    #[test]
    fn parameters_travel_as_e1_and_e2() {
        let evaluator = Evaluator::new(EvalParams { e1: 0.01, e2: 0.2 });
        let text = serde_json::to_string(&evaluator).expect("numbers");
        assert_eq!(text, r#"{"e1":0.01,"e2":0.2}"#);
        assert_eq!(serde_json::from_str::<Evaluator>(&text).expect("its own output"), evaluator);
        assert!(serde_json::from_str::<EvalParams>(r#"{"e3":0.01}"#).is_err());
    }
}
