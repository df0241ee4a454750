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

/// Solves `(V Vᵀ + ridge·I) x = b` for each of `ridges` and every right side `b`, as many numbers as there are
/// vectors: by ridge and by right side. The `vectors`, rows of V, are one after another, of so many values
/// each, within ±4095.
pub fn solutions(
    (vectors, length): (&[i16], usize),
    ridges: &[f64],
    right: &[Vec<f64>],
) -> Vec<Vec<Vec<f64>>> {
    let rows: Vec<&[i16]> = vectors.chunks_exact(length).collect();
    let size = rows.len();
    let products = gram(&rows);
    let solve = |mut matrix: Vec<f64>, ridge: f64| {
        (0..size).for_each(|i| matrix[i * size + i] += ridge);
        factorise(&mut matrix, size);
        let mut sides = right.to_vec();
        substitute(&matrix, size, &mut sides);
        sides
    };
    let Some((&last, others)) = ridges.split_last() else { return Vec::new() };
    let mut all: Vec<_> = others.iter().map(|&ridge| solve(products.clone(), ridge)).collect();
    all.push(solve(products, last));
    all
}

impl Samples {
    /// Solves `(G + λ·mean(diag G)·I) w = Xᵀ y` for every penalty and every target, where `solutions` does as
    /// [`solutions`]: by penalty `w[t][f]`, which multiplies feature `f`.
    ///
    /// # Errors
    /// Those of `solutions`.
    pub(crate) fn solve<E>(
        &self,
        penalties: &[f64],
        solutions: impl FnOnce((&[i16], usize), &[f64], &[Vec<f64>]) -> Result<Vec<Vec<Vec<f64>>>, E>,
    ) -> Result<Vec<Vec<Vec<f64>>>, E> {
        let columns = self.columns();
        let (n, p) = (self.n, columns.len());
        let ridges: Vec<f64> = penalties.iter().map(|penalty| self.ridge(*penalty)).collect();
        if self.is_dual() {
            let mut rows = vec![0i16; n * p];
            rows.par_chunks_mut(p).enumerate().for_each(|(s, row)| {
                row.iter_mut().zip(&columns).for_each(|(to, column)| *to = column[s])
            });
            // One equation a sample: `(X Xᵀ + λ·mean(diag G)·I) a = y`, `w = Xᵀ a`.
            let right: Vec<Vec<f64>> =
                self.targets.iter().map(|y| y.iter().map(|&y| f64::from(y)).collect()).collect();
            let weight = |column: &[i16], a: &[f64]| {
                column.iter().zip(a).map(|(&x, a)| f64::from(x) * a).sum()
            };
            let weights = |a: &Vec<f64>| columns.par_iter().map(|c| weight(c, a)).collect();
            let of_samples = solutions((&rows, p), &ridges, &right)?;
            Ok(of_samples.iter().map(|all| all.iter().map(weights).collect()).collect())
        } else {
            let product = |column: &[i16], target: &[i32]| {
                column.iter().zip(target).map(|(&x, &y)| i64::from(x) * i64::from(y)).sum::<i64>()
            };
            let side = |target: &Vec<i32>| {
                columns.par_iter().map(|column| product(column, target) as f64).collect()
            };
            let right: Vec<Vec<f64>> = self.targets.iter().map(side).collect();
            solutions((&self.features, n), &ridges, &right)
        }
    }

    fn columns(&self) -> Vec<&[i16]> {
        self.features.chunks_exact(self.n).collect()
    }

    /// Fewer samples than features. With so few the same weights come from the inner products of the
    /// samples, which are fewer.
    fn is_dual(&self) -> bool {
        self.n < self.features.len() / self.n
    }

    /// λ·mean(diag G), where the matrices of features and of samples have the same trace. A floor keeps the matrix
    /// positive definite where every feature is constant.
    fn ridge(&self, penalty: f64) -> f64 {
        let square = |&value: &i16| i64::from(i32::from(value) * i32::from(value));
        let trace: i64 = self.features.par_iter().map(square).sum();
        (penalty * trace as f64 / (self.features.len() / self.n) as f64).max(1.0)
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

    /// By target.
    fn solved(samples: &Samples, penalty: f64) -> Vec<Vec<f64>> {
        let on_cpu = |vectors: (&[i16], usize), ridges: &[f64], right: &[Vec<f64>]| {
            Ok::<_, ()>(solutions(vectors, ridges, right))
        };
        samples.solve(&[1e-3, penalty], on_cpu).unwrap().pop().unwrap()
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
        for (target, found) in samples.targets.iter().zip(solved(&samples, 0.02)) {
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
                .install(|| solved(samples, 0.1))
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
