//! A power law through errors at growing numbers of cases.
//!
//! Errors of learners fall as error(n) = a + b·n^(−c) with the number n of training cases: a is
//! what no number of cases removes (Cortes et al. 1993; Figueroa et al. 2012 fit it to annotated
//! sets of the size met here). The fit is least squares with a, b ≥ 0; for each c of a grid that is
//! linear.

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

/// The grid of n^(−c): `powers[exponent][size]`.
pub(crate) fn powers(sizes: &[usize]) -> Vec<Vec<f64>> {
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

    /// As [`PowerLaw::fit`] with the grid of [`powers`], for many fits at the same sizes.
    pub(crate) fn fit_with(powers: &[Vec<f64>], errors: &[f64]) -> Option<Self> {
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
    pub(crate) fn gain(&self, cases: f64) -> f64 {
        self.at(cases) - self.at(2.0 * cases)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::Random;

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
        let mut random = Random::from_seed(4);
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
}
