//! Runs: the longest parts of rows whose voxels belong together.

use super::bits::{BitRows, ones};
use crate::{NotEnoughMemory, try_zeroed};
use rayon::prelude::*;
use std::ops::Range;

/// Rows of one task; any value gives the same result.
const ROWS: usize = 1 << 10;

/// Voxels `first..=last` of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Run {
    pub(super) fn len(self) -> u64 {
        u64::from(self.last - self.first) + 1
    }
}

/// The runs of all rows in raster order. Row `j + ny·k` holds the voxels `(·, j, k)`.
#[derive(Debug, Clone)]
pub(super) struct Runs {
    pub(super) all: Vec<Run>,
    /// By row, the number of its first run; then the number of all.
    first_of_row: Vec<u32>,
}

impl Runs {
    /// Takes the runs out of the bits of `rows` rows.
    pub(super) fn new(bits: &BitRows, rows: usize) -> Result<Self, NotEnoughMemory> {
        let words = bits.words_per_row;
        let mut first_of_row: Vec<u32> = try_zeroed(rows + 1)?;
        let counts = first_of_row[1..].par_iter_mut().with_min_len(ROWS);
        counts.zip(bits.starts.par_chunks_exact(words)).for_each(|(count, starts)| {
            *count = starts.iter().map(|word| word.count_ones()).sum();
        });
        // Fewer than 2³¹ voxels have fewer runs.
        for row in 0..rows {
            first_of_row[row + 1] += first_of_row[row];
        }
        let mut all: Vec<Run> = try_zeroed(first_of_row[rows] as usize)?;
        let mut runs = Self { all: Vec::new(), first_of_row };
        runs.by_rows(&mut all).for_each(|(row, runs)| {
            let of_row = row * words..(row + 1) * words;
            fill_row(&bits.inside[of_row.clone()], &bits.starts[of_row], runs);
        });
        runs.all = all;
        Ok(runs)
    }

    /// Something a run, by rows side by side.
    pub(super) fn by_rows<'a, T: Send>(
        &'a self,
        of_runs: &'a mut [T],
    ) -> impl ParallelIterator<Item = (usize, &'a mut [T])> {
        let rows = self.rows();
        let tasks = (0..rows).step_by(ROWS).map(|first| first..(first + ROWS).min(rows));
        let ends: Vec<usize> = tasks.clone().map(|rows| self.of_rows(rows).end).collect();
        let tasks: Vec<_> = tasks.zip(parts(of_runs, &ends)).collect();
        tasks.into_par_iter().flat_map_iter(move |(rows, mut of_runs)| {
            rows.map(move |row| {
                let (here, rest) =
                    std::mem::take(&mut of_runs).split_at_mut(self.of_row(row).len());
                of_runs = rest;
                (row, here)
            })
        })
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.first_of_row.len() - 1
    }

    /// The numbers of a row's runs.
    pub(super) fn of_row(&self, row: usize) -> Range<usize> {
        self.first_of_row[row] as usize..self.first_of_row[row + 1] as usize
    }

    /// The numbers of the runs of some rows.
    pub(super) fn of_rows(&self, rows: Range<usize>) -> Range<usize> {
        self.first_of_row[rows.start] as usize..self.first_of_row[rows.end] as usize
    }
}

/// The n-th run begins at the n-th start and ends at the n-th end.
fn fill_row(inside: &[u64], starts: &[u64], runs: &mut [Run]) {
    let (mut begun, mut ended) = (0, 0);
    for word in 0..inside.len() {
        let base = 64 * word as u32;
        for bit in ones(starts[word]) {
            runs[begun].first = base + bit as u32;
            begun += 1;
        }
        // A voxel goes on with the run of the voxel before it.
        let goes_on = |word: usize| inside[word] & !starts[word];
        let next = if word + 1 < inside.len() { goes_on(word + 1) } else { 0 };
        let ends = inside[word] & !(goes_on(word) >> 1 | next << 63);
        for bit in ones(ends) {
            runs[ended].last = base + bit as u32;
            ended += 1;
        }
    }
}

/// The parts of a slice that end at these places, in their order.
pub(super) fn parts<'a, T>(mut slice: &'a mut [T], ends: &[usize]) -> Vec<&'a mut [T]> {
    let mut parts = Vec::with_capacity(ends.len());
    let mut begin = 0;
    for &end in ends {
        let (part, rest) = slice.split_at_mut(end - begin);
        parts.push(part);
        (slice, begin) = (rest, end);
    }
    parts
}
