//! The best splits of the nodes of a level.

use pbt_tree::{Histogram, LABEL_BINS, LabelMatrix, Split, SplitTask};
use rayon::prelude::*;

/// Candidates that a thread goes through at a time.
const TILE: usize = 16;

/// Memory that a thread uses again and again.
struct Scratch {
    counts: Vec<[u32; LABEL_BINS]>,
    left: Vec<u32>,
}

/// The best split of each node.
pub(super) fn best(
    matrix: &LabelMatrix,
    tasks: &[SplitTask<'_>],
    min_leaf: u32,
) -> Vec<Option<Split>> {
    let tiles: Vec<(usize, &[(u32, u8)])> = tasks
        .iter()
        .enumerate()
        .flat_map(|(n, task)| task.candidates.chunks(TILE).map(move |tile| (n, tile)))
        .collect();
    let scratch = || Scratch {
        counts: vec![[0; LABEL_BINS]; matrix.classes()],
        left: vec![0; matrix.classes()],
    };
    let of_tile = |scratch: &mut Scratch, &(n, tile): &(usize, &[(u32, u8)])| {
        let of = |&candidate: &(u32, u8)| best_of(matrix, &tasks[n], candidate, min_leaf, scratch);
        tile.iter().filter_map(of).reduce(Split::better)
    };
    let found: Vec<Option<Split>> = tiles.par_iter().map_init(scratch, of_tile).collect();
    let mut best = vec![None; tasks.len()];
    for ((n, _), split) in tiles.into_iter().zip(found) {
        best[n] = match (best[n], split) {
            (Some(before), Some(split)) => Some(Split::better(before, split)),
            (before, split) => before.or(split),
        };
    }
    best
}

fn best_of(
    matrix: &LabelMatrix,
    task: &SplitTask<'_>,
    (feature, first): (u32, u8),
    min_leaf: u32,
    scratch: &mut Scratch,
) -> Option<Split> {
    let row = matrix.row(feature);
    let mut rest = task.samples;
    for (counts, &count) in scratch.counts.iter_mut().zip(task.counts) {
        let (of_class, others) = rest.split_at(count as usize);
        rest = others;
        counts.fill(0);
        for &sample in of_class {
            // Bins are below 64; the mask saves a test of bounds.
            counts[usize::from(row[sample as usize]) % LABEL_BINS] += 1;
        }
    }
    let bins = matrix.edges(feature).bins();
    let histogram = Histogram { bins, counts: &scratch.counts, totals: task.counts };
    let test = histogram.best_from(usize::from(first), min_leaf, &mut scratch.left)?;
    Some(Split { feature, test })
}
