//! Discrete AdaBoost in integers: the strong classifier of a node.
//!
//! With D\[b\] = Σ w·y over the samples of bin b (y = ±1) and W = Σ w, the best classifier with
//! free output bits has the error (W − Σ|D\[b\]|)/2 and the best threshold has (W − max_t |(D_tot −
//! cum_t) − cum_t|)/2, where cum_t sums the bins up to t. So one signed addition a (sample,
//! feature) decides everything, and every comparison is one of integers.

use crate::bins::BinnedMatrix;
use crate::device_error::DeviceError;
use crate::weak::{ALPHA_BITS, Weak};
use serde::{Deserialize, Serialize};

/// The largest sum of the weights of a boosting node, so that sums of signed weights stay far
/// inside an `i32`.
pub const WEIGHT_TOTAL: u32 = 1 << 30;

/// Which weak classifiers a node may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum WeakKind {
    /// The bins on one side of a threshold vote +1.
    #[default]
    Threshold,
    /// Every output bin votes as it likes.
    Histogram {
        /// Number of output bins, a power of two from 2 to 64; fewer than 64 merge neighbouring
        /// bins.
        bins: u8,
    },
    /// A threshold, or a histogram of 16 output bins where its error is below ⅞ of the threshold's.
    /// The eighth makes up for the freedom that fits noise: at 5,000 samples 16 bins are on a par
    /// with thresholds, 64 are worse.
    Best,
}

/// How a node is boosted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BoostParams {
    /// Largest number of weak classifiers.
    pub rounds: usize,
    /// Adding stops when the best weighted error exceeds this (θ of Tu 2005); at most ½.
    pub max_error: f64,
    /// Which weak classifiers.
    pub weak: WeakKind,
}

impl Default for BoostParams {
    /// 40 thresholds, as the patent's trees; θ = 0.45.
    fn default() -> Self {
        Self { rounds: 40, max_error: 0.45, weak: WeakKind::Threshold }
    }
}

/// What a node is boosted to, beside its features and its samples.
#[derive(Debug, Clone, Copy)]
pub struct BoostTask<'a> {
    /// One entry a sample: true is +1.
    pub labels: &'a [bool],
    /// One entry a sample; the sum is at most [`WEIGHT_TOTAL`].
    pub weights: &'a [u32],
    /// How the node is boosted.
    pub params: &'a BoostParams,
    /// Percent of the responses that lie outside the bins, at either end.
    pub cut_percent: f64,
}

/// Trains strong classifiers. Every implementation gives the same bits as
/// [`ReferenceBooster`](crate::ReferenceBooster).
pub trait Booster: Sync {
    /// The weak classifiers of a node, in the order in which they were added; [`Weak::feature`] is
    /// the row of the matrix.
    ///
    /// `weights` must have a sum of at most [`WEIGHT_TOTAL`]; `labels` and `weights` have one entry
    /// a sample.
    ///
    /// # Errors
    /// [`DeviceError`] when the device that boosts fails.
    fn boost(
        &self,
        matrix: &BinnedMatrix,
        labels: &[bool],
        weights: &[u32],
        params: &BoostParams,
    ) -> Result<Vec<Weak>, DeviceError>;
}

/// What a search through the features finds in one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Row of the matrix.
    pub feature: u32,
    /// Twice the weighted error, in units of the weights.
    pub error2: u32,
    /// Twice the weighted error times 8, or times 7 where a threshold is preferred: what candidates
    /// are ranked by.
    pub cost: u64,
    /// Bit `b` set: bin `b` votes +1.
    pub votes: u64,
}

impl Candidate {
    /// The better of two: lower cost, then lower feature. Associative and commutative, so a search
    /// may be split anyhow.
    pub fn better(self, other: Self) -> Self {
        if (other.cost, other.feature) < (self.cost, self.feature) { other } else { self }
    }
}

/// The best weak classifier of one feature, from the signed weights D\[b\] in its bins and the sum
/// of the weights.
///
/// Ties go to the lowest threshold (a threshold t puts bins ≤ t on one side; t = 63 is the constant
/// vote), then to +1 on the upper side. A bin with D\[b\] = 0, an empty one among them, votes −1 in
/// a histogram.
pub fn best_of_feature(feature: u32, signed: &[i32; 64], total: u32, kind: WeakKind) -> Candidate {
    let threshold = || {
        let all: i32 = signed.iter().sum();
        let (mut cum, mut gain, mut best) = (0i32, -1i32, (0u32, false));
        for (t, &d) in signed.iter().enumerate() {
            cum += d;
            let difference = (all - cum) - cum;
            if difference.abs() > gain {
                gain = difference.abs();
                best = (t as u32, difference >= 0);
            }
        }
        let upper = (u64::MAX << best.0) << 1;
        let error2 = total - gain as u32;
        Candidate {
            feature,
            error2,
            cost: error2 as u64 * 7,
            votes: if best.1 { upper } else { !upper },
        }
    };
    let histogram = |bins: usize| {
        let merged = 64 / bins;
        let (mut gain, mut votes) = (0u32, 0u64);
        for (b, group) in signed.chunks_exact(merged).enumerate() {
            let d: i32 = group.iter().sum();
            gain += d.unsigned_abs();
            if d > 0 {
                votes |= (u64::MAX >> (64 - merged)) << (b * merged);
            }
        }
        let error2 = total - gain;
        Candidate { feature, error2, cost: error2 as u64 * 8, votes }
    };
    match kind {
        WeakKind::Threshold => threshold(),
        WeakKind::Histogram { bins } => histogram(output_bins(bins)),
        WeakKind::Best => threshold().better(histogram(16)),
    }
}

/// The number of output bins that is used for a number asked for: the next power of two, between 2
/// and 64.
pub fn output_bins(asked: u8) -> usize {
    (asked.clamp(2, 64) as usize).next_power_of_two()
}

/// α = ½ ln((1 − ε)/ε) in units of 2⁻¹⁶, rounded, from twice the weighted error; ε is clamped to
/// [2⁻²⁰, ½]. `total` must not be 0.
pub fn alpha_of_error(error2: u32, total: u32) -> i32 {
    let error = (error2 as f64 / (2.0 * total as f64)).clamp(1.0 / (1u32 << 20) as f64, 0.5);
    (0.5 * libm::log((1.0 - error) / error) * (1u32 << ALPHA_BITS) as f64).round() as i32
}

/// Whether boosting adds a weak classifier of this error: ε ≤ θ, and a vote that weighs something.
pub fn accepts(error2: u32, total: u32, max_error: f64) -> bool {
    error2 as f64 <= 2.0 * max_error * total as f64 && alpha_of_error(error2, total) > 0
}

/// The next round's weights: the samples that were right and those that were wrong get one half of
/// [`WEIGHT_TOTAL`] each, which is AdaBoost's update after its normalisation. Each weight is
/// rounded down, so the total never exceeds its limit; a weight that reaches 0 stays 0. Returns the
/// new total, or `None` (weights untouched) when no weight was wrong and so nothing is left to
/// learn.
pub fn reweight(weights: &mut [u32], right: impl Fn(usize) -> bool) -> Option<u32> {
    let (mut sum_right, mut sum_wrong) = (0u64, 0u64);
    for (s, &w) in weights.iter().enumerate() {
        if right(s) { sum_right += w as u64 } else { sum_wrong += w as u64 }
    }
    if sum_wrong == 0 || sum_right == 0 {
        return None;
    }
    let half = (WEIGHT_TOTAL / 2) as u64;
    let mut total = 0;
    for (s, w) in weights.iter_mut().enumerate() {
        *w = (*w as u64 * half / if right(s) { sum_right } else { sum_wrong }) as u32;
        total += *w;
    }
    (total > 0).then_some(total)
}

/// AdaBoost around a search: `find_best` gets the signed weights (w·y) of the samples and their
/// total, and returns the best candidate of all features. What backends share, so that they differ
/// in their search alone.
///
/// # Panics
/// When labels or weights have not one entry a sample, or the weights add up to more than
/// [`WEIGHT_TOTAL`].
pub fn adaboost(
    matrix: &BinnedMatrix,
    labels: &[bool],
    weights: &[u32],
    params: &BoostParams,
    mut find_best: impl FnMut(&[i32], u32) -> Option<Candidate>,
) -> Vec<Weak> {
    assert!(
        labels.len() == matrix.samples() && weights.len() == matrix.samples(),
        "one label and one weight a sample"
    );
    let sum: u64 = weights.iter().map(|&w| w as u64).sum();
    assert!(sum <= WEIGHT_TOTAL as u64, "weights must sum to at most 2^30");
    let mut weights = weights.to_vec();
    let mut total = sum as u32;
    let mut signed = vec![0i32; weights.len()];
    let mut strong = Vec::new();
    while total > 0 && strong.len() < params.rounds {
        for ((signed, &w), &label) in signed.iter_mut().zip(&weights).zip(labels) {
            *signed = if label { w as i32 } else { -(w as i32) };
        }
        let Some(best) =
            find_best(&signed, total).filter(|best| accepts(best.error2, total, params.max_error))
        else {
            break;
        };
        let bounds = matrix.bounds(best.feature as usize);
        strong.push(Weak {
            feature: best.feature,
            bounds,
            votes: best.votes,
            alpha: alpha_of_error(best.error2, total),
        });
        let row = matrix.row(best.feature as usize);
        let Some(next) = reweight(&mut weights, |s| ((best.votes >> row[s]) & 1 == 1) == labels[s])
        else {
            break;
        };
        total = next;
    }
    strong
}
