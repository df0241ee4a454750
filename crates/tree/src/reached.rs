//! The samples that reach a node of a growing tree, with the weights of their paths.

use crate::boost::WEIGHT_TOTAL;
use crate::device_error::DeviceError;
use crate::draw::systematic;
use crate::fixed::{MASS_BITS, margin_of_probability, minor_probability};
use crate::source::{SampleSource, margins};
use crate::weak::Weak;
use rand_chacha::ChaCha8Rng;

/// Path weight 1 of a sample. A weight below 2⁻³⁰ is dropped.
pub(crate) const PATH_ONE: u32 = 1 << 30;

/// The samples that reach a node, in rising order, and their path weights.
#[derive(Default)]
pub(crate) struct Reached {
    pub(crate) samples: Vec<u32>,
    pub(crate) weights: Vec<u32>,
}

impl Reached {
    /// All of `samples` with the weight 1.
    pub(crate) fn all(samples: &[u32]) -> Self {
        let mut samples = samples.to_vec();
        samples.sort_unstable();
        Self { weights: vec![PATH_ONE; samples.len()], samples }
    }

    pub(crate) fn push(&mut self, sample: u32, weight: u32) {
        if weight > 0 {
            self.samples.push(sample);
            self.weights.push(weight);
        }
    }

    /// Sum of the path weights of a class, in units of 2⁻³⁰.
    pub(crate) fn mass(&self, labels: &[bool], label: bool) -> u64 {
        let of_class =
            self.samples.iter().zip(&self.weights).filter(|(s, _)| labels[**s as usize] == label);
        of_class.map(|(_, &w)| w as u64).sum()
    }

    /// Samples to train a node on and their boosting weights: of each class all, or `most` drawn by
    /// path weight where there are more; each class weighs one half of [`WEIGHT_TOTAL`] at most.
    pub(crate) fn draw(
        &self,
        labels: &[bool],
        most: impl Fn(bool) -> usize,
        rng: &mut ChaCha8Rng,
    ) -> (Vec<u32>, Vec<u32>) {
        let mut chosen = Vec::new();
        for label in [true, false] {
            let of_class: Vec<usize> = (0..self.samples.len())
                .filter(|&i| labels[self.samples[i] as usize] == label)
                .collect();
            let mut weights: Vec<u32> = of_class.iter().map(|&i| self.weights[i]).collect();
            if of_class.len() > most(label) {
                weights = systematic(&weights, most(label), rng);
            }
            let total: u64 = weights.iter().map(|&w| w as u64).sum();
            let scaled = |w: u32| (w as u64 * (WEIGHT_TOTAL as u64 / 2) / total.max(1)) as u32;
            let drawn = of_class.iter().zip(weights).filter(|(_, w)| *w > 0);
            chosen.extend(drawn.map(|(&i, w)| (i, self.samples[i], scaled(w))));
        }
        chosen.sort_unstable();
        chosen.into_iter().map(|(_, sample, weight)| (sample, weight)).unzip()
    }
}

/// What turns the masses of the two classes in a node into q_N(+1).
#[derive(Clone, Copy)]
pub(crate) struct Empirical {
    /// Samples of the class +1 at the root.
    pub(crate) positives: u64,
    /// Samples of the class −1 at the root.
    pub(crate) negatives: u64,
}

impl Empirical {
    pub(crate) fn new(labels: &[bool], samples: &[u32]) -> Self {
        let positives = samples.iter().filter(|&&s| labels[s as usize]).count() as u64;
        Self { positives, negatives: samples.len() as u64 - positives }
    }

    /// q_N(+1) in units of 2⁻³², from the sums of path weights of the classes.
    ///
    /// Each class starts with half of the mass. Laplace's rule adds to each class the mass of one
    /// sample of the smaller class, so q is never 0 or 1, and ½ in a node that no sample reaches.
    pub(crate) fn q(&self, mass_positive: u64, mass_negative: u64) -> u32 {
        let one_sample = PATH_ONE as u128 * self.positives.max(self.negatives) as u128;
        let positive = mass_positive as u128 * self.negatives as u128 + one_sample;
        let negative = mass_negative as u128 * self.positives as u128 + one_sample;
        ((positive << 32) / (positive + negative)).clamp(1, u32::MAX as u128) as u32
    }
}

/// Sends all samples of a node to its children: right when q̂ > ½ + ε, left when q̂ < ½ − ε, else
/// to both with the weights q̂ and 1 − q̂.
///
/// # Errors
/// [`DeviceError`] when a device that makes the responses fails.
pub(crate) fn split(
    source: &dyn SampleSource,
    reached: &Reached,
    weaks: &[Weak],
    epsilon: f64,
) -> Result<(Reached, Reached), DeviceError> {
    let both = margin_of_probability(0.5 + epsilon);
    let (mut left, mut right) = (Reached::default(), Reached::default());
    let margins = margins(source, weaks, &reached.samples)?;
    for ((&sample, &weight), margin) in reached.samples.iter().zip(&reached.weights).zip(margins) {
        let minor = ((weight as u128 * minor_probability(margin) as u128) >> MASS_BITS) as u32;
        if margin > both {
            right.push(sample, weight);
        } else if margin < -both {
            left.push(sample, weight);
        } else {
            let (to_left, to_right) =
                if margin >= 0 { (minor, weight - minor) } else { (weight - minor, minor) };
            left.push(sample, to_left);
            right.push(sample, to_right);
        }
    }
    Ok((left, right))
}

/// A source for tests: one feature a column.
#[cfg(test)]
pub(crate) struct Columns(pub(crate) Vec<Vec<i32>>);

#[cfg(test)]
impl SampleSource for Columns {
    fn sample_count(&self) -> usize {
        self.0[0].len()
    }

    fn feature_count(&self) -> usize {
        self.0.len()
    }

    fn respond(
        &self,
        features: &[u32],
        samples: &[u32],
        out: &mut [i32],
    ) -> Result<(), DeviceError> {
        for (out, &f) in out.chunks_exact_mut(samples.len()).zip(features) {
            out.iter_mut().zip(samples).for_each(|(out, &s)| *out = self.0[f as usize][s as usize]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bins::Bounds;
    use crate::draw::stream;
    use approx::assert_abs_diff_eq;
    use proptest::prelude::*;

    #[test]
    fn empirical_distribution_gives_each_class_half_of_the_mass() {
        let labels: Vec<bool> = (0..110).map(|s| s < 10).collect();
        let samples: Vec<u32> = (0..110).collect();
        let empirical = Empirical::new(&labels, &samples);
        let q = |positives: f64, negatives: f64| {
            let mass = |n: f64| (n * PATH_ONE as f64) as u64;
            empirical.q(mass(positives), mass(negatives)) as f64 / 2f64.powi(32)
        };
        // All samples, or none: ½. Otherwise shares of the classes, each with one tenth (a
        // positive's mass) added.
        assert_eq!((q(10.0, 100.0), q(0.0, 0.0)), (0.5, 0.5));
        assert_abs_diff_eq!(q(10.0, 0.0), 1.1 / 1.2, epsilon = 1e-9);
        assert_abs_diff_eq!(q(5.0, 100.0), 0.6 / 1.7, epsilon = 1e-9);
        assert_abs_diff_eq!(q(0.0, 50.0), 0.1 / 0.7, epsilon = 1e-9);
    }

    proptest! {
        #[test]
        fn draws_balance_the_classes(weights in prop::collection::vec((any::<bool>(), 1u32..PATH_ONE), 1..80), most in 1usize..40, seed: u64) {
            let labels: Vec<bool> = weights.iter().map(|w| w.0).collect();
            let reached = Reached { samples: (0..weights.len() as u32).collect(), weights: weights.iter().map(|w| w.1).collect() };
            let (drawn, drawn_weights) = reached.draw(&labels, |_| most, &mut stream(seed, 0, 0));
            prop_assert!(drawn.windows(2).all(|w| w[0] < w[1]));
            for label in [true, false] {
                let of_class: Vec<usize> = (0..drawn.len()).filter(|&i| labels[drawn[i] as usize] == label).collect();
                let there = labels.iter().filter(|&&l| l == label).count();
                prop_assert!(of_class.len() <= most.min(there) && (there == 0 || !of_class.is_empty()));
                let total: u64 = of_class.iter().map(|&i| drawn_weights[i] as u64).sum();
                let half = WEIGHT_TOTAL as u64 / 2;
                prop_assert!(total <= half && (there == 0 || total > half - 100), "{total}");
            }
        }

        #[test]
        fn a_split_keeps_every_weight(x in prop::collection::vec(0i32..64, 1..50), alpha in 0i32..200_000, epsilon in 0.0f64..0.5) {
            let source = Columns(vec![x.clone()]);
            let samples: Vec<u32> = (0..x.len() as u32).collect();
            let weak = Weak { feature: 0, bounds: Bounds::new(0, 63), votes: !0 << 32, alpha };
            let (left, right) = split(&source, &Reached::all(&samples), &[weak], epsilon).expect("responses");
            let mut sums = vec![0u32; x.len()];
            for side in [&left, &right] {
                side.samples.iter().zip(&side.weights).for_each(|(&s, &w)| sums[s as usize] += w);
            }
            prop_assert!(sums.iter().all(|&sum| sum == PATH_ONE));
            let q = 1.0 / (1.0 + (-2.0 * alpha as f64 / 65536.0).exp());
            for (&s, &w) in right.samples.iter().zip(&right.weights) {
                let share = w as f64 / PATH_ONE as f64;
                let upper = x[s as usize] >= 32;
                let expected = if upper { q } else { 1.0 - q };
                prop_assert!((share - expected).abs() < 1e-6 || (share == 1.0 && upper && q > 0.5 + epsilon - 1e-4), "{share} {expected}");
            }
        }
    }
}
