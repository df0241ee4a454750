//! Ridge regression whose sums are exact: integer features and targets, one f64 factorisation in a
//! fixed order.
//!
//! The Gram matrix of 12-bit features over a few ten thousand samples stays below 2⁵³, so its sums
//! are exact integers whatever their order; only the factorisation rounds, in an order of its own.
//! With fewer samples than features the same weights come from the smaller matrix of the samples'
//! inner products (the dual form: Saunders et al. 1998, section 2).

use crate::cholesky::{factorise, substitute};
use crate::gram::gram;
use crate::inner_products::LARGEST;
use rayon::prelude::*;

/// Samples for a fit: centred 12-bit features, feature after feature, and targets.
pub(crate) struct Samples {
    /// `features[f * n + s]`, |value| ≤ 4095.
    pub(crate) features: Vec<i16>,
    /// `targets[t][s]`, |value| ≤ 2²⁰.
    pub(crate) targets: Vec<Vec<i32>>,
    /// Number of samples.
    pub(crate) n: usize,
}

/// Means of the features of samples whose features lie side by side (`patches[s * length + f]`),
/// rounded down, and what is left of the features without them, within 12 bits and a sign, feature
/// after feature as [`Samples`] has them.
pub(crate) fn centred(patches: &[i16], length: usize) -> (Vec<i16>, Vec<i16>) {
    // Few features at a time, so that a patch's cache lines are read by few of them.
    const STRIP: usize = 32;
    let n = patches.len() / length;
    let mut means = vec![0i16; length];
    let mut features = vec![0i16; n * length];
    features.par_chunks_mut(STRIP * n).zip(means.par_chunks_mut(STRIP)).enumerate().for_each(
        |(strip, (columns, means))| {
            let values = |s: usize| &patches[s * length + strip * STRIP..][..means.len()];
            let mut sums = [0i64; STRIP];
            for s in 0..n {
                sums.iter_mut().zip(values(s)).for_each(|(sum, &value)| *sum += i64::from(value));
            }
            let centres: [i16; STRIP] = sums.map(|sum| sum.div_euclid(n as i64) as i16);
            for s in 0..n {
                for (f, (value, centre)) in values(s).iter().zip(centres).enumerate() {
                    columns[f * n + s] = (value - centre).clamp(-LARGEST, LARGEST);
                }
            }
            means.copy_from_slice(&centres[..means.len()]);
        },
    );
    (means, features)
}

/// The normal equations of samples: the expensive part of a fit, which all penalties share.
#[derive(Clone)]
pub struct Equations<'a> {
    samples: &'a Samples,
    /// Inner products of the features, or of the samples where they are fewer; the lower triangle,
    /// row-major.
    gram: Vec<f64>,
}

impl<'a> Equations<'a> {
    pub(crate) fn new(samples: &'a Samples) -> Self {
        let columns = samples.columns();
        let gram = if samples.is_dual() {
            let (n, p) = (samples.n, columns.len());
            let mut rows = vec![0i16; n * p];
            rows.par_chunks_mut(p).enumerate().for_each(|(s, row)| {
                row.iter_mut().zip(&columns).for_each(|(to, column)| *to = column[s])
            });
            gram(&rows.chunks_exact(p).collect::<Vec<_>>())
        } else {
            gram(&columns)
        };
        Self { samples, gram }
    }

    /// Solves `(G + λ·mean(diag G)·I) w = Xᵀ y` for every target. `w[t][f]` multiplies feature `f`.
    pub fn solve(mut self, lambda: f64) -> Vec<Vec<f64>> {
        let columns = self.samples.columns();
        let size = if self.samples.is_dual() { self.samples.n } else { columns.len() };
        // The matrices of features and of samples have the same trace.
        add_ridge(&mut self.gram, size, columns.len(), lambda);
        factorise(&mut self.gram, size);
        let targets = &self.samples.targets;
        if self.samples.is_dual() {
            // One equation a sample: `(X Xᵀ + λ·mean(diag G)·I) a = y`, `w = Xᵀ a`.
            let mut right: Vec<Vec<f64>> = targets
                .iter()
                .map(|target| target.iter().map(|&y| f64::from(y)).collect())
                .collect();
            substitute(&self.gram, size, &mut right);
            let weight = |column: &[i16], a: &[f64]| {
                column.iter().zip(a).map(|(&x, a)| f64::from(x) * a).sum()
            };
            right
                .iter()
                .map(|a| columns.par_iter().map(|column| weight(column, a)).collect())
                .collect()
        } else {
            let product = |column: &[i16], target: &[i32]| {
                column.iter().zip(target).map(|(&x, &y)| i64::from(x) * i64::from(y)).sum::<i64>()
            };
            let side = |target: &Vec<i32>| {
                columns.par_iter().map(|column| product(column, target) as f64).collect()
            };
            let mut right: Vec<Vec<f64>> = targets.iter().map(side).collect();
            substitute(&self.gram, size, &mut right);
            right
        }
    }
}

impl Samples {
    fn columns(&self) -> Vec<&[i16]> {
        self.features.chunks_exact(self.n).collect()
    }

    /// Fewer samples than features.
    fn is_dual(&self) -> bool {
        self.n < self.features.len() / self.n
    }
}

/// Adds λ·trace/p to the diagonal of an n × n matrix. A floor keeps it positive definite where
/// every feature is constant.
fn add_ridge(matrix: &mut [f64], n: usize, p: usize, lambda: f64) {
    let trace = (0..n).map(|i| matrix[i * n + i]).sum::<f64>();
    let ridge = (lambda * trace / p as f64).max(1.0);
    for i in 0..n {
        matrix[i * n + i] += ridge;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random;

    fn random_samples(n: usize, p: usize) -> Samples {
        let mut random = test_random(5);
        let features = (0..n * p).map(|_| random.between(-4095.0, 4095.0) as i16).collect();
        let targets =
            (0..2).map(|_| (0..n).map(|_| random.between(-1e6, 1e6) as i32).collect()).collect();
        Samples { features, targets, n }
    }

    /// nalgebra's dense solver is the oracle.
    #[test]
    fn solves_what_nalgebra_solves() {
        for (n, p) in [(1500, 130), (140, 300)] {
            compare(n, p);
        }
    }

    fn compare(n: usize, p: usize) {
        let samples = random_samples(n, p);
        let x = nalgebra::DMatrix::from_fn(n, p, |s, f| f64::from(samples.features[f * n + s]));
        let gram = x.transpose() * &x;
        let ridge = 0.02 * gram.trace() / p as f64;
        let solver = (gram + nalgebra::DMatrix::identity(p, p) * ridge).cholesky().unwrap();
        for (target, found) in samples.targets.iter().zip(Equations::new(&samples).solve(0.02)) {
            let y = nalgebra::DVector::from_fn(n, |s, _| f64::from(target[s]));
            let expected = solver.solve(&(x.transpose() * y));
            for f in 0..p {
                assert!(
                    (found[f] - expected[f]).abs() < 1e-9 * expected.amax(),
                    "{} against {}",
                    found[f],
                    expected[f]
                );
            }
        }
    }

    #[test]
    fn threads_do_not_show() {
        for (n, p) in [(1100, 150), (150, 400)] {
            threads(&random_samples(n, p));
        }
    }

    fn threads(samples: &Samples) {
        let run = |threads| {
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap()
                .install(|| Equations::new(samples).solve(0.1))
        };
        let (one, three) = (run(1), run(3));
        assert!(
            one.iter()
                .flatten()
                .zip(three.iter().flatten())
                .all(|(a, b)| a.to_bits() == b.to_bits())
        );
    }
}
