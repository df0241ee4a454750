//! Symmetric positive definite systems: Cholesky's factorisation and what it solves, the same bits
//! on any number of threads.
//!
//! Every sum has one order of its own: inner products over a stretch of columns, stretch after
//! stretch.

use crate::inner_products::InnerProducts;
use rayon::prelude::*;
use std::ops::Range;

/// Columns that are finished together.
pub const PANEL: usize = 64;

/// Columns of a stretch: a panel's part of one stays in the second cache, four rows' in the first.
pub const STRETCH: usize = 512;

/// Rows and columns of a block, whose sums stay in registers.
const ROWS: usize = 4;
const COLUMNS: usize = 2;

/// Rows of a task: so many that a panel's part of a stretch, once fetched, serves for a while.
const TASK: usize = 8 * ROWS;

/// Right sides that share a row of the factor while it is at hand: the factor is large, and reading
/// it takes longer than the sums.
const SIDES: usize = 8;

/// Replaces the lower triangle of a positive definite row-major p × p matrix by its Cholesky
/// factor, panel by panel (Golub and Van Loan, Matrix Computations, 4.2.5: a panel is updated by
/// all columns before it, then factorised).
pub fn factorise(matrix: &mut [f64], p: usize) {
    for first in (0..p).step_by(PANEL) {
        let end = (first + PANEL).min(p);
        // What the panel's rows hold left of it is needed by all rows, its own among them.
        let left: Vec<f64> = matrix[first * p..end * p]
            .chunks_exact(p)
            .flat_map(|row| &row[..first])
            .copied()
            .collect();
        matrix[first * p..]
            .par_chunks_mut(TASK * p)
            .for_each(|rows| update(rows, p, &left, first..end));
        let (above, below) = matrix.split_at_mut(end * p);
        for row in first..end {
            let (before, rest) = above.split_at_mut(row * p);
            let this = &mut rest[..p];
            finish(&mut this[first..row], &before[first * p..], p, first);
            this[row] = (this[row] - dot(&this[first..row], &this[first..row]))
                .max(f64::MIN_POSITIVE)
                .sqrt();
        }
        let triangle = &above[first * p..];
        below.par_chunks_mut(p).for_each(|row| finish(&mut row[first..end], triangle, p, first));
    }
}

/// Takes what the columns before a panel say from the panel's columns of some rows. `left` has the
/// panel's rows without those columns.
fn update(rows: &mut [f64], p: usize, left: &[f64], panel: Range<usize>) {
    let products = InnerProducts::new();
    let (first, count, width) = (panel.start, rows.len() / p, panel.len());
    for start in (0..first).step_by(STRETCH) {
        let stretch = start..(start + STRETCH).min(first);
        for c in (0..width).step_by(COLUMNS) {
            // The last block repeats its last row or column; what that gives is dropped.
            let b: [&[f64]; COLUMNS] =
                std::array::from_fn(|j| &left[(c + j).min(width - 1) * first..][stretch.clone()]);
            for r in (0..count).step_by(ROWS) {
                let a: [&[f64]; ROWS] =
                    std::array::from_fn(|i| &rows[(r + i).min(count - 1) * p..][stretch.clone()]);
                for (i, sums) in products.of_reals(a, b).iter().enumerate().take(count - r) {
                    for (j, sum) in sums.iter().enumerate().take(width - c) {
                        rows[(r + i) * p + first + c + j] -= sum;
                    }
                }
            }
        }
    }
}

/// Solves the first columns of a row of a panel, whose own triangle is done as far.
fn finish(row: &mut [f64], triangle: &[f64], p: usize, first: usize) {
    for column in 0..row.len() {
        let other = &triangle[column * p + first..];
        row[column] = (row[column] - dot(&row[..column], &other[..column])) / other[column];
    }
}

/// Solves `L Lᵀ w = b` for every `b`, with `L` in the lower triangle.
pub fn substitute(factor: &[f64], p: usize, right: &mut [Vec<f64>]) {
    right.par_chunks_mut(SIDES).for_each(|right| {
        let rows = || factor.chunks_exact(p).enumerate();
        for (row, factor) in rows() {
            for b in &mut *right {
                b[row] = (b[row] - dot(&factor[..row], &b[..row])) / factor[row];
            }
        }
        for (row, factor) in rows().rev() {
            for b in &mut *right {
                b[row] /= factor[row];
                let value = b[row];
                for (rest, &l) in b[..row].iter_mut().zip(factor) {
                    *rest -= l * value;
                }
            }
        }
    });
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    InnerProducts::new().of_reals([a], [b])[0][0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random;
    use nalgebra::{DMatrix, DVector};

    /// nalgebra is the oracle, for sizes about those of blocks, panels and stretches.
    #[test]
    fn solves_what_nalgebra_solves() {
        let mut random = test_random(4);
        for p in [1, 2, 5, 63, 64, 65, 131, 580, 661] {
            let half = DMatrix::from_fn(p, p + 5, |_, _| random.between(-1.0, 1.0));
            let matrix = &half * half.transpose() + DMatrix::identity(p, p) * 0.1;
            let mut sides: Vec<Vec<f64>> =
                (0..10).map(|_| (0..p).map(|_| random.between(-1.0, 1.0)).collect()).collect();
            let expected: Vec<DVector<f64>> = {
                let solver = matrix.clone().cholesky().unwrap();
                sides.iter().map(|b| solver.solve(&DVector::from_column_slice(b))).collect()
            };
            let mut factor: Vec<f64> = (0..p * p).map(|n| matrix[(n / p, n % p)]).collect();
            factorise(&mut factor, p);
            substitute(&factor, p, &mut sides);
            for (found, expected) in sides.iter().zip(expected) {
                for (found, value) in found.iter().zip(expected.iter()) {
                    assert!(
                        (found - value).abs() < 1e-9 * expected.amax(),
                        "{found} against {value} of {p}"
                    );
                }
            }
        }
    }
}
