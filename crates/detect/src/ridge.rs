//! Ridge regression whose sums are exact: integer features and targets, one f64 factorisation in a fixed order.
//!
//! The Gram matrix of 12-bit features over a few ten thousand samples stays below 2⁵³, so its sums are exact integers whatever their
//! order; only the Cholesky factorisation rounds, and every entry of it is one sum in ascending order. With fewer samples than features
//! the same weights come from the smaller matrix of the samples' inner products (the dual form: Saunders et al. 1998, section 2).

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

/// Means of the features of samples whose features lie side by side (`patches[s * length + f]`), rounded down, and what is left of the
/// features without them, feature after feature as [`Samples`] has them.
pub(crate) fn centred(patches: &[i16], length: usize) -> (Vec<i16>, Vec<i16>) {
    let n = patches.len() / length;
    let mean = |f: usize| (0..n).map(|s| i64::from(patches[s * length + f])).sum::<i64>().div_euclid(n as i64) as i16;
    let means: Vec<i16> = (0..length).into_par_iter().map(mean).collect();
    let mut features = vec![0i16; n * length];
    features.par_chunks_mut(n).enumerate().for_each(|(f, column)| {
        for (s, value) in column.iter_mut().enumerate() {
            *value = patches[s * length + f] - means[f];
        }
    });
    (means, features)
}

/// The normal equations of samples: the expensive part of a fit, which all penalties share.
#[derive(Clone)]
pub(crate) struct Equations<'a> {
    samples: &'a Samples,
    /// Inner products of the features, or of the samples where they are fewer; the lower triangle, row-major.
    gram: Vec<f64>,
}

impl<'a> Equations<'a> {
    pub(crate) fn new(samples: &'a Samples) -> Self {
        let columns = samples.columns();
        let gram = if samples.is_dual() {
            let (n, p) = (samples.n, columns.len());
            let mut rows = vec![0i16; n * p];
            rows.par_chunks_mut(p).enumerate().for_each(|(s, row)| row.iter_mut().zip(&columns).for_each(|(to, column)| *to = column[s]));
            gram(&rows.chunks_exact(p).collect::<Vec<_>>())
        } else {
            gram(&columns)
        };
        Self { samples, gram }
    }

    /// Solves `(G + λ·mean(diag G)·I) w = Xᵀ y` for every target. `w[t][f]` multiplies feature `f`.
    pub(crate) fn solve(mut self, lambda: f64) -> Vec<Vec<f64>> {
        let columns = self.samples.columns();
        let size = if self.samples.is_dual() { self.samples.n } else { columns.len() };
        // The matrices of features and of samples have the same trace.
        add_ridge(&mut self.gram, size, columns.len(), lambda);
        cholesky(&mut self.gram, size);
        let solve = if self.samples.is_dual() { Self::dual } else { Self::primal };
        self.samples.targets.iter().map(|target| solve(&self, &columns, target)).collect()
    }

    /// One equation a feature.
    fn primal(&self, columns: &[&[i16]], target: &[i32]) -> Vec<f64> {
        let right =
            columns.par_iter().map(|column| column.iter().zip(target).map(|(&x, &y)| i64::from(x) * i64::from(y)).sum::<i64>() as f64);
        substitute(&self.gram, columns.len(), right.collect())
    }

    /// One equation a sample: `(X Xᵀ + λ·mean(diag G)·I) a = y`, `w = Xᵀ a`.
    fn dual(&self, columns: &[&[i16]], target: &[i32]) -> Vec<f64> {
        let a = substitute(&self.gram, self.samples.n, target.iter().map(|&y| f64::from(y)).collect());
        columns.par_iter().map(|column| column.iter().zip(&a).map(|(&x, a)| f64::from(x) * a).sum()).collect()
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

/// The weights for one penalty: see [`Equations::solve`].
pub(crate) fn fit(samples: &Samples, lambda: f64) -> Vec<Vec<f64>> {
    Equations::new(samples).solve(lambda)
}

/// Adds λ·trace/p to the diagonal of an n × n matrix. A floor keeps it positive definite where every feature is constant.
fn add_ridge(matrix: &mut [f64], n: usize, p: usize, lambda: f64) {
    let trace = (0..n).map(|i| matrix[i * n + i]).sum::<f64>();
    let ridge = (lambda * trace / p as f64).max(1.0);
    for i in 0..n {
        matrix[i * n + i] += ridge;
    }
}

/// Products are below 2²⁴, so 64 of them fit an i32 lane.
const LANES: usize = 16;
const RUN: usize = 64 * LANES;

/// All inner products of the columns, the lower triangle of a row-major p × p matrix.
fn gram(columns: &[&[i16]]) -> Vec<f64> {
    const TILE: usize = 16;
    let p = columns.len();
    let n = columns.first().map_or(0, |c| c.len());
    let arch = pulp::Arch::new();
    let mut gram = vec![0.0; p * p];
    gram.par_chunks_mut(TILE * p).enumerate().for_each(|(tile, rows)| {
        let first = tile * TILE;
        let count = rows.len() / p;
        let mut sums = vec![0i64; count * (first + count)];
        let width = first + count;
        // Runs outermost: a run of the tile's own columns stays in the fastest cache while all others pass by.
        for start in (0..n).step_by(RUN) {
            let end = (start + RUN).min(n);
            for b in 0..width {
                let other = &columns[b][start..end];
                for a in 0..count {
                    sums[a * width + b] += arch.dispatch(Dot(&columns[first + a][start..end], other));
                }
            }
        }
        for a in 0..count {
            for b in 0..=first + a {
                rows[a * p + b] = sums[a * width + b] as f64;
            }
        }
    });
    gram
}

/// Inner product of at most [`RUN`] 12-bit values; `pulp` picks the widest instructions, integers make the choice invisible.
struct Dot<'a>(&'a [i16], &'a [i16]);

impl pulp::NullaryFnOnce for Dot<'_> {
    type Output = i64;

    #[inline(always)]
    fn call(self) -> i64 {
        let mut lanes = [0i32; LANES];
        let (a, b) = (self.0.chunks_exact(LANES), self.1.chunks_exact(LANES));
        let rest: i64 = a.remainder().iter().zip(b.remainder()).map(|(&x, &y)| i64::from(x) * i64::from(y)).sum();
        for (x, y) in a.zip(b) {
            for l in 0..LANES {
                lanes[l] += i32::from(x[l]) * i32::from(y[l]);
            }
        }
        rest + lanes.iter().map(|&l| i64::from(l)).sum::<i64>()
    }
}

/// Replaces the lower triangle of a positive definite matrix by its Cholesky factor, panel by panel.
fn cholesky(matrix: &mut [f64], p: usize) {
    const PANEL: usize = 48;
    for first in (0..p).step_by(PANEL) {
        let end = (first + PANEL).min(p);
        let (above, below) = matrix.split_at_mut(end * p);
        // The panel's own triangle, one row after another.
        for row in first..end {
            let (before, rest) = above.split_at_mut(row * p);
            let this = &mut rest[..p];
            for column in first..row {
                let other = &before[column * p..column * p + p];
                this[column] = (this[column] - dot(&this[..column], &other[..column])) / other[column];
            }
            this[row] = (this[row] - dot(&this[..row], &this[..row])).max(f64::MIN_POSITIVE).sqrt();
        }
        // Every row below it, independently.
        let above = &*above;
        below.par_chunks_mut(p).for_each(|row| {
            for column in first..end {
                let other = &above[column * p..column * p + p];
                row[column] = (row[column] - dot(&row[..column], &other[..column])) / other[column];
            }
        });
    }
}

/// Inner product in eight interleaved sums, always the same ones.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    let (x, y) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = x.remainder().iter().zip(y.remainder()).map(|(&u, &v)| u * v).sum();
    for (u, v) in x.zip(y) {
        for l in 0..8 {
            lanes[l] += u[l] * v[l];
        }
    }
    rest + ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]))
}

/// Solves `L Lᵀ w = b`.
fn substitute(factor: &[f64], p: usize, mut b: Vec<f64>) -> Vec<f64> {
    for row in 0..p {
        let sum = dot(&factor[row * p..row * p + row], &b[..row]);
        b[row] = (b[row] - sum) / factor[row * p + row];
    }
    for row in (0..p).rev() {
        b[row] /= factor[row * p + row];
        let value = b[row];
        for (rest, &l) in b[..row].iter_mut().zip(&factor[row * p..row * p + row]) {
            *rest -= l * value;
        }
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cover::Random;

    fn random_samples(n: usize, p: usize) -> Samples {
        let mut random = Random::new(5, 0, 0);
        let features = (0..n * p).map(|_| random.between(-4095.0, 4095.0) as i16).collect();
        let targets = (0..2).map(|_| (0..n).map(|_| random.between(-1e6, 1e6) as i32).collect()).collect();
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
        for (target, found) in samples.targets.iter().zip(fit(&samples, 0.02)) {
            let y = nalgebra::DVector::from_fn(n, |s, _| f64::from(target[s]));
            let expected = solver.solve(&(x.transpose() * y));
            for f in 0..p {
                assert!((found[f] - expected[f]).abs() < 1e-9 * expected.amax(), "{} against {}", found[f], expected[f]);
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
        let run = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| fit(samples, 0.1));
        let (one, three) = (run(1), run(3));
        assert!(one.iter().flatten().zip(three.iter().flatten()).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
}
