//! The rule of a node: which children an evaluation visits, and with which weight. The twin of
//! `kernels/branch.cuh`.

use crate::fixed::{mass_product, minor_probability};
use crate::posterior::Evaluator;
use serde::{Deserialize, Serialize};

/// Where a node sends a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Branch {
    /// To the left child alone.
    Left,
    /// To the left child; the right one's empirical distribution stands for the rest.
    MostlyLeft,
    /// To both children, more to the left one.
    BothMoreLeft,
    /// To both children, more to the right one.
    BothMoreRight,
    /// To the right child; the left one's empirical distribution stands for the rest.
    MostlyRight,
    /// To the right child alone.
    Right,
    /// Nowhere: a leaf.
    Leaf,
}

/// How a node shares the weight of a sample between its children. A hard tree would visit the
/// likelier child alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Whether the right child is the likelier.
    pub(crate) right: bool,
    /// Weight with which the likelier child is visited.
    pub(crate) likelier: u64,
    /// Weight of the other child.
    pub(crate) other: Other,
}

/// What becomes of the less likely child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Other {
    /// It has no weight.
    Nothing,
    /// Its empirical distribution stands for its subtree, with this weight.
    Settled(u64),
    /// It is visited, with this weight.
    Visited(u64),
}

impl Evaluator {
    /// Where a margin in units of 2⁻¹⁶ sends a sample.
    pub fn branch(&self, margin: i32) -> Branch {
        let right = margin >= 0;
        if margin >= self.hard_right {
            Branch::Right
        } else if margin <= self.hard_left {
            Branch::Left
        } else if margin > self.soft || margin < -self.soft {
            if right { Branch::MostlyRight } else { Branch::MostlyLeft }
        } else if right {
            Branch::BothMoreRight
        } else {
            Branch::BothMoreLeft
        }
    }

    /// What the children of a node get of `weight`. The less likely one gets its product, rounded
    /// down, and the likelier one the rest, so that no weight is lost.
    #[inline]
    pub(crate) fn shares(&self, margin: i32, weight: u64) -> Shares {
        let right = margin >= 0;
        let branch = self.branch(margin);
        if matches!(branch, Branch::Left | Branch::Right) {
            return Shares { right, likelier: weight, other: Other::Nothing };
        }
        let minor = mass_product(weight, minor_probability(margin));
        let other = match branch {
            Branch::MostlyLeft | Branch::MostlyRight => Other::Settled(minor),
            _ => Other::Visited(minor),
        };
        Shares { right, likelier: weight - minor, other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixed::MASS_ONE;
    use crate::posterior::EvalParams;
    use proptest::prelude::*;

    #[test]
    fn branches_change_where_the_evaluation_changes() {
        let evaluator = Evaluator::new(EvalParams { e1: 0.01, e2: 0.1 });
        let at = |p: f64| evaluator.branch((0.5 * (p / (1.0 - p)).ln() * 65536.0).round() as i32);
        let found = [0.005, 0.02, 0.39, 0.41, 0.5, 0.59, 0.61, 0.98, 0.995].map(at);
        use Branch::{BothMoreLeft, BothMoreRight, Left, MostlyLeft, MostlyRight, Right};
        assert_eq!(
            found,
            [
                Left,
                MostlyLeft,
                MostlyLeft,
                BothMoreLeft,
                BothMoreRight,
                BothMoreRight,
                MostlyRight,
                MostlyRight,
                Right
            ]
        );
        assert_eq!(Evaluator::new(EvalParams::HARD).branch(0), Right);
    }

    proptest! {
        #[test]
        fn shares_lose_no_weight(margin: i32, weight in 0..=MASS_ONE, e1 in 0.0f64..=0.5, e2 in 0.0f64..=0.5) {
            let Shares { right, likelier, other } =
                Evaluator::new(EvalParams { e1, e2 }).shares(margin, weight);
            let minor = match other {
                Other::Nothing => 0,
                Other::Settled(minor) | Other::Visited(minor) => minor,
            };
            prop_assert_eq!(likelier + minor, weight);
            prop_assert!(minor <= likelier && right == (margin >= 0));
        }
    }
}
