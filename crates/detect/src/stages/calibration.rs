//! From what a classifier says to a probability.

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

impl Calibration {
    /// Maximum likelihood with Platt's smoothed targets, both classes of equal weight, by Newton's
    /// method.
    pub(crate) fn fit(samples: &[(f64, bool)]) -> Self {
        let count = |label| samples.iter().filter(|s| s.1 == label).count() as f64;
        let (positives, negatives) = (count(true), count(false));
        let mut fitted = Self { slope: 1.0, intercept: 0.0 };
        if positives == 0.0 || negatives == 0.0 {
            return fitted;
        }
        for _ in 0..50 {
            // Gradient and Hessian of the negative log-likelihood; the small diagonal keeps
            // separable data finite.
            let (mut ga, mut gb, mut haa, mut hab, mut hbb) =
                (1e-3 * fitted.slope, 0.0, 1e-3, 0.0, 1e-6);
            for &(x, label) in samples {
                let (target, weight) = if label {
                    ((positives + 1.0) / (positives + 2.0), 1.0 / positives)
                } else {
                    (1.0 / (negatives + 2.0), 1.0 / negatives)
                };
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
            // Damped, since the curve is flat far from the middle.
            let damp = 1.0f64.min(2.0 / (da.abs() + db.abs()).max(1e-12));
            fitted.slope -= damp * da;
            fitted.intercept -= damp * db;
        }
        // A classifier that ranks held-out cases upside down says nothing.
        Self { slope: fitted.slope.max(0.0), intercept: fitted.intercept }
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
