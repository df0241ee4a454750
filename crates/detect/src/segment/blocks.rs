//! A grid in blocks, so that the channels of a large image never are in memory as a whole.

use pbt_tree::Block;

/// Parts of a row of `n` voxels, each as long as the others or one shorter, none longer than `edge`:
/// the first voxel of each and the one beyond its last.
pub(crate) fn parts(n: usize, edge: usize) -> Vec<[usize; 2]> {
    let count = n.div_ceil(edge.max(1));
    (0..count).map(|part| [part * n / count, (part + 1) * n / count]).collect()
}

/// Blocks that cover a grid of this shape, k slowest.
pub(crate) fn blocks(shape: [usize; 3], edge: usize) -> Vec<Block> {
    let [i, j, k] = shape.map(|n| parts(n, edge));
    let mut all = Vec::new();
    for k in &k {
        for j in &j {
            all.extend(
                i.iter().map(|i| Block { min: [i[0], j[0], k[0]], max: [i[1], j[1], k[1]] }),
            );
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_voxel_is_in_one_block() {
        for (shape, edge) in [([1, 1, 1], 96), ([5, 7, 11], 4), ([97, 2, 192], 96), ([3, 3, 3], 1)]
        {
            let blocks = blocks(shape, edge);
            assert!(blocks.iter().all(|b| b.shape().iter().all(|n| (1..=edge).contains(n))));
            assert_eq!(
                blocks.iter().map(Block::len).sum::<usize>(),
                shape.iter().product::<usize>()
            );
            let holds =
                |b: &Block, at: [usize; 3]| (0..3).all(|a| (b.min[a]..b.max[a]).contains(&at[a]));
            for at in [[0, 0, 0], shape.map(|n| n - 1), shape.map(|n| n / 2)] {
                assert_eq!(blocks.iter().filter(|b| holds(b, at)).count(), 1);
            }
        }
    }
}
