//! What more training cases would bring, from a [`PowerLaw`] through the errors so far.
//!
//! How far it can be believed comes from the bootstrap over the tested cases, and from how far the
//! errors lie off the curve: each training was done once, and another choice of cases would have
//! given another error.

use crate::bootstrap::{CaseSum, Interval, pooled_mean, resampled_means};
use crate::power_law::{PowerLaw, powers};
use pbt_volume::Random;
use serde::{Deserialize, Serialize};

/// Parameters of the curve: it runs through any three points, and says nothing about them.
const PARAMETERS: usize = 3;
/// Sizes of a curve from which on an outlook can be told.
pub const FEWEST_SIZES: usize = PARAMETERS + 1;

/// A gain below this share of the error is little.
const LITTLE: f64 = 0.05;

/// What doubling the cases would bring, as far as can be told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outlook {
    /// The curve; `None` of fewer than four sizes.
    pub fit: Option<PowerLaw>,
    /// Standard deviation of the errors about the curve, mm, for the degrees of freedom that three
    /// parameters leave: what varies from training to training.
    pub residual_mm: Option<f64>,
    /// What the curve promises for twice the largest number of cases, mm less.
    pub gain_mm: Option<f64>,
    /// Holds 95 % of the gains when the tested cases are drawn anew and the errors vary from
    /// training to training.
    pub interval: Option<Interval>,
    /// What follows.
    pub verdict: Verdict,
}

/// What the curve says about more cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Fewer sizes than a curve needs.
    TooFewSizes,
    /// Fewer than two tested cases.
    TooFewCases,
    /// The errors do not decide whether there is anything to gain.
    CannotTell,
    /// Less than a twentieth of the error is to be gained.
    Little,
    /// The error would fall.
    Gain,
}

impl Outlook {
    /// From the sizes in ascending order and the errors at each: `errors[size][case]`, mm, the same
    /// tested cases at every size.
    pub fn new(sizes: &[usize], errors: &[Vec<CaseSum>], seed: u64) -> Self {
        let unknown =
            |verdict| Self { fit: None, residual_mm: None, gain_mm: None, interval: None, verdict };
        let means: Option<Vec<f64>> = errors.iter().map(|cases| pooled_mean(cases)).collect();
        let (Some(means), Some(&largest)) = (means, sizes.last()) else {
            return unknown(Verdict::TooFewCases);
        };
        if sizes.len() < FEWEST_SIZES {
            return unknown(Verdict::TooFewSizes);
        }
        let powers = powers(sizes);
        let Some(fit) = PowerLaw::fit_with(&powers, &means) else {
            return unknown(Verdict::TooFewSizes);
        };
        let largest = largest as f64;
        let squares = sizes
            .iter()
            .zip(&means)
            .map(|(&n, error)| (fit.at(n as f64) - error).powi(2))
            .sum::<f64>();
        let residual_mm = (squares / (sizes.len() - PARAMETERS) as f64).sqrt();
        let gain_mm = fit.gain(largest);
        let fitted = Self {
            fit: Some(fit),
            residual_mm: Some(residual_mm),
            gain_mm: Some(gain_mm),
            ..unknown(Verdict::TooFewCases)
        };
        if errors[0].iter().filter(|case| case.count > 0).count() < 2 {
            return fitted;
        }
        let resampled = resampled_means(errors, seed);
        let mut random = Random::from_seed(seed.wrapping_add(1));
        let gains = (0..resampled[0].len()).filter_map(|r| {
            let errors: Option<Vec<f64>> = resampled
                .iter()
                .map(|means| Some(means[r]? + residual_mm * random.normal()))
                .collect();
            Some(PowerLaw::fit_with(&powers, &errors?)?.gain(largest))
        });
        let interval = Interval::of(gains);
        let verdict = match interval {
            Some(Interval { high, .. }) if high.max(residual_mm) < LITTLE * fit.at(largest) => {
                Verdict::Little
            }
            Some(Interval { low, .. }) if low > 0.0 && residual_mm < gain_mm => Verdict::Gain,
            _ => Verdict::CannotTell,
        };
        Self { interval, verdict, ..fitted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 5] = [5, 10, 20, 40, 80];

    /// Errors of 30 cases, each with its own difficulty, at every size.
    fn errors(law: PowerLaw, noise: f64) -> Vec<Vec<CaseSum>> {
        let mut random = Random::from_seed(8);
        let ease: Vec<f64> = (0..30).map(|_| random.between(0.7, 1.3)).collect();
        let off: Vec<f64> = SIZES.iter().map(|_| noise * random.normal()).collect();
        let at = |s: usize, ease: f64| CaseSum {
            sum: (law.at(SIZES[s] as f64) + off[s]) * ease,
            count: 1,
        };
        (0..SIZES.len()).map(|s| ease.iter().map(|&e| at(s, e)).collect()).collect()
    }

    #[test]
    fn a_falling_curve_promises_a_gain() {
        let law = PowerLaw { a: 0.5, b: 8.0, c: 0.5 };
        let outlook = Outlook::new(&SIZES, &errors(law, 0.0), 0);
        assert_eq!(outlook.verdict, Verdict::Gain);
        let (gain, interval) = (outlook.gain_mm.unwrap(), outlook.interval.unwrap());
        assert!(
            (gain - law.gain(80.0)).abs() < 0.1 * gain
                && interval.low < gain
                && gain < interval.high,
            "{outlook:?}"
        );
    }

    #[test]
    fn a_flat_curve_promises_little_and_a_noisy_one_nothing() {
        let flat = Outlook::new(&SIZES, &errors(PowerLaw { a: 2.0, b: 2.0, c: 2.0 }, 0.0), 0);
        assert_eq!(flat.verdict, Verdict::Little);
        let noisy = Outlook::new(&SIZES, &errors(PowerLaw { a: 1.0, b: 1.0, c: 0.5 }, 0.5), 0);
        assert_eq!(noisy.verdict, Verdict::CannotTell, "{noisy:?}");
    }

    #[test]
    fn too_little_to_go_by_is_said() {
        let all = errors(PowerLaw { a: 0.5, b: 8.0, c: 0.5 }, 0.0);
        let three = Outlook::new(&SIZES[..3], &all[..3], 0);
        assert!((three.verdict, three.fit) == (Verdict::TooFewSizes, None));
        let one: Vec<Vec<CaseSum>> = all.iter().map(|cases| cases[..1].to_vec()).collect();
        let one = Outlook::new(&SIZES, &one, 0);
        assert!(one.verdict == Verdict::TooFewCases && one.fit.is_some() && one.interval.is_none());
        assert_eq!(
            Outlook::new(&SIZES, &vec![vec![CaseSum::default(); 3]; 5], 0).verdict,
            Verdict::TooFewCases
        );
    }
}
