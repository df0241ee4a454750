//! What more training cases would bring: a power law through errors at growing numbers of cases.
//!
//! Errors of learners fall as error(n) = a + b·n^(−c) with the number n of training cases: a is
//! what no number of cases removes (Cortes et al. 1993; Figueroa et al. 2012 fit it to annotated
//! sets of the size met here). The fit is least squares with a, b ≥ 0; for each c of a grid that is
//! linear. How far it can be believed comes from the bootstrap over the tested cases, and from how
//! far the errors lie off the curve: each training was done once, and another choice of cases would
//! have given another error.

use crate::bootstrap::{CaseSum, Interval, pooled_mean, resampled_means};
use crate::random::Random;
use serde::{Deserialize, Serialize};

/// error(n) = a + b·n^(−c), mm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PowerLaw {
    /// What is left with any number of cases, mm.
    pub a: f64,
    /// What one case would have on top of it, mm.
    pub b: f64,
    /// How fast it falls.
    pub c: f64,
}

/// The exponents that are tried: 0.05, 0.10 … 2.
const EXPONENTS: usize = 40;

/// Parameters of the curve: it runs through any three points, and says nothing about them.
const PARAMETERS: usize = 3;
const FEWEST_SIZES: usize = PARAMETERS + 1;

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

/// The grid of n^(−c): `powers[exponent][size]`.
fn powers(sizes: &[usize]) -> Vec<Vec<f64>> {
    (0..EXPONENTS)
        .map(|e| sizes.iter().map(|&n| libm::pow(n as f64, -exponent(e))).collect())
        .collect()
}

fn exponent(e: usize) -> f64 {
    (e + 1) as f64 * 0.05
}

impl PowerLaw {
    /// The curve with the least squares of distances; of equals the one with the least exponent.
    /// `None` of no points.
    pub fn fit(sizes: &[usize], errors: &[f64]) -> Option<Self> {
        Self::fit_with(&powers(sizes), errors).filter(|_| !sizes.is_empty())
    }

    fn fit_with(powers: &[Vec<f64>], errors: &[f64]) -> Option<Self> {
        let n = errors.len() as f64;
        let mean = errors.iter().sum::<f64>() / n;
        let of_exponent = |(e, x): (usize, &Vec<f64>)| {
            let mean_x = x.iter().sum::<f64>() / n;
            let sum = |f: &dyn Fn(f64, f64) -> f64| {
                x.iter().zip(errors).map(|(&x, &y)| f(x, y)).sum::<f64>()
            };
            let spread = sum(&|x, _| (x - mean_x) * (x - mean_x));
            let slope =
                if spread > 0.0 { sum(&|x, y| (x - mean_x) * (y - mean)) / spread } else { 0.0 };
            // Of a convex function the best point of a quadrant lies inside or on the border that
            // the free optimum is beyond.
            let (a, b) = if slope <= 0.0 {
                (mean, 0.0)
            } else if mean - slope * mean_x < 0.0 {
                (0.0, sum(&|x, y| x * y) / sum(&|x, _| x * x))
            } else {
                (mean - slope * mean_x, slope)
            };
            (sum(&|x, y| (a + b * x - y).powi(2)), Self { a: a.max(0.0), b, c: exponent(e) })
        };
        powers
            .iter()
            .enumerate()
            .map(of_exponent)
            .reduce(|best, next| if next.0 < best.0 { next } else { best })
            .map(|(_, law)| law)
    }

    /// The error with so many cases, mm.
    pub fn at(&self, cases: f64) -> f64 {
        self.a + self.b * libm::pow(cases, -self.c)
    }

    /// By how much twice as many cases lower the error, mm.
    fn gain(&self, cases: f64) -> f64 {
        self.at(cases) - self.at(2.0 * cases)
    }
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
    use crate::random::Random;

    const SIZES: [usize; 5] = [5, 10, 20, 40, 80];

    #[test]
    fn a_power_law_is_found_again() {
        for law in [
            PowerLaw { a: 1.0, b: 6.0, c: 0.75 },
            PowerLaw { a: 0.0, b: 3.0, c: 0.3 },
            PowerLaw { a: 2.0, b: 0.0, c: 0.05 },
        ] {
            let errors = SIZES.map(|n| law.at(n as f64));
            let found = PowerLaw::fit(&SIZES, &errors).unwrap();
            for n in [5.0, 80.0, 160.0] {
                assert!((found.at(n) - law.at(n)).abs() < 1e-9, "{found:?} {law:?}");
            }
        }
        assert!(PowerLaw::fit(&[], &[]).is_none());
    }

    /// A fine grid of all three parameters is the oracle of the least squares.
    #[test]
    fn no_other_curve_lies_nearer() {
        let mut random = Random::for_test(4);
        for _ in 0..20 {
            let errors = SIZES.map(|n| 1.0 + 4.0 / (n as f64).sqrt() + 0.5 * random.normal());
            let squares = |law: PowerLaw| {
                SIZES.iter().zip(errors).map(|(&n, e)| (law.at(n as f64) - e).powi(2)).sum::<f64>()
            };
            let found = PowerLaw::fit(&SIZES, &errors).unwrap();
            assert!(found.a >= 0.0 && found.b >= 0.0);
            for e in 0..EXPONENTS {
                for (a, b) in
                    (0..40).flat_map(|a| (0..60).map(move |b| (0.1 * a as f64, 0.25 * b as f64)))
                {
                    assert!(squares(found) <= squares(PowerLaw { a, b, c: exponent(e) }) + 1e-9);
                }
            }
        }
    }

    /// Errors of 30 cases, each with its own difficulty, at every size.
    fn errors(law: PowerLaw, noise: f64) -> Vec<Vec<CaseSum>> {
        let mut random = Random::for_test(8);
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
