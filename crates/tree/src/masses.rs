//! The masses of the two classes that an evaluation sums.

use crate::node::Node;
use crate::score::Score;

/// What a tree says about a sample. The masses of one tree add up to 2⁵², those of a forest to 2⁵²
/// a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Masses {
    /// Mass of the class +1.
    pub positive: u64,
    /// Mass of the class −1.
    pub negative: u64,
    /// Sum of the margins along the path that a hard tree would take, in units of 2⁻¹⁶.
    pub margin: i64,
}

impl Masses {
    /// Adds the share of a node's empirical distribution in a weight.
    pub(crate) fn add(&mut self, weight: u64, node: &Node) {
        let (q, complement) = (node.positive as u64, (1u64 << 32) - node.positive as u64);
        let minor = ((weight as u128 * q.min(complement) as u128) >> 32) as u64;
        let (positive, negative) =
            if q <= complement { (minor, weight - minor) } else { (weight - minor, minor) };
        self.positive += positive;
        self.negative += negative;
    }

    /// The sum of two trees' masses; a forest's posterior is the mean of its trees'.
    pub fn plus(self, other: Self) -> Self {
        Self {
            positive: self.positive + other.positive,
            negative: self.negative + other.negative,
            margin: self.margin + other.margin,
        }
    }

    /// The score of the masses.
    pub fn score(self) -> Score {
        Score::from_masses(self)
    }
}
