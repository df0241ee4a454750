//! Joining what touches, slab by slab side by side, then across the faces between slabs.

use super::runs::parts;
use super::union_find::DisjointSets;
use crate::{NotEnoughMemory, try_zeroed};
use rayon::prelude::*;
use std::ops::Range;

/// Slabs a thread, so that a slab with more nodes than the others keeps nobody waiting for long.
const SLABS_PER_THREAD: usize = 4;

/// Contacts across the face between two slabs are found by one thread: of so many planes only one.
const PLANES_PER_SLAB: usize = 8;

/// Nodes of union-find on parallel lines: runs on rows, or on beams. Line `j + lines_per_plane · k` is
/// the j-th of plane k; its neighbours before it are in its plane and in the one before.
pub(super) trait Lines: Sync {
    /// Lines of a plane, and planes.
    fn shape(&self) -> [usize; 2];

    /// The number of the first node of a line; after the last line, the number of nodes.
    fn first_node(&self, line: usize) -> usize;

    /// Joins the nodes of a line with those that they touch on lines before it, where `wanted`.
    fn join(&self, line: usize, wanted: impl Fn(usize) -> bool, sets: &mut DisjointSets);
}

/// By node, one before it of the same set, or itself when there is none.
pub(super) fn parents(lines: &impl Lines) -> Result<Vec<u32>, NotEnoughMemory> {
    let slabs = slabs(lines.shape());
    let ends: Vec<usize> = slabs.iter().map(|slab| lines.first_node(slab.end)).collect();
    let mut parent = try_zeroed(ends[ends.len() - 1])?;
    let tasks = parts(&mut parent, &ends).into_par_iter().zip(&slabs);
    tasks.for_each(|(parent, slab)| {
        let mut sets = DisjointSets::alone(parent, lines.first_node(slab.start) as u32);
        for line in slab.clone() {
            lines.join(line, |before| before >= slab.start, &mut sets);
        }
    });
    let mut sets = DisjointSets::joined(&mut parent);
    for slab in &slabs[1..] {
        // Lines farther on have no neighbours before the slab.
        for line in slab.start..slab.end.min(slab.start + lines.shape()[0] + 1) {
            lines.join(line, |before| before < slab.start, &mut sets);
        }
    }
    Ok(parent)
}

/// Lines of the slabs: whole planes, or parts of the only one.
fn slabs([lines_per_plane, planes]: [usize; 2]) -> Vec<Range<usize>> {
    let count = lines_per_plane * planes;
    let unit = if planes > 1 { lines_per_plane } else { 1 };
    let units_per_slab = (count / unit)
        .div_ceil(SLABS_PER_THREAD * rayon::current_num_threads())
        .max(PLANES_PER_SLAB);
    let lines_per_slab = unit * units_per_slab;
    (0..count).step_by(lines_per_slab).map(|n| n..(n + lines_per_slab).min(count)).collect()
}
