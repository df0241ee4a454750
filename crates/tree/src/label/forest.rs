//! A forest that labels voxels, as tables.

use crate::classifier::MAX_TREES;
use crate::label::leaves::LEAF_ONE;
use crate::label::softmax::probabilities;
use crate::node::MAX_DEPTH;
use pbt_features::{BoxMeanFeature, MISSING};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Most classes, the background among them.
pub const MOST_CLASSES: usize = 64;

/// Fractional bits of a score in a leaf of boosted trees, nats.
pub(crate) const SCORE_BITS: u32 = 11;

/// What stands for the score 0 in a leaf.
pub(crate) const SCORE_ZERO: i32 = 1 << 15;

/// [`LabelNode::feature`] of a leaf.
pub const LEAF: u32 = u32::MAX;

/// A node: an inner one asks whether the response of its feature lies from `low` up to but not
/// including `high`. Yes leads to the node `next`, no, and a missing response, to the one after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabelNode {
    /// Number of the feature in the forest; [`LEAF`] of a leaf.
    pub feature: u32,
    /// The left child, or the leaf's number.
    pub next: u32,
    /// Lowest response that goes left; above [`MISSING`].
    pub low: i64,
    /// The first one beyond.
    pub high: i64,
}

/// A tree. Children come after their parent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelTree {
    /// The root first.
    pub nodes: Vec<LabelNode>,
    /// Distributions, `[leaf][class]`, each of the sum [`LEAF_ONE`]; of boosted trees scores with
    /// 11 fractional bits, nats, where 2¹⁵ stands for 0.
    pub leaves: Vec<u16>,
}

/// How trees become one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vote {
    /// The mean of their distributions.
    #[default]
    Mean,
    /// Each tree has one vote, for its most probable class; of equals for the lower one.
    Majority,
    /// The trees are boosted: their scores add up to the logarithm of each class's odds against the
    /// background.
    Scores,
}

/// A forest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelForest {
    /// Number of classes; 0 is the background.
    pub classes: usize,
    /// How trees become one answer.
    pub vote: Vote,
    /// The features that the trees use.
    pub features: Vec<BoxMeanFeature>,
    /// The trees.
    pub trees: Vec<LabelTree>,
}

impl LabelTree {
    /// The leaf that a sample with these responses arrives at.
    #[inline]
    pub fn leaf(&self, mut response: impl FnMut(u32) -> i64) -> u32 {
        let mut at = 0;
        loop {
            let node = &self.nodes[at];
            if node.feature == LEAF {
                return node.next;
            }
            let found = response(node.feature);
            at = node.next as usize + usize::from(!(node.low <= found && found < node.high));
        }
    }

    /// What is wrong with it, if anything.
    fn fault(&self, classes: usize, features: usize, vote: Vote) -> Option<&'static str> {
        if self.nodes.is_empty() || !self.leaves.len().is_multiple_of(classes) {
            return Some("has no nodes, or half a leaf");
        }
        let leaves = self.leaves.len() / classes;
        let mut depths = vec![0; self.nodes.len()];
        for (n, node) in self.nodes.iter().enumerate() {
            let next = node.next as usize;
            if node.feature == LEAF {
                if next >= leaves {
                    return Some("has a node without its leaf");
                }
                continue;
            }
            if next <= n || next + 1 >= self.nodes.len() {
                return Some("has a child before its parent");
            }
            if node.feature as usize >= features || node.low == MISSING {
                return Some("has a test that cannot be");
            }
            depths[next] = depths[next].max(depths[n] + 1);
            depths[next + 1] = depths[next + 1].max(depths[n] + 1);
        }
        if depths.iter().any(|&depth| depth > MAX_DEPTH) {
            return Some("is too deep");
        }
        let whole = |leaf: &[u16]| {
            vote == Vote::Scores || leaf.iter().map(|&v| u32::from(v)).sum::<u32>() == LEAF_ONE
        };
        (!self.leaves.chunks_exact(classes).all(whole))
            .then_some("has a leaf that does not sum to 1")
    }
}

impl LabelForest {
    /// What the [shares](LabelForest::shares) of all classes sum to.
    pub fn one(&self) -> u32 {
        match self.vote {
            Vote::Mean => self.trees.len() as u32 * LEAF_ONE,
            Vote::Majority => self.trees.len() as u32,
            Vote::Scores => LEAF_ONE,
        }
    }

    /// Turns the [distributions](LabelForest::distribution) of voxels, classes together, into how
    /// probable each class is. Only scores change.
    pub fn shares(&self, sums: &mut [u32]) {
        if self.vote != Vote::Scores {
            return;
        }
        let zero = self.trees.len() as i64 * i64::from(SCORE_ZERO);
        sums.par_chunks_mut(4096 * self.classes).for_each(|sums| {
            let mut shares = vec![0; self.classes];
            for sums in sums.chunks_exact_mut(self.classes) {
                probabilities(sums[1..].iter().map(|&sum| i64::from(sum) - zero), &mut shares);
                sums.copy_from_slice(&shares);
            }
        });
    }

    /// Adds a leaf of a tree to a distribution of the forest.
    #[inline]
    pub fn add(&self, leaf: &[u16], sums: &mut [u32]) {
        match self.vote {
            Vote::Mean | Vote::Scores => {
                sums.iter_mut().zip(leaf).for_each(|(s, &v)| *s += u32::from(v))
            }
            Vote::Majority => {
                let best =
                    (0..leaf.len()).fold(0, |best, c| if leaf[c] > leaf[best] { c } else { best });
                sums[best] += 1;
            }
        }
    }

    /// The sums of a sample's leaves, from these responses: the definition that backends are held
    /// against.
    pub fn distribution(&self, mut response: impl FnMut(u32) -> i64, sums: &mut [u32]) {
        sums.fill(0);
        for tree in &self.trees {
            let leaf = tree.leaf(&mut response) as usize;
            self.add(&tree.leaves[leaf * self.classes..(leaf + 1) * self.classes], sums);
        }
    }

    /// What is wrong with the forest, if anything, given the number of channels: whatever a file
    /// holds, evaluation then ends and stays within the tables.
    pub fn fault(&self, channels: usize) -> Option<String> {
        if !(2..=MOST_CLASSES).contains(&self.classes) {
            return Some(format!("has {} classes", self.classes));
        }
        if !(1..=MAX_TREES).contains(&self.trees.len()) {
            return Some(format!("has {} trees", self.trees.len()));
        }
        if let Some(n) = self.features.iter().position(|feature| !feature.is_valid(channels)) {
            return Some(format!("feature {n} has a box or channel that cannot be"));
        }
        let fault = |tree: &LabelTree| tree.fault(self.classes, self.features.len(), self.vote);
        let faults = self.trees.iter().enumerate();
        faults.filter_map(|(n, tree)| Some(format!("tree {n} {}", fault(tree)?))).next()
    }

    /// Voxels that the features look away from their own.
    pub fn reach(&self) -> usize {
        self.features.iter().map(BoxMeanFeature::reach).max().unwrap_or(0)
    }

    /// Drops the features that no tree uses and numbers the others anew, in their order.
    pub fn without_unused_features(mut self) -> Self {
        let mut places = vec![None; self.features.len()];
        for node in self.trees.iter().flat_map(|tree| &tree.nodes).filter(|n| n.feature != LEAF) {
            places[node.feature as usize] = Some(0);
        }
        let used = |n: &usize| places[*n].is_some();
        let features = (0..places.len()).filter(used).map(|n| self.features[n]).collect();
        places.iter_mut().flatten().enumerate().for_each(|(n, place)| *place = n as u32);
        for node in self.trees.iter_mut().flat_map(|tree| &mut tree.nodes) {
            if let Some(Some(place)) = places.get(node.feature as usize) {
                node.feature = *place;
            }
        }
        self.features = features;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_features::MeanBox;

    fn feature(min: i16) -> BoxMeanFeature {
        let first = MeanBox { min: [min, 0, 0], size: [1; 3], channel: 0 };
        BoxMeanFeature { first, second: None }
    }

    /// Left where 10 ≤ response < 20 of the second of three features.
    fn forest() -> LabelForest {
        let leaf = |next| LabelNode { feature: LEAF, next, low: 0, high: 0 };
        let nodes = vec![LabelNode { feature: 1, next: 1, low: 10, high: 20 }, leaf(0), leaf(1)];
        let tree = LabelTree { nodes, leaves: vec![30_000, 2768, 0, 32_768] };
        LabelForest {
            classes: 2,
            vote: Vote::Mean,
            features: vec![feature(-3), feature(5), feature(9)],
            trees: vec![tree.clone(), tree],
        }
    }

    #[test]
    fn tests_are_half_open_and_missing_is_no() {
        let of = |forest: &LabelForest, response: i64| {
            let mut sums = [0; 2];
            forest.distribution(|_| response, &mut sums);
            sums
        };
        let mean = forest();
        assert_eq!(mean.fault(1), None);
        for (response, left) in [(9, false), (10, true), (19, true), (20, false), (MISSING, false)]
        {
            let expected = if left { [60_000, 5536] } else { [0, 65_536] };
            assert_eq!(of(&mean, response), expected, "{response}");
        }
        let majority = LabelForest { vote: Vote::Majority, ..forest() };
        assert_eq!((of(&majority, 10), of(&majority, 0)), ([2, 0], [0, 2]));
    }

    #[test]
    fn unused_features_go() {
        let small = forest().without_unused_features();
        assert_eq!(small.features, [feature(5)]);
        assert!(small.trees.iter().all(|tree| tree.nodes[0].feature == 0));
        assert_eq!((small.fault(1), small.reach(), forest().reach()), (None, 5, 9));
    }

    #[test]
    fn damaged_tables_are_told() {
        let spoilt = |spoil: &dyn Fn(&mut LabelForest)| {
            let mut forest = forest();
            spoil(&mut forest);
            forest.fault(1)
        };
        let all: [&dyn Fn(&mut LabelForest); 9] = [
            &|f| f.classes = 1,
            &|f| f.trees.clear(),
            &|f| f.features[0].first.channel = 1,
            &|f| f.trees[1].nodes[0].next = 0,
            &|f| f.trees[1].nodes[0].next = 2,
            &|f| f.trees[1].nodes[0].feature = 3,
            &|f| f.trees[1].nodes[2].next = 2,
            &|f| f.trees[1].nodes[0].low = MISSING,
            &|f| f.trees[1].leaves[0] = 0,
        ];
        for (n, spoil) in all.iter().enumerate() {
            assert!(spoilt(spoil).is_some(), "{n}");
        }
    }
}
