//! The posterior of many samples at once: node by node instead of sample by sample.
//!
//! Children come after their parents, so one pass over the nodes meets all samples that a node gets
//! together. Each feature is then computed for a run of samples, which vectorises and keeps its
//! table in the cache; masses are integers, so the sums are those of the stack to the bit.

use crate::branch::Other;
use crate::classifier::Classifier;
use crate::fixed::MASS_ONE;
use crate::masses::Masses;
use crate::node::Tree;
use crate::posterior::Evaluator;
use crate::score::Score;

/// The samples that reach a node.
#[derive(Default)]
struct Reaching {
    /// Places in the block, rising.
    places: Vec<u32>,
    weights: Vec<u64>,
    /// Whether a hard tree would send the sample here.
    dominant: Vec<bool>,
}

impl Reaching {
    fn push(&mut self, place: u32, weight: u64, dominant: bool) {
        self.places.push(place);
        self.weights.push(weight);
        self.dominant.push(dominant);
    }
}

impl Evaluator {
    /// Adds [`Evaluator::masses`] of a block of samples to `masses`, one entry a sample.
    ///
    /// `respond(feature, places, out)` writes the feature's responses for the samples at `places`
    /// of the block, which rise; when there are as many as the block has samples, they are all of
    /// them. The tree must be valid.
    pub fn add_block_masses(
        &self,
        tree: &Tree,
        respond: &mut impl FnMut(u32, &[u32], &mut [i32]),
        masses: &mut [Masses],
    ) {
        let count = masses.len();
        let mut waiting: Vec<Reaching> = tree.nodes.iter().map(|_| Reaching::default()).collect();
        waiting[0] = Reaching {
            places: (0..count as u32).collect(),
            weights: vec![MASS_ONE; count],
            dominant: vec![true; count],
        };
        let (mut responses, mut margins) = (vec![0; count], vec![0; count]);
        for (index, node) in tree.nodes.iter().enumerate() {
            let Reaching { places, weights, dominant } = std::mem::take(&mut waiting[index]);
            if node.is_leaf() {
                places
                    .iter()
                    .zip(&weights)
                    .for_each(|(&place, &weight)| masses[place as usize].add(weight, node));
                continue;
            }
            if places.is_empty() {
                continue;
            }
            let responses = &mut responses[..places.len()];
            let margins = &mut margins[..places.len()];
            margins.fill(0);
            for weak in tree.weaks_of(node) {
                respond(weak.feature, &places, responses);
                weak.accumulate(responses, margins);
            }
            for (((&place, &weight), &dominant), &margin) in
                places.iter().zip(&weights).zip(&dominant).zip(&*margins)
            {
                let total = &mut masses[place as usize];
                if dominant {
                    total.margin += margin as i64;
                }
                let shares = self.shares(margin, weight);
                let (likelier, other) = node.children(shares.right);
                match shares.other {
                    Other::Nothing => {}
                    Other::Settled(minor) => total.add(minor, &tree.nodes[other as usize]),
                    Other::Visited(minor) => waiting[other as usize].push(place, minor, false),
                }
                waiting[likelier as usize].push(place, shares.likelier, dominant);
            }
        }
    }
}

impl Classifier {
    /// [`Classifier::score`] of a block of samples, one entry of `scores` each; `respond` as for
    /// [`Evaluator::add_block_masses`].
    ///
    /// A few hundred to a few thousand samples make a good block.
    pub fn score_block(
        &self,
        respond: &mut impl FnMut(u32, &[u32], &mut [i32]),
        scores: &mut [Score],
    ) {
        let mut masses = vec![Masses::default(); scores.len()];
        for tree in &self.trees {
            self.eval.add_block_masses(tree, respond, &mut masses);
        }
        scores.iter_mut().zip(masses).for_each(|(score, masses)| *score = masses.score());
    }
}
