//! Connected components of a mask: a stray voxel far away makes a derived box as long as the image.

/// A piece of a mask: voxels that touch each other at faces, edges or corners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) voxels: usize,
    /// The first and the last voxel index along each axis.
    pub(super) first: [usize; 3],
    pub(super) last: [usize; 3],
}

/// A row's part that is inside: `start..end` along i.
#[derive(Debug, Clone, Copy)]
struct Run {
    start: usize,
    end: usize,
    row: usize,
}

/// The pieces of the voxels that are `inside`, the largest first. `data` has the index i fastest.
pub(super) fn pieces<T: Copy>(
    shape: [usize; 3],
    data: &[T],
    inside: impl Fn(T) -> bool,
) -> Vec<Piece> {
    let [nx, ny, nz] = shape;
    let mut runs: Vec<Run> = Vec::new();
    // By row, its first run.
    let mut first_of = Vec::with_capacity(ny * nz + 1);
    for (row, values) in data.chunks_exact(nx).enumerate() {
        first_of.push(runs.len());
        let mut i = 0;
        while i < nx {
            if !inside(values[i]) {
                i += 1;
                continue;
            }
            let start = i;
            while i < nx && inside(values[i]) {
                i += 1;
            }
            runs.push(Run { start, end: i, row });
        }
    }
    first_of.push(runs.len());
    let mut parent: Vec<usize> = (0..runs.len()).collect();
    for (n, run) in runs.iter().enumerate() {
        let (j, k) = (run.row % ny, run.row / ny);
        // The rows before this one that touch it.
        let before = [(-1, 0), (-1, -1), (0, -1), (1, -1)].into_iter().filter_map(|(dj, dk)| {
            let (j, k) = (j.checked_add_signed(dj)?, k.checked_add_signed(dk)?);
            (j < ny).then_some(j + ny * k)
        });
        for row in before {
            let row_runs = first_of[row]..first_of[row + 1];
            let from = runs[row_runs.clone()].partition_point(|other| other.end < run.start);
            let touching =
                (row_runs.start + from..row_runs.end).take_while(|&m| runs[m].start <= run.end);
            for m in touching {
                let (a, b) = (root(&mut parent, n), root(&mut parent, m));
                parent[a.max(b)] = a.min(b);
            }
        }
    }
    let mut piece_of = vec![usize::MAX; runs.len()];
    let mut pieces: Vec<Piece> = Vec::new();
    for (n, run) in runs.iter().enumerate() {
        let (first, last) =
            ([run.start, run.row % ny, run.row / ny], [run.end - 1, run.row % ny, run.row / ny]);
        let root = root(&mut parent, n);
        if piece_of[root] == usize::MAX {
            piece_of[root] = pieces.len();
            pieces.push(Piece { voxels: 0, first, last });
        }
        let piece = &mut pieces[piece_of[root]];
        piece.voxels += run.end - run.start;
        for a in 0..3 {
            piece.first[a] = piece.first[a].min(first[a]);
            piece.last[a] = piece.last[a].max(last[a]);
        }
    }
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.voxels));
    pieces
}

fn root(parent: &mut [usize], mut n: usize) -> usize {
    while parent[n] != n {
        // Half the way next time.
        parent[n] = parent[parent[n]];
        n = parent[n];
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::validate::boxes::made::wobble;

    /// The sizes of the components by flood fill, the slow and plain way.
    fn flooded(shape: [usize; 3], data: &[bool]) -> Vec<usize> {
        let mut left = data.to_vec();
        let mut sizes = Vec::new();
        while let Some(start) = left.iter().position(|&v| v) {
            let (mut size, mut open) = (0, vec![start]);
            left[start] = false;
            while let Some(n) = open.pop() {
                size += 1;
                let at = [n % shape[0], n / shape[0] % shape[1], n / shape[0] / shape[1]];
                for step in 0..27usize {
                    let steps = [step % 3, step / 3 % 3, step / 9];
                    let next: Option<Vec<usize>> = (0..3)
                        .map(|a| (at[a] + steps[a]).checked_sub(1).filter(|&v| v < shape[a]))
                        .collect();
                    let Some(next) = next else { continue };
                    let m = next[0] + shape[0] * (next[1] + shape[1] * next[2]);
                    if left[m] {
                        left[m] = false;
                        open.push(m);
                    }
                }
            }
            sizes.push(size);
        }
        sizes.sort_by_key(|&size| std::cmp::Reverse(size));
        sizes
    }

    #[test]
    fn pieces_are_those_of_a_flood_fill() {
        for (n, shape) in
            [[7, 6, 5], [1, 9, 4], [12, 1, 1], [5, 5, 5], [9, 4, 3]].into_iter().enumerate()
        {
            for density in [-0.9, -0.75, -0.5, 0.2] {
                let voxels = shape.iter().product::<usize>();
                let data: Vec<bool> = (0..voxels).map(|v| wobble(1000 * n + v) < density).collect();
                let found = pieces(shape, &data, |v| v);
                let sizes: Vec<usize> = found.iter().map(|piece| piece.voxels).collect();
                assert_eq!(sizes, flooded(shape, &data), "{shape:?} {density}");
            }
        }
    }

    #[test]
    fn a_piece_says_where_it_is() {
        let shape = [6, 5, 4];
        let inside = [[1, 1, 1], [2, 1, 1], [3, 2, 2], [5, 4, 3]];
        let mut data = vec![0u16; 120];
        inside.iter().for_each(|&[i, j, k]| data[i + 6 * (j + 5 * k)] = 2);
        let found = pieces(shape, &data, |v| v == 2);
        let expected = [
            Piece { voxels: 3, first: [1, 1, 1], last: [3, 2, 2] },
            Piece { voxels: 1, first: [5, 4, 3], last: [5, 4, 3] },
        ];
        assert_eq!(found, expected);
        assert!(pieces(shape, &data, |v| v == 3).is_empty());
    }
}
