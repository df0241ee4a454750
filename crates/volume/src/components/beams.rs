//! Components of a mask with 26 neighbours by runs of beams.
//!
//! A beam is a bundle of 2×2 rows, along j and k. Any two of its voxels at i or at i and i + 1 touch,
//! so the bits of its rows may be united, and each run of the union is of one component. There are
//! three to fifteen times fewer such runs than runs of rows.

use super::bits::{BitRows, ones};
use super::runs::Runs;
use super::slabs::{Lines, parents};
use super::union_find::DisjointSets;
use crate::{NotEnoughMemory, try_zeroed};
use rayon::prelude::*;

/// Beams of a grid; beam `j + ⌈ny / 2⌉·k` has the rows `2j`, `2j + 1` of the planes `2k`, `2k + 1`.
pub(super) struct Beams<'a> {
    rows: [usize; 2],
    beams: [usize; 2],
    bits: &'a BitRows,
    /// Where runs of the united bits begin, a bit a place.
    starts: Vec<u64>,
    /// By word of `starts`, how many runs begin before it; then the number of all.
    before: Vec<u32>,
}

impl<'a> Beams<'a> {
    /// Bytes for a grid, without those for its runs.
    pub(super) fn bytes([nx, ny, nz]: [usize; 3]) -> u64 {
        let words = nx.div_ceil(64) as u64 * ny.div_ceil(2) as u64 * nz.div_ceil(2) as u64;
        words * (size_of::<u64>() + size_of::<u32>()) as u64
    }

    pub(super) fn new(bits: &'a BitRows, [_, ny, nz]: [usize; 3]) -> Result<Self, NotEnoughMemory> {
        let words = bits.words_per_row;
        let beams = [ny.div_ceil(2), nz.div_ceil(2)];
        let count = words * beams[0] * beams[1];
        let mut this = Self {
            rows: [ny, nz],
            beams,
            bits,
            starts: Vec::new(),
            before: try_zeroed(count + 1)?,
        };
        let mut starts: Vec<u64> = try_zeroed(count)?;
        starts.par_chunks_mut(words * beams[0]).enumerate().for_each(|(k, plane)| {
            for (j, starts) in plane.chunks_exact_mut(words).enumerate() {
                let rows = [[0, 0], [1, 0], [0, 1], [1, 1]]
                    .map(|[dj, dk]| this.row(2 * j + dj, 2 * k + dk));
                let mut last = 0;
                for (word, starts) in starts.iter_mut().enumerate() {
                    let united = rows.iter().fold(0, |united, row| united | row[word]);
                    *starts = united & !(united << 1 | last >> 63);
                    last = united;
                }
            }
        });
        let mut sum = 0;
        for (word, starts) in starts.iter().enumerate() {
            this.before[word] = sum;
            sum += starts.count_ones();
        }
        this.before[count] = sum;
        this.starts = starts;
        Ok(this)
    }

    /// The words of a row; of the last one where the grid ends before it.
    fn row(&self, j: usize, k: usize) -> &'a [u64] {
        let [ny, nz] = self.rows;
        let first = (j.min(ny - 1) + ny * k.min(nz - 1)) * self.bits.words_per_row;
        &self.bits.inside[first..first + self.bits.words_per_row]
    }

    /// The run of a beam that holds the bit of a word: the last that begins up to there.
    fn node(&self, beam: usize, word: usize, bit: usize) -> u32 {
        let word = beam * self.bits.words_per_row + word;
        let up_to = self.starts[word] & (u64::MAX >> (63 - bit));
        self.before[word] + up_to.count_ones() - 1
    }

    /// As [`super::contacts::Contacts::labels`]. Beams are not in raster order, but the runs of rows
    /// are.
    pub(super) fn labels(&self, runs: &Runs) -> Result<(Vec<u32>, u32), NotEnoughMemory> {
        let mut root = parents(self)?;
        for node in 0..root.len() {
            // Its parent comes before, and has its root already.
            root[node] = root[root[node] as usize];
        }
        let mut labels = self.roots(runs, &root)?;
        let (mut label_of_root, mut count) = (root, 0);
        label_of_root.fill(0);
        for label in &mut labels {
            let of_root = &mut label_of_root[*label as usize];
            if *of_root == 0 {
                count += 1;
                *of_root = count;
            }
            *label = *of_root;
        }
        Ok((labels, count))
    }

    /// By run of a row, the root of the run of the beam that holds it.
    fn roots(&self, runs: &Runs, root: &[u32]) -> Result<Vec<u32>, NotEnoughMemory> {
        let [ny, _] = self.rows;
        let mut roots: Vec<u32> = try_zeroed(runs.all.len())?;
        runs.by_rows(&mut roots).for_each(|(row, roots)| {
            let beam = row % ny / 2 + self.beams[0] * (row / ny / 2);
            for (of_run, run) in roots.iter_mut().zip(&runs.all[runs.of_row(row)]) {
                let node = self.node(beam, run.first as usize / 64, run.first as usize % 64);
                *of_run = root[node as usize];
            }
        });
        Ok(roots)
    }

    /// Joins the runs of two beams where bits of a face here and of one there touch. Neighbouring
    /// bits of a face are of one run, so one contact of many is enough. Bits of the rows `between`
    /// touch those beside them on both sides, so that no contact is needed there.
    fn join_faces(
        &self,
        [here, there]: [usize; 2],
        [face_here, face_there]: [[&[u64]; 2]; 2],
        between: Option<[&[u64]; 2]>,
        sets: &mut DisjointSets,
    ) {
        // The words before, for what touches across their border.
        let (mut last_a, mut last_b) = (0, 0);
        let words = face_here[0].iter().zip(face_here[1]).zip(face_there[0]).zip(face_there[1]);
        for (word, (((a0, a1), b0), b1)) in words.enumerate() {
            let (a, b) = (a0 | a1, b0 | b1);
            let both = a & b;
            let before = last_a & last_b;
            let between = between.map_or(0, |[c0, c1]| c0[word] | c1[word]);
            let after = between | between << 1;
            for bit in ones(both & !(both << 1 | before >> 63) & !(after | between >> 1)) {
                sets.join(self.node(here, word, bit), self.node(there, word, bit));
            }
            // Corners: one ends at a place, and the other begins at the next.
            let (a_before, b_before) = (a << 1 | last_a >> 63, b << 1 | last_b >> 63);
            let previous = |bit: usize| if bit == 0 { (word - 1, 63) } else { (word, bit - 1) };
            for bit in ones(a_before & b & !(a | b_before | after)) {
                let (word_here, bit_here) = previous(bit);
                sets.join(self.node(here, word_here, bit_here), self.node(there, word, bit));
            }
            for bit in ones(b_before & a & !(b | a_before | after)) {
                let (word_there, bit_there) = previous(bit);
                sets.join(self.node(here, word, bit), self.node(there, word_there, bit_there));
            }
            (last_a, last_b) = (a, b);
        }
    }
}

impl Lines for Beams<'_> {
    fn shape(&self) -> [usize; 2] {
        self.beams
    }

    fn first_node(&self, beam: usize) -> usize {
        self.before[beam * self.bits.words_per_row] as usize
    }

    fn join(&self, beam: usize, wanted: impl Fn(usize) -> bool, sets: &mut DisjointSets) {
        if self.first_node(beam) == self.first_node(beam + 1) {
            return;
        }
        let [width, _] = self.beams;
        let (j, k) = (beam % width, beam / width);
        let (row, plane) = (2 * j, 2 * k);
        // A face is two rows.
        let face =
            |j: usize, k: usize, [dj, dk]: [usize; 2]| [self.row(j, k), self.row(j + dj, k + dk)];
        if j > 0 && wanted(beam - 1) {
            let faces = [face(row, plane, [0, 1]), face(row - 1, plane, [0, 1])];
            self.join_faces([beam, beam - 1], faces, None, sets);
        }
        if k == 0 {
            return;
        }
        if wanted(beam - width) {
            let faces = [face(row, plane, [1, 0]), face(row, plane - 1, [1, 0])];
            self.join_faces([beam, beam - width], faces, None, sets);
        }
        // Edges: one row here and one there, and the two others about the same line between.
        let mut join_edge = |there: usize, here_j: usize, there_j: usize| {
            if wanted(there) {
                let rows = [[self.row(here_j, plane); 2], [self.row(there_j, plane - 1); 2]];
                let between = [self.row(here_j, plane - 1), self.row(there_j, plane)];
                self.join_faces([beam, there], rows, Some(between), sets);
            }
        };
        if j > 0 {
            join_edge(beam - width - 1, row, row - 1);
        }
        if j + 1 < width {
            // There is a beam beyond, so this one has both rows.
            join_edge(beam - width + 1, row + 1, row + 2);
        }
    }
}
