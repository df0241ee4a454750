//! A tree of a random forest: at every node the threshold of the highest information gain among a
//! few random features.
//!
//! It lives in the same tables as a boosting tree. A node has one weak classifier, whose vote is
//! heavy enough to decide.

use crate::bins::{BINS, BinnedMatrix, Bounds};
use crate::boost::WEIGHT_TOTAL;
use crate::draw::{stream, subset};
use crate::fixed::ln;
use crate::grow::{TrainError, check_samples, grow_levels, in_range};
use crate::node::{MAX_DEPTH, Tree};
use crate::reached::{Empirical, PATH_ONE, Reached, split};
use crate::source::SampleSource;
use crate::weak::{ALPHA_BITS, Weak};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Weight of the only vote of a node: beyond the threshold of a hard branch for every e1 ≥ 10⁻¹³.
const DECISIVE: i32 = 16 << ALPHA_BITS;
/// Gains within the error of the logarithm's table are none. In units of (weight of the root 2³⁰) ·
/// (nats · 2³²).
const LEAST_GAIN: i128 = 1 << 42;

/// How a random forest grows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomForestParams {
    /// Number of trees.
    pub trees: usize,
    /// Largest number of levels of inner nodes.
    pub depth: usize,
    /// Fewest training samples on either side of a split.
    pub min_leaf: usize,
    /// Share of the features that a node looks at; 0 takes the square root of their number.
    pub features_per_node: f64,
    /// Most samples of each class on which a node's split is chosen; the split then sends all.
    pub samples_per_node: usize,
    /// Percent of the responses that lie outside the bins, at either end.
    pub cut_percent: f64,
}

impl Default for RandomForestParams {
    /// 30 trees of depth 8, the patent's best on unseen hips.
    fn default() -> Self {
        Self {
            trees: 30,
            depth: 8,
            min_leaf: 5,
            features_per_node: 0.0,
            samples_per_node: 5000,
            cut_percent: 0.5,
        }
    }
}

impl RandomForestParams {
    /// Checks every parameter.
    ///
    /// # Errors
    /// [`TrainError::Parameter`] with the first that is outside its range.
    pub fn check(&self) -> Result<(), TrainError> {
        in_range("trees", self.trees as f64, 1.0, 2048.0, "1 to 2048")?;
        in_range("depth", self.depth as f64, 0.0, MAX_DEPTH as f64, "0 to 24")?;
        in_range("min_leaf", self.min_leaf as f64, 1.0, 1e9, "1 to 1e9")?;
        in_range("features_per_node", self.features_per_node, 0.0, 1.0, "0 to 1")?;
        in_range("samples_per_node", self.samples_per_node as f64, 1.0, 1e6, "1 to 1000000")?;
        in_range("cut_percent", self.cut_percent, 0.0, 49.0, "0 to 49")
    }
}

/// A threshold on a feature and what it gains.
#[derive(Debug, Clone, Copy)]
struct Split {
    gain: i128,
    row: usize,
    bounds: Bounds,
    votes: u64,
}

/// Weights of the classes and number of samples, in one bin or on one side.
#[derive(Debug, Clone, Copy, Default)]
struct Side {
    positive: u64,
    negative: u64,
    count: usize,
}

impl Side {
    fn plus(self, other: Self) -> Self {
        Self {
            positive: self.positive + other.positive,
            negative: self.negative + other.negative,
            count: self.count + other.count,
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            positive: self.positive - other.positive,
            negative: self.negative - other.negative,
            count: self.count - other.count,
        }
    }

    /// Minus the entropy times the weight: a ln a + b ln b − (a + b) ln(a + b), in units of 2⁻³²
    /// nats.
    fn order(self) -> i128 {
        let x_ln_x = |x: u64| x as i128 * ln(x) as i128;
        x_ln_x(self.positive) + x_ln_x(self.negative) - x_ln_x(self.positive + self.negative)
    }
}

/// The threshold of the highest information gain on one feature; of equals the lowest. `None` when
/// no threshold leaves `min_leaf` samples on both sides and gains anything.
fn best_threshold(
    row: usize,
    bins: &[u8],
    bounds: Bounds,
    labels: &[bool],
    weights: &[u32],
    min_leaf: usize,
) -> Option<Split> {
    let mut histogram = [Side::default(); BINS];
    for ((&bin, &label), &weight) in bins.iter().zip(labels).zip(weights) {
        let side = &mut histogram[bin as usize];
        if label {
            side.positive += weight as u64
        } else {
            side.negative += weight as u64
        }
        side.count += 1;
    }
    let all = histogram.iter().fold(Side::default(), |all, &bin| all.plus(bin));
    let before = all.order();
    let mut best: Option<Split> = None;
    let mut below = Side::default();
    for (t, &bin) in histogram[..BINS - 1].iter().enumerate() {
        below = below.plus(bin);
        let above = all.minus(below);
        if below.count < min_leaf || above.count < min_leaf {
            continue;
        }
        let gain = below.order() + above.order() - before;
        if gain > best.map_or(LEAST_GAIN, |best| best.gain) {
            // The side with the larger share of positives goes right.
            let share = |side: Side, other: Side| {
                side.positive as u128 * (other.positive + other.negative) as u128
            };
            let upper = u64::MAX << (t + 1);
            let votes = if share(above, below) >= share(below, above) { upper } else { !upper };
            best = Some(Split { gain, row, bounds, votes });
        }
    }
    best
}

/// Grows a tree on `samples` (ids of the source; a repeated one counts as often). `seed` and `tree`
/// choose the random streams.
///
/// # Errors
/// [`TrainError`] when a parameter is out of range, a class has no samples, the lists do not fit the
/// source, or the device fails.
pub fn grow_random_tree(
    source: &dyn SampleSource,
    labels: &[bool],
    samples: &[u32],
    params: &RandomForestParams,
    seed: u64,
    tree: u32,
) -> Result<Tree, TrainError> {
    params.check()?;
    check_samples(source, labels, samples)?;
    let empirical = Empirical::new(labels, samples);
    let feature_count = source.feature_count();
    let fraction = if params.features_per_node > 0.0 {
        params.features_per_node
    } else {
        (feature_count as f64).sqrt() / feature_count as f64
    };
    let tree = grow_levels(
        Reached::all(samples),
        labels,
        empirical,
        |level, index, reached, (positive, negative)| {
            if level >= params.depth
                || positive == 0
                || negative == 0
                || reached.samples.len() < 2 * params.min_leaf
            {
                return Ok(None);
            }
            let mut rng = stream(seed, tree, index);
            let features = subset(feature_count, fraction, &mut rng);
            let (drawn, mut weights) = reached.draw(labels, |_| params.samples_per_node, &mut rng);
            let drawn_labels: Vec<bool> = drawn.iter().map(|&s| labels[s as usize]).collect();
            // From equal halves to the shares of the classes that really come here, each class
            // having half of the mass at the root.
            for (weight, &label) in weights.iter_mut().zip(&drawn_labels) {
                let (mass, of) = if label {
                    (positive, empirical.positives)
                } else {
                    (negative, empirical.negatives)
                };
                *weight = (*weight as u128 * mass as u128 / (of as u128 * PATH_ONE as u128))
                    .min(WEIGHT_TOTAL as u128) as u32;
            }
            let respond = |features: &[u32], out: &mut [i32]| source.respond(features, &drawn, out);
            let matrix =
                BinnedMatrix::from_responses(&features, drawn.len(), params.cut_percent, respond)?;
            let of_row = |row| {
                best_threshold(
                    row,
                    matrix.row(row),
                    matrix.bounds(row),
                    &drawn_labels,
                    &weights,
                    params.min_leaf,
                )
            };
            let better = |a: Split, b: Split| if (b.gain, a.row) > (a.gain, b.row) { b } else { a };
            let best =
                (0..matrix.features()).into_par_iter().filter_map(of_row).reduce_with(better);
            let Some(best) = best else { return Ok(None) };
            let weak = Weak {
                feature: features[best.row],
                bounds: best.bounds,
                votes: best.votes,
                alpha: DECISIVE,
            };
            let (left, right) = split(source, reached, &[weak], 0.0)?;
            Ok(Some((vec![weak], left, right)))
        },
    )?;
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Information gain in floating point, from the definition.
    fn gain(sides: [&[(bool, u32)]; 2]) -> f64 {
        let entropy = |side: &[(bool, u32)]| {
            let total: f64 = side.iter().map(|s| s.1 as f64).sum();
            let of = |label| {
                side.iter().filter(|s| s.0 == label).map(|s| s.1 as f64).sum::<f64>()
                    / total.max(1.0)
            };
            let h = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
            (total, h(of(true)) + h(of(false)))
        };
        let all: Vec<(bool, u32)> = sides.concat();
        let (total, before) = entropy(&all);
        total * before - sides.iter().map(|side| entropy(side)).map(|(w, h)| w * h).sum::<f64>()
    }

    proptest! {
        #[test]
        fn threshold_has_the_highest_gain(samples in prop::collection::vec((0u8..64, any::<bool>(), 1u32..(1 << 20)), 4..60), min_leaf in 1usize..4) {
            let bins: Vec<u8> = samples.iter().map(|s| s.0).collect();
            let labels: Vec<bool> = samples.iter().map(|s| s.1).collect();
            let weights: Vec<u32> = samples.iter().map(|s| s.2).collect();
            let best = best_threshold(3, &bins, Bounds::new(0, 63), &labels, &weights, min_leaf);
            let gain_of = |t: u8| {
                let side = |upper: bool| samples.iter().filter(|s| (s.0 > t) == upper).map(|s| (s.1, s.2)).collect::<Vec<_>>();
                let (below, above) = (side(false), side(true));
                if below.len().min(above.len()) < min_leaf { -1.0 } else { gain([&below, &above]) }
            };
            let highest = (0..63).map(gain_of).fold(-1.0, f64::max);
            let total = weights.iter().map(|&w| w as f64).sum::<f64>();
            match best {
                Some(split) => {
                    let t = if split.votes & 1 == 0 { split.votes.trailing_zeros() } else { split.votes.trailing_ones() } - 1;
                    prop_assert!((gain_of(t as u8) - highest).abs() < 1e-6 * total, "{} {highest}", gain_of(t as u8));
                    prop_assert!((split.gain as f64 / 2f64.powi(32) - highest).abs() < 2e-6 * total);
                }
                None => prop_assert!(highest < 1e4, "{highest}"),
            }
        }
    }
}
