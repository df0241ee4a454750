//! Rows of voxels as bits.

use super::rule::Rule;
use crate::{NotEnoughMemory, try_zeroed};
use rayon::prelude::*;

/// Voxels of one task; any value gives the same result.
const TASK: usize = 1 << 16;

/// The foreground, and where its runs begin: a bit a voxel, the first voxel of a row in the lowest
/// bit of a word of its own. Bits beyond the row are 0.
pub(super) struct BitRows {
    pub(super) words_per_row: usize,
    pub(super) inside: Vec<u64>,
    /// Foreground whose predecessor in the row is background, or does not belong together with it.
    pub(super) starts: Vec<u64>,
}

impl BitRows {
    /// Bytes that the rows of a grid take.
    pub(super) fn bytes([nx, ny, nz]: [usize; 3]) -> u64 {
        (2 * size_of::<u64>() * nx.div_ceil(64)) as u64 * (ny as u64 * nz as u64)
    }

    pub(super) fn new<R: Rule>(
        [nx, ny, nz]: [usize; 3],
        rule: &R,
    ) -> Result<Self, NotEnoughMemory> {
        let words_per_row = nx.div_ceil(64);
        let words = words_per_row * ny * nz;
        let (mut inside, mut starts) = (try_zeroed(words)?, try_zeroed(words)?);
        let rows_per_task = (TASK / nx).max(1);
        let words_per_task = rows_per_task * words_per_row;
        let tasks =
            inside.par_chunks_mut(words_per_task).zip(starts.par_chunks_mut(words_per_task));
        tasks.enumerate().for_each(|(task, (inside, starts))| {
            let rows =
                inside.chunks_exact_mut(words_per_row).zip(starts.chunks_exact_mut(words_per_row));
            for (row, (inside, starts)) in (task * rows_per_task..).zip(rows) {
                fill_row(rule, row * nx, nx, inside, starts);
            }
        });
        Ok(Self { words_per_row, inside, starts })
    }
}

/// One row of `nx` voxels from voxel `n` on.
fn fill_row<R: Rule>(rule: &R, n: usize, nx: usize, inside: &mut [u64], starts: &mut [u64]) {
    let mut before = 0;
    for (word, (inside, starts)) in inside.iter_mut().zip(starts).enumerate() {
        let first = n + 64 * word;
        *inside = rule.inside(first, (nx - 64 * word).min(64));
        let follows = *inside & (*inside << 1 | before >> 63);
        *starts = *inside & !follows;
        if !R::ALWAYS {
            *starts |= ones(follows)
                .filter(|&b| !rule.joins(first + b - 1, first + b))
                .fold(0, |parted, b| parted | 1 << b);
        }
        before = *inside;
    }
}

/// The places of the bits that are set, from the lowest on.
pub(super) fn ones(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(place)
    })
}
