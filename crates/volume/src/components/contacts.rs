//! Components by runs of rows: any neighbours, any rule.

use super::Connectivity;
use super::rule::Rule;
use super::runs::{Run, Runs};
use super::slabs::{Lines, parents};
use super::union_find::DisjointSets;
use crate::NotEnoughMemory;

/// A row before this one: its place, and how far voxels may lie apart along it.
type RowBefore = (isize, isize, u32);

/// The rows before a row whose voxels are its voxels' neighbours.
fn rows_before(connectivity: Connectivity) -> &'static [RowBefore] {
    match connectivity {
        Connectivity::Six => &[(-1, 0, 0), (0, -1, 0)],
        Connectivity::Eighteen => &[(-1, 0, 1), (-1, -1, 0), (0, -1, 1), (1, -1, 0)],
        Connectivity::TwentySix => &[(-1, 0, 1), (-1, -1, 1), (0, -1, 1), (1, -1, 1)],
    }
}

/// A grid with its runs, and what joins them.
pub(super) struct Contacts<'a, R> {
    pub(super) shape: [usize; 3],
    pub(super) runs: &'a Runs,
    pub(super) rule: &'a R,
    pub(super) connectivity: Connectivity,
}

impl<R: Rule> Contacts<'_, R> {
    /// By run, the number of its component from 1, and how many there are. Runs are in raster order,
    /// so components that are numbered as their first runs come are numbered as their first voxels
    /// come.
    pub(super) fn labels(&self) -> Result<(Vec<u32>, u32), NotEnoughMemory> {
        let mut labels = parents(self)?;
        let mut count = 0;
        for run in 0..labels.len() {
            let parent = labels[run] as usize;
            labels[run] = if parent == run {
                count += 1;
                count
            } else {
                // The parent comes before, so that its label is there already.
                labels[parent]
            };
        }
        Ok((labels, count))
    }

    /// Goes along two rows at once.
    fn join_rows(&self, row: usize, before: usize, reach: u32, sets: &mut DisjointSets) {
        let runs = &self.runs.all;
        let (mut here, mut there) = (self.runs.of_row(row), self.runs.of_row(before));
        let mut join = |a: usize, b: usize| {
            let known = R::PAIRWISE && sets.root(a as u32) == sets.root(b as u32);
            if !known && self.touch((row, runs[a]), (before, runs[b]), reach) {
                sets.join(a as u32, b as u32);
            }
        };
        while !here.is_empty() && !there.is_empty() {
            let (a, b) = (runs[here.start], runs[there.start]);
            if b.last + reach < a.first {
                there.start += 1;
            } else if a.last + reach < b.first {
                here.start += 1;
            } else {
                join(here.start, there.start);
                if a.last < b.last {
                    here.start += 1;
                    continue;
                }
                // Where runs of two labels follow each other, the next one here may touch the same
                // one there by a corner.
                if a.last == b.last
                    && here.len() > 1
                    && runs[here.start + 1].first <= b.last + reach
                {
                    join(here.start + 1, there.start);
                }
                there.start += 1;
            }
        }
    }

    /// Whether two runs that have neighbours have some that belong together.
    fn touch(&self, (row, a): (usize, Run), (before, b): (usize, Run), reach: u32) -> bool {
        let at = |row: usize, i: u32| row * self.shape[0] + i as usize;
        if R::ALWAYS {
            return true;
        }
        if !R::PAIRWISE {
            return self.rule.joins(at(row, a.first), at(before, b.first));
        }
        (a.first.max(b.first.saturating_sub(reach))..=a.last.min(b.last + reach)).any(|i| {
            let mut neighbours = b.first.max(i.saturating_sub(reach))..=b.last.min(i + reach);
            neighbours.any(|m| self.rule.joins(at(row, i), at(before, m)))
        })
    }
}

impl<R: Rule> Lines for Contacts<'_, R> {
    fn shape(&self) -> [usize; 2] {
        [self.shape[1], self.shape[2]]
    }

    fn first_node(&self, row: usize) -> usize {
        self.runs.of_rows(row..row).start
    }

    fn join(&self, row: usize, wanted: impl Fn(usize) -> bool, sets: &mut DisjointSets) {
        if self.runs.of_row(row).is_empty() {
            return;
        }
        let [_, ny, _] = self.shape;
        let (j, k) = (row % ny, row / ny);
        for &(dj, dk, reach) in rows_before(self.connectivity) {
            let place = (j.checked_add_signed(dj), k.checked_add_signed(dk));
            let (Some(j), Some(k)) = place else { continue };
            let before = j + ny * k;
            if j < ny && wanted(before) {
                self.join_rows(row, before, reach, sets);
            }
        }
    }
}
