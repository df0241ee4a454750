//! Platt scaling: from a classifier's log-odds to a probability. Published scores go on from there:
//! see `certainty/logistic.rs`.

use serde::{Deserialize, Serialize};

/// A logistic curve over the classifier's log-odds, fitted on cases that the classifier did not see
/// (Platt 1999).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Factor of the log-odds; not negative.
    pub slope: f64,
    /// Log-odds of the probability where the classifier's are 0.
    pub intercept: f64,
}

/// Most steps; some ten are enough.
const STEPS: usize = 100;

/// Most halvings of a step.
const HALVINGS: i32 = 40;

/// Penalty on the square of the slope.
const RIDGE: f64 = 1e-3;

impl Calibration {
    /// Maximum likelihood with Platt's smoothed targets, both classes of equal weight: Newton's
    /// method with steps that are halved until they help (Lin et al. 2007, algorithm 1).
    pub(crate) fn fit(samples: &[(f64, bool)]) -> Self {
        let count = |label| samples.iter().filter(|s| s.1 == label).count() as f64;
        let (positives, negatives) = (count(true), count(false));
        let mut fitted = Self { slope: 1.0, intercept: 0.0 };
        if positives == 0.0 || negatives == 0.0 {
            return fitted;
        }
        let (high, low) = ((positives + 1.0) / (positives + 2.0), 1.0 / (negatives + 2.0));
        let target = |label| if label { (high, 1.0 / positives) } else { (low, 1.0 / negatives) };
        let mut loss = fitted.loss(samples, &target);
        for _ in 0..STEPS {
            // Gradient and Hessian of the loss; the floor of the curve keeps the Hessian regular
            // far from the middle.
            let (mut ga, mut gb, mut haa, mut hab, mut hbb) =
                (RIDGE * fitted.slope, 0.0, RIDGE, 0.0, 1e-6);
            for &(x, label) in samples {
                let (target, weight) = target(label);
                let p = fitted.probability(x);
                let (error, curve) = (weight * (p - target), (weight * p * (1.0 - p)).max(1e-12));
                ga += error * x;
                gb += error;
                haa += curve * x * x;
                hab += curve * x;
                hbb += curve;
            }
            let determinant = haa * hbb - hab * hab;
            let (da, db) =
                ((hbb * ga - hab * gb) / determinant, (haa * gb - hab * ga) / determinant);
            let better = (0..HALVINGS).find_map(|halvings| {
                let step = libm::ldexp(1.0, -halvings);
                let next = Self {
                    slope: fitted.slope - step * da,
                    intercept: fitted.intercept - step * db,
                };
                let left = next.loss(samples, &target);
                (left < loss).then_some((next, left))
            });
            let Some((next, left)) = better else { break };
            (fitted, loss) = (next, left);
        }
        if fitted.slope > 0.0 {
            return fitted;
        }
        // A classifier that ranks held-out cases upside down says nothing: what is left is the mean
        // target.
        Self { slope: 0.0, intercept: libm::log((high + low) / (2.0 - high - low)) }
    }

    /// Cross-entropy against the targets, each class with the same weight in all, and a small
    /// penalty on the slope, which keeps separable data finite.
    fn loss(self, samples: &[(f64, bool)], target: &dyn Fn(bool) -> (f64, f64)) -> f64 {
        let of = |&(x, label): &(f64, bool)| {
            let (target, weight) = target(label);
            let z = self.log_odds(x);
            // ln(1 + e^z) − t·z without overflow.
            weight * (z.max(0.0) + libm::log1p(libm::exp(-z.abs())) - target * z)
        };
        samples.iter().map(of).sum::<f64>() + 0.5 * RIDGE * self.slope * self.slope
    }

    pub(crate) fn probability(self, log_odds: f64) -> f64 {
        1.0 / (1.0 + libm::exp(-self.log_odds(log_odds)))
    }

    /// The calibrated log-odds of a raw value.
    pub(crate) fn log_odds(self, raw: f64) -> f64 {
        self.slope * raw + self.intercept
    }
}

#[cfg(test)]
mod tests;
