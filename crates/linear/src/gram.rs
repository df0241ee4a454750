//! All inner products of integer columns, exactly: the larger part of a regression's work.

use crate::inner_products::InnerProducts;
use rayon::prelude::*;
use std::ops::Range;

/// Columns of a block; its sums stay in registers.
const ROWS: usize = 4;
const COLUMNS: usize = 2;

/// Columns of a task.
const TILE: usize = 8 * ROWS;

/// Values of a run: those of a tile stay in the second cache while all other columns pass by, and
/// memory is read in long stretches.
const RUN: usize = 4096;

/// The lower triangle of the row-major p × p matrix of inner products of columns, whose values are
/// within ±4095.
pub fn gram(columns: &[&[i16]]) -> Vec<f64> {
    let p = columns.len();
    let n = columns.first().map_or(0, |c| c.len());
    let products = InnerProducts::new();
    let mut gram = vec![0.0; p * p];
    gram.par_chunks_mut(TILE * p).enumerate().for_each(|(tile, rows)| {
        let first = tile * TILE;
        let count = rows.len() / p;
        let width = first + count;
        let mut sums = vec![0i64; count * width];
        // The last block of a tile or a row repeats its last column; what that gives is dropped.
        let column = |c: usize, run: &Range<usize>| &columns[c.min(width - 1)][run.clone()];
        for start in (0..n).step_by(RUN) {
            let run = start..(start + RUN).min(n);
            for b in (0..width).step_by(COLUMNS) {
                let others: [&[i16]; COLUMNS] = std::array::from_fn(|j| column(b + j, &run));
                for a in (0..count).step_by(ROWS) {
                    let own: [&[i16]; ROWS] = std::array::from_fn(|i| column(first + a + i, &run));
                    for (i, row) in
                        products.of_integers(own, others).iter().enumerate().take(count - a)
                    {
                        for (j, sum) in row.iter().enumerate().take(width - b) {
                            sums[(a + i) * width + b + j] += sum;
                        }
                    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random;

    #[test]
    fn products_are_those_of_plain_sums() {
        let mut random = test_random(9);
        for (n, p) in [(1, 1), (15, 3), (100, 31), (4095, 33), (4097, 34), (9000, 67)] {
            let columns: Vec<Vec<i16>> = (0..p)
                .map(|_| (0..n).map(|_| random.between(-4095.99, 4095.99) as i16).collect())
                .collect();
            let found = gram(&columns.iter().map(Vec::as_slice).collect::<Vec<_>>());
            for a in 0..p {
                for b in 0..=a {
                    let expected: i64 = columns[a]
                        .iter()
                        .zip(&columns[b])
                        .map(|(&x, &y)| i64::from(x) * i64::from(y))
                        .sum();
                    assert_eq!(found[a * p + b], expected as f64);
                }
            }
        }
    }
}
